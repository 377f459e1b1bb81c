import { getJSON } from '../shell/request';

export type Member = {
  name: string;
  url: string;
  version: string;
  role: 'leader' | 'follower' | 'restoring' | 'away';
  /** When a member was seen last that is away. */
  seen?: string;
  records: number;
  /** The records that it lacks, and for how long the oldest of them exists. */
  behind: number;
  lag_seconds: number;
  /** What was not copied to it yet: contents of rows, live ISOs, and blobs of pushed images. */
  missing_contents: number;
  missing_live_isos: number;
  missing_blobs: number;
  clock_seconds: number;
  /** Why it could not be asked. */
  problem?: string;
};

/** A server of etcd. */
export type Server = {
  url: string;
  version?: string;
  leader: boolean;
  /** Why it does not answer. */
  problem?: string;
  latency_seconds: number;
  bytes: number;
  /** Absent if it is unknown. */
  quota_bytes?: number;
  no_space: boolean;
  damaged: boolean;
};

/** The response of `GET /api/landfall/v1/fleet`. */
export type Fleet = {
  /** "" on a single machine. */
  fleet: string;
  /** The member that answers. */
  member: string;
  leading: string;
  since?: string;
  records: number;
  etcd_servers?: Server[];
  /** Why etcd can't be asked. */
  problem?: string;
  members: Member[];
  /** The address of the leader, if one is configured, and why hosts may not reach it there. */
  virtual_ip?: { address: string; interface: string; problem?: string };
  /** What a loss of a machine now would cost, and whether that is nothing. */
  loss: string;
  safe: boolean;
};

export const readFleet = (signal?: AbortSignal) => getJSON<Fleet>('/api/landfall/v1/fleet', signal);
