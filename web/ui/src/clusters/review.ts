import type { HostRow } from '../hosts/api';
import { roleOf } from '../hosts/table';
import type { ClusterDetails, Readiness } from './api';

/** One line of the review: a term and what it means for the installation. */
export type Line = { term: string; text: string };

const platforms: Record<string, string> = {
  baremetal: 'Bare metal',
  none: 'None: the cluster knows nothing of its machines',
  external: 'External',
  nutanix: 'Nutanix',
  vsphere: 'vSphere',
};

const present = (lines: [string, string | undefined][]): Line[] =>
  lines.flatMap(([term, text]) => (text ? [{ term, text }] : []));

const listed = (texts: (string | undefined)[]): string => texts.filter(Boolean).join(', ');

/** What is installed, on what. */
export const clusterLines = ({ details, hosts }: Readiness): Line[] =>
  present([
    ['Name', details.name],
    ['Base domain', details.base_dns_domain],
    ['Address of its console', `console-openshift-console.apps.${details.name}.${details.base_dns_domain ?? ''}`],
    ['OpenShift', listed([details.openshift_version, details.cpu_architecture])],
    ['Nodes', nodesOf(details, hosts)],
    ['Platform', platforms[details.platform?.type ?? ''] ?? details.platform?.type],
    ['Disk encryption', encryptionOf(details.disk_encryption)],
    ['Proxy', listed([details.http_proxy, details.https_proxy])],
    ['Additional time servers', details.additional_ntp_source],
  ]);

const nodesOf = (details: ClusterDetails, hosts: HostRow[]): string => {
  const { control_plane_count: count = 3, schedulable_masters: schedulable = false } = details;
  if (count === 1) {
    return 'A single node, which is the control plane and runs workloads.';
  }
  const arbiters = hosts.filter(({ role }) => role === 'arbiter').length;
  const workers = Math.max(0, hosts.length - count - arbiters);
  const parts = [`${String(count)} control-plane nodes`];
  if (arbiters > 0) {
    parts.push('an arbiter');
  }
  if (workers > 0) {
    parts.push(workers === 1 ? 'a worker' : `${String(workers)} workers`);
  }
  const runs = workers === 0 || schedulable ? 'the control plane runs workloads too' : 'the workers run workloads';
  return `${parts.slice(0, -1).join(', ')}${parts.length > 1 ? ' and ' : ''}${parts.at(-1) ?? ''}; ${runs}.`;
};

const encrypted: Record<string, string> = {
  all: 'all nodes',
  masters: 'the control plane',
  workers: 'the workers',
  arbiters: 'the arbiter',
};

const encryptionOf = ({ enable_on: on = 'none', mode = '' }: { enable_on?: string; mode?: string } = {}): string => {
  if (on === 'none' || on === '') {
    return 'None';
  }
  const parts = on.split(',').map((part) => encrypted[part] ?? part);
  return `Disks of ${parts.join(' and ')}, with ${mode === 'tang' ? 'Tang servers' : 'the TPM of each machine'}.`;
};

/** How the cluster is reached, and how its parts reach each other. */
export const networkLines = ({ details, infraEnvs }: Readiness): Line[] =>
  present([
    ['Addresses of hosts', infraEnvs.some(({ static_network_config: config }) => config) ? 'Static' : 'From DHCP'],
    ['Load balancer', balancerOf(details)],
    ['API addresses', listed((details.api_vips ?? []).map(({ ip }) => ip))],
    ['Ingress addresses', listed((details.ingress_vips ?? []).map(({ ip }) => ip))],
    ['Machine networks', listed((details.machine_networks ?? []).map(({ cidr }) => cidr))],
    [
      'Cluster networks',
      listed(
        (details.cluster_networks ?? []).map(({ cidr, host_prefix: prefix }) =>
          prefix ? `${cidr} (/${String(prefix)} for each node)` : cidr,
        ),
      ),
    ],
    ['Service networks', listed((details.service_networks ?? []).map(({ cidr }) => cidr))],
    ['Network type', details.network_type],
  ]);

const balancerOf = (details: ClusterDetails): string => {
  if (details.control_plane_count === 1) {
    return 'None: the single node has all addresses.';
  }
  return details.user_managed_networking || details.load_balancer?.type === 'user-managed'
    ? 'Yours: it must lead to the hosts before the installation.'
    : 'The cluster: its nodes take the API and ingress addresses.';
};

/** A host of the review. */
export type HostLine = { row: HostRow; role: string; addresses: string; disk: string };

export const hostLines = ({ details, hosts }: Readiness): HostLine[] =>
  hosts.map((row) => ({
    row,
    role: roleOf(row),
    addresses: listed(row.hardware?.addresses.slice(0, 2) ?? []) || 'None reported',
    disk: details.hosts?.find(({ id }) => id === row.id)?.installation_disk_path ?? 'Not chosen yet',
  }));

/** The names of the operators that a person has chosen. */
export const chosenOperators = ({ monitored_operators: operators }: ClusterDetails): string[] =>
  (operators ?? []).filter(({ operator_type: type }) => type === 'olm').map(({ name }) => name);
