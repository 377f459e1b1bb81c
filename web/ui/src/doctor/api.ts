import { getJSON } from '../shell/request';

export type Verdict = 'green' | 'unknown' | 'amber' | 'red';

/** One thing that was looked at, as `GET /api/landfall/v1/doctor` tells it. */
export type Finding = {
  area: string;
  subject: string;
  verdict: Verdict;
  asked: string;
  answered: string;
  do?: string;
};

export type Report = {
  at: string;
  cluster?: string;
  verdict: Verdict;
  findings: Finding[];
};

export type Cluster = { id: string; name: string };

/**
 * Has the appliance look at the site, which takes some seconds; for a cluster, at what that one needs too. DHCP servers are
 * asked only if that is wanted: it sends packets to all machines of the appliance's networks.
 */
export const examine = (clusterId: string, dhcp: boolean, signal?: AbortSignal) =>
  getJSON<Report>(
    `/api/landfall/v1/doctor?${new URLSearchParams({
      ...(clusterId && { cluster_id: clusterId }),
      ...(dhcp && { dhcp: 'true' }),
    }).toString()}`,
    signal,
  );

export const listClusters = (signal?: AbortSignal) =>
  getJSON<Cluster[]>('/api/assisted-install/v2/clusters', signal);
