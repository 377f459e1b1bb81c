import { getJSON } from '../shell/request';

export type Installation = {
  id: string;
  name: string;
  openshift_version: string;
  status: string;
  status_info: string;
  percent: number;
  started_at?: string;
};

/** A cluster, host or server that needs a person. */
export type Item = {
  kind: 'cluster' | 'host' | 'server' | 'management-cluster' | 'replica' | 'backups';
  id: string;
  name: string;
  cluster_id?: string;
  /** Of a host. */
  infra_env_id?: string;
  status: string;
  status_info: string;
};

export type Disk = {
  path: string;
  free_bytes: number;
  /** 0 if it is unknown. */
  total_bytes: number;
  /** The entries of the data directory, the largest first; "" is the directory itself. */
  parts: { name: string; bytes: number }[];
};

/** The response of `GET /api/landfall/v1/overview`. */
export type Overview = {
  at: string;
  /** Numbers by status. */
  clusters: Record<string, number>;
  hosts: Record<string, number>;
  servers: number;
  failed_servers: number;
  installations: Installation[];
  attention: Item[];
  /** Including those that the list leaves out. */
  attention_total: number;
  disk: Disk;
  /** Whether the appliance is a member of a fleet. */
  fleet: boolean;
};

export const readOverview = (signal?: AbortSignal) => getJSON<Overview>('/api/landfall/v1/overview', signal);
