import { listClusters as listRows, type ClusterRow } from '../clusters/list';
import { getJSON } from '../shell/request';
import { byName } from '../shell/rows';

export type Severity = 'green' | 'unknown' | 'amber' | 'red';

/** One finding of `GET /api/landfall/v1/doctor`. */
export type Finding = {
  area: string;
  subject: string;
  verdict: Severity;
  asked: string;
  answered: string;
  do?: string;
};

export type Report = {
  at: string;
  cluster?: string;
  verdict: Severity;
  findings: Finding[];
};

/**
 * Checks the site, which takes some seconds. With a cluster, it also checks the requirements of the
 * cluster. DHCP servers are queried on request only, because the query goes to all machines in the
 * appliance's networks.
 */
export const diagnose = (clusterId: string, dhcp: boolean, signal?: AbortSignal) =>
  getJSON<Report>(
    `/api/landfall/v1/doctor?${new URLSearchParams({
      ...(clusterId && { cluster_id: clusterId }),
      ...(dhcp && { dhcp: 'true' }),
    }).toString()}`,
    signal,
  );

/** The clusters of the site by name. The list with all their data would be many times as long. */
export const listClusters = async (signal?: AbortSignal): Promise<ClusterRow[]> => byName(await listRows([], signal));
