/** The URL of a cluster's journal: a signed file of its events, without secrets. */
export const journalUrl = (clusterId: string): string =>
  `/api/landfall/v1/clusters/${encodeURIComponent(clusterId)}/journal`;
