import { stateOf } from '../overview/words';
import { getJSON } from '../shell/request';
import { compareNatural } from '../shell/rows';
import type { Order } from '../shell/table';

/** A cluster, as listed by `GET /api/landfall/v1/clusters`. */
export type ClusterRow = {
  id: string;
  name: string;
  base_dns_domain?: string;
  openshift_version: string;
  cpu_architecture?: string;
  status: string;
  status_info: string;
  percent: number;
  control_plane_count: number;
  hosts: number;
  created_at: string;
  status_updated_at: string;
};

/** The clusters of the site; with `ids`, only these clusters. */
export const listClusters = async (ids: string[] = [], signal?: AbortSignal): Promise<ClusterRow[]> => {
  const query = ids.length > 0 ? `?${ids.map((id) => `cluster_id=${encodeURIComponent(id)}`).join('&')}` : '';
  return (await getJSON<{ clusters: ClusterRow[] }>(`/api/landfall/v1/clusters${query}`, signal)).clusters;
};

/** What the table shows: each empty text shows all. */
export type Filter = { text: string; state: string; version: string };

const names: Record<keyof Filter, string> = { text: 'q', state: 'state', version: 'version' };

/** Reads a filter from the query of the page's address. */
export const filterOf = (query: URLSearchParams): Filter => ({
  text: query.get(names.text) ?? '',
  state: query.get(names.state) ?? '',
  version: query.get(names.version) ?? '',
});

/** The query of a filter, without empty parts. */
export const queryOf = (filter: Filter): Record<string, string> =>
  Object.fromEntries(
    (Object.keys(names) as (keyof Filter)[])
      .filter((key) => filter[key] !== '')
      .map((key) => [names[key], filter[key]]),
  );

/** Reports whether a cluster matches all parts of a filter. */
export const matches = (row: ClusterRow, { text, state, version }: Filter): boolean => {
  if ((state !== '' && stateOf(row.status).text !== state) || (version !== '' && row.openshift_version !== version)) {
    return false;
  }
  const found = [row.name, row.base_dns_domain, row.id, row.openshift_version].join(' ').toLowerCase();
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => found.includes(word));
};

export type Column = 'name' | 'state' | 'version' | 'hosts' | 'created';

/** The columns of the table in order, with their headings. */
export const columns: { id: Column; name: string }[] = [
  { id: 'name', name: 'Cluster' },
  { id: 'state', name: 'State' },
  { id: 'version', name: 'OpenShift' },
  { id: 'hosts', name: 'Hosts' },
  { id: 'created', name: 'Created' },
];

const valueOf = (row: ClusterRow, column: Column): string => {
  switch (column) {
    case 'name':
      return row.name;
    case 'state':
      return stateOf(row.status).text;
    case 'version':
      return row.openshift_version;
    case 'hosts':
      return String(row.hosts);
    case 'created':
      return row.created_at;
  }
};

/** The clusters in natural order; equal ones are ordered by name. */
export const sorted = (rows: ClusterRow[], { by, direction }: Order<Column>): ClusterRow[] => {
  const sign = direction === 'asc' ? 1 : -1;
  return [...rows].sort(
    (a, b) =>
      sign * compareNatural(valueOf(a, by), valueOf(b, by)) ||
      compareNatural(a.name, b.name) ||
      a.id.localeCompare(b.id),
  );
};
