import { compareNatural } from '../shell/rows';
import type { Order } from '../shell/table';
import type { HostRow, Role } from './api';
import { stateOf } from './states';

/** What the table shows: each empty text shows all. */
export type Filter = {
  text: string;
  status: string;
  cluster: string;
  infraEnv: string;
  role: string;
  problem: boolean;
};

export const noFilter: Filter = { text: '', status: '', cluster: '', infraEnv: '', role: '', problem: false };

/** The value of the cluster filter for hosts of no cluster. */
export const noCluster = 'none';

const names: Record<keyof Filter, string> = {
  text: 'q',
  status: 'status',
  cluster: 'cluster',
  infraEnv: 'infra-env',
  role: 'role',
  problem: 'problem',
};

/** Reads a filter from the query of the page's address. */
export const filterOf = (query: URLSearchParams): Filter => ({
  text: query.get(names.text) ?? '',
  status: query.get(names.status) ?? '',
  cluster: query.get(names.cluster) ?? '',
  infraEnv: query.get(names.infraEnv) ?? '',
  role: query.get(names.role) ?? '',
  problem: query.get(names.problem) === 'true',
});

/** The query of a filter, without empty parts. */
export const queryOf = (filter: Filter): Record<string, string> =>
  Object.fromEntries(
    (Object.keys(names) as (keyof Filter)[])
      .filter((key) => filter[key] !== '' && filter[key] !== false)
      .map((key) => [names[key], String(filter[key])]),
  );

const roles: Record<Role, string> = {
  'auto-assign': 'Automatic',
  master: 'Control plane',
  worker: 'Worker',
  arbiter: 'Arbiter',
  bootstrap: 'Bootstrap',
};

export const roleName = (role: Role): string => roles[role];

/** The role of a host in words: the automatic role with the suggestion. */
export const roleOf = ({ role, suggested_role: suggested, bootstrap }: HostRow): string => {
  const name =
    role === 'auto-assign' && suggested && suggested !== role
      ? `${roles[suggested]} (automatic)`
      : roles[role];
  return bootstrap ? `${name}, bootstrap` : name;
};

const ended = ['installed', 'added-to-existing-cluster'];

/** The reason why a host needs a person; '' for a host without a problem. */
export const problemOf = (host: HostRow): string => {
  if (['red', 'orange'].includes(stateOf(host.status).color)) {
    return host.first_failing ?? host.status_info;
  }
  if (host.bmc?.error) {
    return host.bmc.error;
  }
  return ended.includes(host.status) ? '' : (host.first_failing ?? '');
};

/** The states in which no installation reads the name and the role of a host, without -unbound. */
const beforeInstallation = ['discovering', 'known', 'insufficient', 'disconnected', 'pending-for-input', 'binding',
  'unbinding', 'disabled'];

/** Whether the name and the role of the host can change. */
export const isBeforeInstallation = ({ status }: HostRow): boolean =>
  beforeInstallation.includes(status.replace(/-unbound$/, ''));

/** Whether the host can be bound to a cluster. */
export const canBind = ({ cluster_id: cluster, status }: HostRow): boolean => !cluster && status === 'known-unbound';

/** The states in which a host is being prepared or installed, or already leaves its cluster. */
const keepsCluster = /^(preparing|installing|unbinding|reclaiming)/;

/** Whether the host can leave its cluster. */
export const canUnbind = ({ cluster_id: cluster, infra_env_cluster_id: owner, status }: HostRow): boolean =>
  Boolean(cluster) && !owner && !keepsCluster.test(status);

/** Whether a cluster takes hosts in its state. */
export const acceptsHosts = ({ status }: { status: string }): boolean =>
  ['pending-for-input', 'ready', 'insufficient', 'adding-hosts'].includes(status);

/** Whether manifests wait for a person's approval of the host. */
export const waitsForApproval = ({ approved, status }: HostRow): boolean =>
  approved === false && approvable.includes(status.replace(/-unbound$/, ''));

/** The states of hosts before an installation. */
const approvable = ['discovering', 'known', 'insufficient', 'disconnected', 'pending-for-input', 'binding'];

/** Reports whether a host matches all parts of a filter. */
export const matches = (host: HostRow, filter: Filter): boolean => {
  const { text, status, cluster, infraEnv, role, problem } = filter;
  if (status !== '' && stateOf(host.status).name !== status) {
    return false;
  }
  if (cluster !== '' && (cluster === noCluster ? host.cluster_id !== undefined : host.cluster_id !== cluster)) {
    return false;
  }
  if ((infraEnv !== '' && host.infra_env_id !== infraEnv) || (role !== '' && host.role !== role)) {
    return false;
  }
  if (problem && problemOf(host) === '') {
    return false;
  }
  const found = searchable(host);
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => found.includes(word));
};

/** The texts of a host by which it is found, in lower case. */
const searchable = ({ name, id, cluster_name: cluster, infra_env_name: infraEnv, hardware, bmc }: HostRow): string =>
  [
    name,
    id,
    cluster,
    infraEnv,
    bmc?.name,
    hardware?.serial_number,
    hardware?.manufacturer,
    hardware?.model,
    ...(hardware?.addresses ?? []),
    ...(hardware?.macs ?? []),
  ]
    .join(' ')
    .toLowerCase();

export type Column = 'name' | 'status' | 'role' | 'cluster' | 'infraEnv' | 'hardware' | 'addresses' | 'serial' | 'bmc'
  | 'contact' | 'clock';

/** The columns of the table in order, with their headings. The name is always shown. */
export const columns: { id: Column; name: string; isDefault: boolean }[] = [
  { id: 'name', name: 'Host', isDefault: true },
  { id: 'status', name: 'State', isDefault: true },
  { id: 'role', name: 'Role', isDefault: true },
  { id: 'cluster', name: 'Cluster', isDefault: true },
  { id: 'infraEnv', name: 'Infra-env', isDefault: false },
  { id: 'hardware', name: 'Hardware', isDefault: true },
  { id: 'addresses', name: 'Addresses', isDefault: true },
  { id: 'serial', name: 'Serial number', isDefault: false },
  { id: 'bmc', name: 'BMC', isDefault: false },
  { id: 'contact', name: 'Last contact', isDefault: true },
  { id: 'clock', name: 'Clock', isDefault: false },
];

/** The value by which a column is sorted. */
const valueOf = (host: HostRow, column: Column): string | number => {
  switch (column) {
    case 'name':
      return host.name;
    case 'status':
      return stateOf(host.status).name;
    case 'role':
      return roleOf(host);
    case 'cluster':
      return host.cluster_name ?? '';
    case 'infraEnv':
      return host.infra_env_name;
    case 'hardware':
      return host.hardware?.memory_bytes ?? 0;
    case 'addresses':
      return host.hardware?.addresses[0] ?? '';
    case 'serial':
      return host.hardware?.serial_number ?? '';
    case 'bmc':
      return host.bmc?.name ?? '';
    case 'contact':
      return host.last_contact;
    case 'clock':
      return Math.abs(host.clock_offset_seconds ?? 0);
  }
};

/** The hosts in order; numbers in names count as numbers, and equal hosts are ordered by name. */
export const sorted = (hosts: HostRow[], { by, direction }: Order<Column>): HostRow[] => {
  const sign = direction === 'asc' ? 1 : -1;
  return [...hosts].sort((a, b) => {
    const first = valueOf(a, by);
    const second = valueOf(b, by);
    const order =
      typeof first === 'number' && typeof second === 'number'
        ? first - second
        : compareNatural(String(first), String(second));
    return sign * order || compareNatural(a.name, b.name) || a.id.localeCompare(b.id);
  });
};

export const keyOf = (host: Pick<HostRow, 'infra_env_id' | 'id'>): string => `${host.infra_env_id}/${host.id}`;

/** The offset of a host's clock in words; '' if it is unknown. */
export const clockOf = ({ clock_offset_seconds: offset }: HostRow): string => {
  if (offset === undefined) {
    return '';
  }
  const seconds = Math.round(Math.abs(offset));
  return seconds < 2 ? 'Same as here' : `${String(seconds)} s ${offset < 0 ? 'behind' : 'ahead'}`;
};

/** "1 host" or "3 hosts". */
export const count = (number: number): string => `${String(number)} ${number === 1 ? 'host' : 'hosts'}`;

export type Result = { host: HostRow; error?: string };

/** The sentences about the results of an action on several hosts. `done` is "Role set on". */
export const summaryOf = (done: string, results: Result[]): string => {
  const failed = results.filter(({ error }) => error !== undefined);
  const good = results.length - failed.length;
  return [
    good > 0 || failed.length === 0 ? `${done} ${count(good)}.` : '',
    failed.length > 0 ? `${count(failed.length)} failed.` : '',
  ]
    .filter(Boolean)
    .join(' ');
};

/** Performs an action on hosts, a few at a time, and returns the results in order. */
export const forEachHost = async (
  hosts: HostRow[],
  act: (host: HostRow) => Promise<unknown>,
  explain: (error: unknown) => string,
): Promise<Result[]> => {
  const results: Result[] = hosts.map((host) => ({ host }));
  let next = 0;
  const work = async () => {
    for (let at = next++; at < hosts.length; at = next++) {
      const result = results[at];
      if (!result) {
        return;
      }
      try {
        await act(result.host);
      } catch (error) {
        result.error = explain(error);
      }
    }
  };
  await Promise.all([work(), work(), work(), work()]);
  return results;
};
