import { getJSON, request } from '../shell/request';

const root = '/api/landfall/v1/ams';

/** The fields of a cluster that are sent to AMS in addition to its status. */
export type Fields = { display_name?: string; external_cluster_id?: string; console_url?: string };

export type LineState = 'waiting' | 'sent' | 'attention' | 'left';

/** The state of one cluster in AMS: confirmed and pending fields. */
export type ClusterLine = {
  cluster_id: string;
  name: string;
  subscription_id: string;
  state: LineState;
  since?: string;
  reason?: string;
  kind?: 'blocked' | 'dead' | 'attention';
  http?: number;
  code?: string;
  operation_id?: string;
  note?: string;
  ams_status?: string;
  told: Fields;
  to_tell: Fields;
  edited: Fields;
  to_become: 'absent' | 'reserved' | 'active';
  by?: string;
  attempts?: number;
  next_try?: string;
  deleted?: boolean;
};

export type RelayState =
  | 'off'
  | 'no-credentials'
  | 'by-hand'
  | 'offline'
  | 'online'
  | 'paused-credentials'
  | 'paused-permission'
  | 'paused-identity'
  | 'paused-person';

/** The status of the connection to AMS, from `GET /api/landfall/v1/ams`. */
export type AmsStatus = {
  state: RelayState;
  since?: string;
  problem?: string;
  api_url: string;
  site_key: string;
  organization?: string;
  account?: string;
  last_contact?: string;
  next_try?: string;
  token_until?: string;
  clock_skew_seconds: number;
  connected_till?: string;
  waiting: number;
  sent: number;
  attention: number;
  left: number;
  oldest_waiting?: string;
  seconds_left: number;
  couriers: { export_id: string; until: string; clusters: number }[];
  total: number;
  clusters: ClusterLine[];
};

export type Selection = { state: LineState | ''; name: string; offset: number; limit: number };

export const readAms = ({ state, name, offset, limit }: Selection, signal?: AbortSignal) =>
  getJSON<AmsStatus>(
    `${root}?${new URLSearchParams({ state, name, offset: String(offset), limit: String(limit) }).toString()}`,
    signal,
  );

export type Order = 'retry' | 'create-again' | 'leave';

/**
 * Requests that a cluster is sent again, created again, or no longer sent. `by` is the name in the
 * event, for an appliance that does not know its users.
 */
export const orderCluster = (clusterId: string, order: Order, by?: string) =>
  request('POST', `${root}/clusters/${encodeURIComponent(clusterId)}/${order}`, { json: { by } });

/**
 * Sets values to send instead of the cluster's own. For an empty value, the cluster's own is sent.
 */
export const editCluster = (clusterId: string, fields: Fields, by?: string) =>
  request('POST', `${root}/clusters/${encodeURIComponent(clusterId)}/edit`, { json: { by, ...fields } });

/**
 * Ends all waits. A site that connects only on request may then send for the given number of
 * minutes.
 */
export const connectFor = (minutes: number) => request('POST', `${root}/connect`, { json: { minutes } });

/** Ends a pause that requires a decision of the user. */
export const acceptIdentity = () => request('POST', `${root}/accept`);

export type Credentials = { offline_token: string } | { client_id: string; client_secret: string };

export const logIn = (credentials: Credentials) => request('POST', `${root}/credentials`, { json: credentials });

export const logOut = () => request('DELETE', `${root}/credentials`);

/** Writes the pending changes to a courier's file. */
export const exportCourier = async (): Promise<{ name: string; file: Blob }> => {
  const response = await request('POST', `${root}/exports`);
  const name = /filename="([^"]+)"/.exec(response.headers.get('Content-Disposition') ?? '')?.[1];
  return { name: name ?? 'landfall-ams.lfc', file: await response.blob() };
};

/** Returns the changes of a lost courier to the relay. */
export const revokeCourier = (exportId: string) => request('DELETE', `${root}/exports/${encodeURIComponent(exportId)}`);

export type Imported = { told: number; later: number; already: number; stopped: number; unknown: number };

/**
 * Imports a courier's receipts; `trust` is the fingerprint of a key that is used for the first
 * time.
 */
export const importReceipts = async (file: Blob, trust: string): Promise<Imported> =>
  (await (
    await request('POST', `${root}/receipts?${new URLSearchParams({ trust }).toString()}`, { body: file })
  ).json()) as Imported;

/** A token with which programs, such as the ocm command, use the site instead of AMS. */
export type Token = {
  id: string;
  kind: string;
  username: string;
  read_only?: boolean;
  created_at: string;
  expires_at?: string;
};

export const listTokens = (signal?: AbortSignal) => getJSON<Token[]>(`${root}/tokens`, signal);

export const createToken = async (days: number): Promise<Token & { token: string }> =>
  (await (await request('POST', `${root}/tokens`, { json: { days } })).json()) as Token & { token: string };

export const revokeToken = (id: string) => request('DELETE', `${root}/tokens/${encodeURIComponent(id)}`);
