import { listOf, problemOfPullSecret } from '../settings/check';
import { getJSON, request, sentenceOf } from '../shell/request';

const api = '/api/assisted-install/v2';

export type Platform = 'none' | 'nutanix' | 'vsphere' | 'external';

/** The groups of nodes whose disks can be encrypted. */
export const encryptable = ['masters', 'arbiters', 'workers'] as const;

/** What a person enters for a new cluster. */
export type NewCluster = {
  name: string;
  domain: string;
  version: string;
  architecture: string;
  controlPlanes: number;
  platform: Platform;
  /** "" if the cluster uses the pull secret of the site. */
  pullSecret: string;
  usesSitePullSecret: boolean;
  hasManifests: boolean;
  hasStaticNetworks: boolean;
  encrypted: (typeof encryptable)[number][];
  encryption: 'tpmv2' | 'tang';
  /** One Tang server a line: its URL, a space, its thumbprint. */
  tang: string;
};

export type Version = {
  cpu_architectures?: string[];
  default?: boolean;
  display_name?: string;
  support_level?: string;
};

export const readVersions = (signal?: AbortSignal) =>
  getJSON<Record<string, Version>>(`${api}/openshift-versions`, signal);

/** The support of each feature for a version on an architecture. */
export type Support = Record<string, string>;

export const readSupport = async (version: string, architecture: string, signal?: AbortSignal): Promise<Support> => {
  const query = new URLSearchParams({ openshift_version: version, cpu_architecture: architecture });
  return (await getJSON<{ features: Support }>(`${api}/support-levels/features?${query.toString()}`, signal)).features;
};

/** Whether a feature can be used; it can until the support is known. */
export const isSupported = (support: Support | undefined, feature: string): boolean =>
  !support || !['unsupported', 'unavailable'].includes(support[feature] ?? 'unsupported');

/** The numbers of control-plane nodes that a cluster can have. */
export const controlPlanes: { count: number; label: string; feature?: string }[] = [
  { count: 1, label: '1 (single node)', feature: 'SNO' },
  { count: 2, label: '2 (with an arbiter or fencing)', feature: 'TNA' },
  { count: 3, label: '3 (highly available)' },
  { count: 4, label: '4', feature: 'NON_STANDARD_HA_CONTROL_PLANE' },
  { count: 5, label: '5', feature: 'NON_STANDARD_HA_CONTROL_PLANE' },
];

/** Whether a number of control-plane nodes can be chosen. */
export const canHave = (count: number, support: Support | undefined): boolean => {
  const feature = controlPlanes.find((one) => one.count === count)?.feature;
  return !feature || isSupported(support, feature);
};

/** The platforms whose services a cluster can use. */
export const platforms: { id: Platform; label: string; feature?: string }[] = [
  { id: 'none', label: 'None' },
  { id: 'nutanix', label: 'Nutanix', feature: 'NUTANIX_INTEGRATION' },
  { id: 'external', label: 'Oracle Cloud Infrastructure', feature: 'EXTERNAL_PLATFORM_OCI' },
  { id: 'vsphere', label: 'vSphere', feature: 'VSPHERE_INTEGRATION' },
];

/** Whether a platform can be chosen for a cluster. */
export const canUse = (platform: Platform, count: number, support: Support | undefined): boolean => {
  const feature = platforms.find(({ id }) => id === platform)?.feature;
  return !feature || ((count !== 1 || platform === 'external') && isSupported(support, feature));
};

/** The groups of nodes that a cluster with so many control-plane nodes has. */
export const groupsOf = (count: number): NewCluster['encrypted'] =>
  count === 1 ? ['masters'] : [...encryptable];

/**
 * The inputs with the default in place of each choice that the version, the architecture or another
 * input rules out.
 */
export const possible = (cluster: NewCluster, support: Support | undefined): NewCluster => {
  const count = canHave(cluster.controlPlanes, support) ? cluster.controlPlanes : 3;
  return {
    ...cluster,
    controlPlanes: count,
    platform: canUse(cluster.platform, count, support) ? cluster.platform : 'none',
    encrypted: cluster.encrypted.filter((group) => groupsOf(count).includes(group)),
  };
};

const label = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/;

/** Why the inputs can't be used, by field; empty if they can. */
export const problemsOf = (
  cluster: NewCluster,
  others: { name: string; base_dns_domain?: string }[],
): Partial<Record<'name' | 'domain' | 'pullSecret' | 'tang', string>> => {
  const { name, domain, pullSecret, usesSitePullSecret, encrypted, encryption, tang } = cluster;
  const problems: ReturnType<typeof problemsOf> = {};
  if (name === '') {
    problems.name = 'Enter a name.';
  } else if (name.length > 54 || !label.test(name)) {
    problems.name =
      'Use at most 54 lowercase letters, digits and hyphens. The first and the last are letters or digits.';
  } else if (others.some((other) => other.name === name && other.base_dns_domain === domain)) {
    problems.name = 'A cluster with this name and base domain exists already.';
  }
  if (domain === '') {
    problems.domain = 'Enter a domain.';
  } else if (!domain.split('.').every((part) => part.length <= 63 && label.test(part))) {
    problems.domain = 'A domain has the form site.example.com, in lowercase.';
  }
  if (!usesSitePullSecret) {
    const problem = pullSecret.trim() === '' ? 'Enter a pull secret.' : problemOfPullSecret(pullSecret);
    if (problem) {
      problems.pullSecret = problem;
    }
  }
  if (encrypted.length > 0 && encryption === 'tang' && !tangServers(tang)) {
    problems.tang = 'Enter one server a line: its URL, a space, its thumbprint.';
  }
  return problems;
};

/** The Tang servers of a text; undefined if a line is wrong or there is none. */
const tangServers = (text: string): { url: string; thumbprint: string }[] | undefined => {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  const servers = lines.map((line) => listOf(line));
  return servers.length > 0 && servers.every(([url, thumbprint, ...rest]) =>
    /^https?:\/\/./.test(url ?? '') && thumbprint && rest.length === 0)
    ? servers.map(([url = '', thumbprint = '']) => ({ url, thumbprint }))
    : undefined;
};

/**
 * The networks of hosts that are not described yet. The wizard's step for static networks knows
 * them by the comment and the name.
 */
const placeholder = [
  {
    network_yaml: `#generated by ui form view
interfaces:
  - name: DUMMY4
    type: ethernet
    state: up
    ipv4:
      address:
        - ip: 0.0.0.0
          prefix-length: 24
      enabled: true
      dhcp: false
`,
    mac_interface_map: [{ mac_address: '01:23:45:67:89:AB', logical_nic_name: 'DUMMY4' }],
  },
];

/** The bodies of the requests that create a cluster and its infra-env. */
export const bodiesOf = (cluster: NewCluster, support: Support | undefined) => {
  const both = {
    openshift_version: cluster.version,
    cpu_architecture: cluster.architecture,
    ...(cluster.usesSitePullSecret ? {} : { pull_secret: cluster.pullSecret.trim() }),
  };
  const isExternal = cluster.platform === 'external';
  const external = { external: { platform_name: 'oci', cloud_controller_manager: 'External' } };
  const all = cluster.controlPlanes === 1 || cluster.encrypted.length === encryptable.length;
  return {
    cluster: {
      ...both,
      name: cluster.name,
      base_dns_domain: cluster.domain,
      control_plane_count: cluster.controlPlanes,
      ...(cluster.platform !== 'none' && { platform: { type: cluster.platform, ...(isExternal && external) } }),
      ...(!isSupported(support, 'CLUSTER_MANAGED_NETWORKING') && { user_managed_networking: true }),
      ...(cluster.encrypted.length > 0 && {
        disk_encryption: {
          enable_on: all ? 'all' : encryptable.filter((group) => cluster.encrypted.includes(group)).join(','),
          mode: cluster.encryption,
          ...(cluster.encryption === 'tang' && { tang_servers: JSON.stringify(tangServers(cluster.tang)) }),
        },
      }),
    },
    infraEnv: {
      ...both,
      name: `${cluster.name}_infra-env`,
      ...(isExternal && { image_type: 'minimal-iso' }),
      ...(cluster.hasStaticNetworks && !isExternal && { static_network_config: placeholder }),
    },
  };
};

/** Creates a cluster with its infra-env, and returns its id. */
export const create = async (cluster: NewCluster, support: Support | undefined): Promise<string> => {
  const bodies = bodiesOf(cluster, support);
  const { id } = (await (await request('POST', `${api}/clusters`, { json: bodies.cluster })).json()) as { id: string };
  try {
    await request('POST', `${api}/infra-envs`, { json: { ...bodies.infraEnv, cluster_id: id } });
    if (cluster.hasManifests || cluster.platform === 'external') {
      const settings = `AI_UI:${JSON.stringify({ addCustomManifests: true })}`;
      await request('PUT', `${api}/clusters/${id}/ui-settings`, { json: settings });
    }
  } catch (error) {
    // Without its infra-env, the cluster is of no use, and its name would be taken.
    await request('DELETE', `${api}/clusters/${id}`).catch((why: unknown) => {
      throw new Error(
        `${sentenceOf(error)} The incomplete cluster ${cluster.name} could not be deleted: ${sentenceOf(why)} ` +
          'Delete it in the list of clusters, and try again.',
        { cause: error },
      );
    });
    throw error;
  }
  return id;
};
