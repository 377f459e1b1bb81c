import { findJSON, request } from '../shell/request';

/** A release on a medium. */
export type Release = { version: string; architecture: string; digest: string; pull_spec: string };

/** The copy of a medium on the appliance's disk; without a state, none was ordered. */
export type Staging = {
  state: '' | 'copying' | 'waiting' | 'full' | 'damaged' | 'whole';
  done_bytes: number;
  total_bytes: number;
  message?: string;
};

export type Medium = {
  path: string;
  label: string;
  form: string;
  container: 'tar' | 'folder' | 'iso' | 'compressed';
  present: boolean;
  /** The time since which it is present or missing. */
  since: string;
  number?: number;
  written: string;
  releases: Release[];
  images: number;
  blobs: number;
  bytes: number;
  read_bytes: number;
  damaged: string[];
  problems: string[];
  staging: Staging;
};

/** An image with parts that lie on none of the known media. */
export type Gap = { image: string; missing: string[] };

export type Verify = {
  running: boolean;
  done_bytes: number;
  total_bytes: number;
  damaged: string[];
  message?: string;
};

/** A cluster whose nodes pull from the registry. */
export type Dependent = { id: string; name: string; base_dns_domain: string; status: string };

/** A client that pulls now, or pulled since the appliance started. */
export type Client = {
  address: string;
  /** The name of the host with this address. */
  host?: string;
  pulls: number;
  bytes: number;
  bytes_per_second: number;
  /** The time when it was sent bytes. */
  last: string;
};

/** The response of `GET /api/landfall/v1/registry`. */
export type Registry = {
  host: string;
  media: Medium[];
  /** With a state, the path is only being read, or no medium is plugged in there. */
  unusable: { path: string; problem: string; state?: 'reading' | 'empty' }[];
  /** The added paths, besides those of the configuration. An older leader of a fleet sends none. */
  added?: string[];
  releases: Release[];
  gaps: Gap[];
  notes: string[];
  pushed_bytes: number;
  staged_bytes: number;
  /** The largest sum of pushed and staged bytes; 0 is no limit. */
  limit_bytes: number;
  room_bytes: number;
  room_limit: string;
  dependents: Dependent[];
  /** Whether a hand-over was started. */
  hand_over: boolean;
  /** The bytes that all clients were sent since the appliance started. */
  sent_bytes: number;
  /** Those with the highest rates first. */
  clients: Client[];
  verify: Verify;
};

const root = '/api/landfall/v1/registry';

/** The appliance's registry; null if the configuration has none. */
export const readRegistry = (signal?: AbortSignal): Promise<Registry | null> => findJSON<Registry>(root, signal);

/** Adds a path of the appliance's machine. The response comes when the media there are known. */
export const addMedia = (path: string) => request('POST', `${root}/media`, { json: { path } });

export const startVerify = () => request('POST', `${root}/verify`);

/** What a copy of media to the disk needs. */
export type Plan = {
  media: string[];
  needed_bytes: number;
  room_bytes: number;
  /** What limits the room, in words. */
  limited_by: string;
  fits: boolean;
  /** More may be needed: a compressed archive does not tell its unpacked size. */
  at_least: boolean;
  /** Paths of media that are still being copied. */
  left_out: string[];
};

/** Returns what a copy of a medium needs. The medium is a label, or `all`. */
export const planCopy = async (medium: string): Promise<Plan> =>
  (await (await request('POST', `${root}/stage`, { json: { medium, plan: true } })).json()) as Plan;

export const startCopy = (medium: string) => request('POST', `${root}/stage`, { json: { medium } });

export const cancelCopy = (medium: string) => request('POST', `${root}/stage/cancel`, { json: { medium } });

/** Gives up a missing medium, by its label, or removes a path that was added. */
export const removeMedium = (medium: string) => request('POST', `${root}/media/remove`, { json: { medium } });

/** Removes what no image needs; returns what was removed. */
export const collect = async (): Promise<{ files: number; bytes: number }> =>
  (await (await request('POST', `${root}/gc`)).json()) as { files: number; bytes: number };

export type HandOverState =
  | 'trying'
  | 'copying'
  | 'proving'
  | 'naming'
  | 'adding'
  | 'asking'
  | 'removing'
  | 'done'
  | 'refused'
  | 'stopped';

/** A cluster that gets the site's registry as a second mirror, with its MachineConfigPools. */
export type HandOverCluster = {
  id: string;
  name: string;
  state: 'waiting' | 'rolling-in' | 'both' | 'to-remove' | 'rolling-out' | 'independent' | 'not-dependent';
  message?: string;
  pools: { name: string; machines: number; updated: number }[] | null;
};

/** The response of `GET /api/landfall/v1/registry/hand-over`. */
export type HandOver = {
  way: HandOverRequest['way'];
  /** The addresses of the appliance's registry and of the site's. */
  name: string;
  to: string;
  /** Whether only the releases are copied with which dependent clusters were installed. */
  needed: boolean;
  state: HandOverState;
  /** What it does, waits for, or cannot do; a sentence. */
  message: string;
  by: string;
  started: string;
  images: number;
  bytes: number;
  bytes_done: number;
  /** Images that are not copied, because parts of them lie on no medium. */
  incomplete: string[] | null;
  /** The record that a person sets in the site's DNS, as lines of a zone file. */
  dns_record?: { text: string };
  proofs: { name: string; summary: string }[] | null;
  clusters: HandOverCluster[] | null;
  notes: string[] | null;
};

/** The last hand-over; null if none was started. */
export const readHandOver = (signal?: AbortSignal): Promise<HandOver | null> =>
  findJSON<HandOver>(`${root}/hand-over`, signal);

/** Without a hand-over, a request would be refused, and the browser would log that. */
export const noHandOver = (): Promise<null> => Promise.resolve(null);

/** What a person asks for with a hand-over. Secrets and the CA are optional. */
export type HandOverRequest = {
  way: 'move-name' | 'add-mirror';
  to: string;
  ca?: string;
  pull_secret?: string;
  node_secret?: string;
  needed?: boolean;
};

/** Returns what a hand-over would copy. */
export const planHandOver = async (wanted: HandOverRequest): Promise<HandOver> =>
  (await (await request('POST', `${root}/hand-over`, { json: { ...wanted, plan: true } })).json()) as HandOver;

export const startHandOver = (wanted: HandOverRequest) => request('POST', `${root}/hand-over`, { json: wanted });

/** A person's word to remove the first mirror from all clusters that have both. */
export const confirmHandOver = () => request('POST', `${root}/hand-over/confirm`, { json: { clusters: [] } });

export const cancelHandOver = () => request('POST', `${root}/hand-over/cancel`);
