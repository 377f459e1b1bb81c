/** Where a cluster's journal is downloaded from: all that happened to it, signed and without secrets. */
export const journalUrl = (clusterId: string): string =>
  `/api/landfall/v1/clusters/${encodeURIComponent(clusterId)}/journal`;
