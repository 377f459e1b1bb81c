// The objects of the mock appliance, with the minimal fields of the v2 API that the pages need.

const gib = 1024 ** 3;
const never = '0001-01-01T00:00:00.000Z';

/** Stages of a control plane host's installation. */
export const stages = [
  'Starting installation',
  'Installing',
  'Writing image to disk',
  'Rebooting',
  'Configuring',
  'Joined',
  'Done',
];

export const clusterOf = (id, params) => ({
  kind: 'Cluster',
  id,
  href: `/api/assisted-install/v2/clusters/${id}`,
  name: params.name,
  base_dns_domain: params.base_dns_domain ?? '',
  openshift_version: params.openshift_version,
  ocp_release_image: `registry.site.test/openshift/release:${params.openshift_version}-x86_64`,
  cpu_architecture: params.cpu_architecture ?? 'x86_64',
  control_plane_count: params.control_plane_count ?? 3,
  high_availability_mode: params.control_plane_count === 1 ? 'None' : 'Full',
  platform: params.platform ?? { type: params.control_plane_count === 1 ? 'none' : 'baremetal' },
  pull_secret_set: true,
  ssh_public_key: '',
  hosts: [],
  host_networks: [],
  machine_networks: [],
  cluster_networks: [{ cidr: '10.128.0.0/14', host_prefix: 23 }],
  service_networks: [{ cidr: '172.30.0.0/16' }],
  cluster_network_cidr: '10.128.0.0/14',
  cluster_network_host_prefix: 23,
  service_network_cidr: '172.30.0.0/16',
  network_type: 'OVNKubernetes',
  api_vips: [],
  ingress_vips: [],
  vip_dhcp_allocation: false,
  user_managed_networking: params.control_plane_count === 1,
  schedulable_masters: false,
  schedulable_masters_forced_true: true,
  hyperthreading: 'all',
  disk_encryption: { enable_on: 'none', mode: 'tpmv2' },
  monitored_operators: [
    { cluster_id: id, name: 'console', operator_type: 'builtin', timeout_seconds: 3600 },
    { cluster_id: id, name: 'cvo', operator_type: 'builtin', timeout_seconds: 3600 },
  ],
  feature_usage: '{}',
  status: 'insufficient',
  status_info: 'Cluster is not ready for install',
  status_updated_at: new Date().toISOString(),
  created_at: new Date().toISOString(),
  updated_at: new Date().toISOString(),
  install_started_at: never,
  install_completed_at: never,
  progress: {},
  validations_info: '{}',
});

export const infraEnvOf = (id, params) => ({
  kind: 'InfraEnv',
  id,
  href: `/api/assisted-install/v2/infra-envs/${id}`,
  name: params.name,
  cluster_id: params.cluster_id,
  cpu_architecture: params.cpu_architecture ?? 'x86_64',
  openshift_version: params.openshift_version,
  type: params.image_type ?? 'full-iso',
  pull_secret_set: true,
  proxy: {},
  ssh_authorized_key: '',
  created_at: new Date().toISOString(),
  updated_at: new Date().toISOString(),
});

const inventoryOf = (number, hostname) => ({
  hostname,
  boot: { current_boot_mode: 'uefi' },
  bmc_address: `192.0.2.${String(200 + number)}`,
  cpu: { architecture: 'x86_64', count: 16, flags: ['vmx'], frequency: 2600, model_name: 'Mock CPU' },
  memory: { physical_bytes: 64 * gib, usable_bytes: 63 * gib },
  system_vendor: { manufacturer: 'Mock', product_name: 'Server 1', serial_number: `MOCK${String(number)}` },
  timestamp: Math.floor(Date.now() / 1000),
  disks: [
    {
      id: '/dev/disk/by-id/wwn-0x5000',
      by_id: '/dev/disk/by-id/wwn-0x5000',
      name: 'nvme0n1',
      path: '/dev/nvme0n1',
      drive_type: 'SSD',
      size_bytes: 960_000_000_000,
      installation_eligibility: { eligible: true },
      is_installation_media: false,
    },
    {
      id: '/dev/disk/by-id/wwn-0x6000',
      by_id: '/dev/disk/by-id/wwn-0x6000',
      name: 'sda',
      path: '/dev/sda',
      drive_type: 'HDD',
      size_bytes: 2_000_000_000_000,
      installation_eligibility: { eligible: true },
      is_installation_media: false,
    },
  ],
  interfaces: [
    {
      name: 'eno1',
      has_carrier: true,
      ipv4_addresses: [`192.0.2.${String(10 + number)}/24`],
      ipv6_addresses: [],
      mac_address: `02:00:00:00:00:0${String(number)}`,
      mtu: 1500,
      speed_mbps: 25_000,
      flags: ['up', 'broadcast'],
    },
  ],
  routes: [{ family: 2, gateway: '192.0.2.1', interface: 'eno1', destination: '0.0.0.0' }],
});

/**
 * The operators whose validations the wizard's steps find by name, in the cluster and in each host.
 */
const operatorChecks = ['lso', 'odf', 'lvm', 'cnv', 'nvidia-gpu', 'openshift-ai', 'osc', 'amd-gpu'].map(
  (operator) => `${operator}-requirements-satisfied`,
);

const passed = (ids) => ids.map((id) => ({ id, status: 'success', message: `${id}: valid` }));

export const hostOf = (id, infraEnv, number) => {
  const hostname = `host-${String(number)}`;
  return {
    kind: 'Host',
    id,
    href: `/api/assisted-install/v2/infra-envs/${infraEnv.id}/hosts/${id}`,
    infra_env_id: infraEnv.id,
    cluster_id: infraEnv.cluster_id,
    requested_hostname: hostname,
    role: 'auto-assign',
    suggested_role: 'master',
    status: 'known',
    status_info: 'Host is ready to be installed',
    status_updated_at: new Date().toISOString(),
    created_at: new Date().toISOString(),
    updated_at: new Date().toISOString(),
    checked_in_at: new Date().toISOString(),
    discovery_agent_version: 'mock',
    installation_disk_id: '/dev/disk/by-id/wwn-0x5000',
    installation_disk_path: '/dev/nvme0n1',
    inventory: JSON.stringify(inventoryOf(number, hostname)),
    ntp_sources: JSON.stringify([{ source_name: '192.0.2.1', source_state: 'synced' }]),
    progress: { stage_started_at: never, stage_updated_at: never },
    progress_stages: stages,
    logs_collected_at: never,
    logs_started_at: never,
    validations_info: JSON.stringify({
      hardware: passed([
        'has-inventory',
        'has-min-cpu-cores',
        'has-min-memory',
        'has-min-valid-disks',
        'has-cpu-cores-for-role',
        'has-memory-for-role',
        'hostname-unique',
        'hostname-valid',
        'compatible-with-cluster-platform',
      ]),
      network: passed([
        'connected',
        'media-connected',
        'machine-cidr-defined',
        'belongs-to-machine-cidr',
        'belongs-to-majority-group',
        'has-default-route',
        'ntp-synced',
        'container-images-available',
        'no-ip-collisions-in-network',
        'no-skip-installation-disk',
        'no-skip-missing-disk',
      ]),
      operators: passed(operatorChecks),
    }),
  };
};

/** Sets the cluster's validations and status from its other fields. */
export const validate = (cluster) => {
  const enough = cluster.hosts.length >= (cluster.control_plane_count === 1 ? 1 : 3);
  const single = cluster.control_plane_count === 1;
  const vips = single || (cluster.api_vips.length > 0 && cluster.ingress_vips.length > 0);
  const check = (id, ok) => ({
    id,
    status: ok ? 'success' : 'failure',
    message: ok ? `${id}: valid` : `${id}: not yet`,
  });
  cluster.validations_info = JSON.stringify({
    configuration: [check('pull-secret-set', true), check('dns-domain-defined', cluster.base_dns_domain !== '')],
    'hosts-data': [check('all-hosts-are-ready-to-install', true), check('sufficient-masters-count', enough)],
    network: [
      check('machine-cidr-defined', cluster.machine_networks.length > 0 || single),
      check('cluster-cidr-defined', true),
      check('service-cidr-defined', true),
      check('api-vips-defined', vips),
      check('api-vips-valid', vips),
      check('ingress-vips-defined', vips),
      check('ingress-vips-valid', vips),
      check('ntp-server-configured', true),
    ],
    operators: operatorChecks.map((id) => check(id, true)),
  });
  if (['insufficient', 'pending-for-input', 'ready'].includes(cluster.status)) {
    cluster.status = !enough ? 'insufficient' : vips ? 'ready' : 'pending-for-input';
    cluster.status_info = `The cluster is ${cluster.status}`;
  }
  cluster.total_host_count = cluster.hosts.length;
  cluster.enabled_host_count = cluster.hosts.length;
  cluster.ready_host_count = cluster.hosts.length;
  cluster.host_networks =
    cluster.hosts.length > 0 ? [{ cidr: '192.0.2.0/24', host_ids: cluster.hosts.map((host) => host.id) }] : [];
};
