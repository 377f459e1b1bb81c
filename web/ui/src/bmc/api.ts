import { ApplianceError, getJSON, request } from '../shell/request';
import { byName } from '../shell/rows';

const root = '/api/landfall/v1/bmcs';

export type State = 'registering' | 'available' | 'provisioning' | 'provisioned' | 'deprovisioning' | 'deleting';

/** A server, as listed by `GET /api/landfall/v1/bmcs`. */
export type Server = {
  id: string;
  name: string;
  /** The object that manages the server, such as a BareMetalHost; users cannot change it. */
  owner?: string;
  address: string;
  infra_env_id?: string;
  detached?: boolean;
  state: State;
  doing?: string;
  power: '' | 'on' | 'off' | 'powering-on' | 'powering-off';
  system?: { manufacturer?: string; model?: string; serial_number?: string; memory_gib?: number; processors?: number };
  media?: { slot: string; image?: string; inserted: boolean };
  booted?: { infra_env_id?: string; at: string; host?: { infra_env_id: string; id: string } };
  error?: { type: string; message: string; code?: string; count: number };
  pending?: { kind: string; at: string };
  last_seen?: string;
};

export type NewServer = {
  name: string;
  address: string;
  username: string;
  password: string;
  skip_verify?: boolean;
  boot_mac?: string;
  infra_env_id?: string;
};

export type Imported = {
  added: number;
  failed: number;
  rows: { line: number; name: string; id?: string; error?: string }[];
};

/** One request to a BMC with its response. */
export type Exchange = {
  at: string;
  took_ns: number;
  method: string;
  path: string;
  headers?: string[];
  request?: string;
  status?: number;
  answer_headers?: string[];
  answer?: string;
  error?: string;
};

/** The requests to a BMC from login to logout, without secrets. */
export type Session = {
  id: string;
  about: string;
  start: string;
  end?: string;
  outcome?: string;
  exchanges: Exchange[];
  left_out?: number;
  repeated?: number;
};

export type Power = 'on' | 'off' | 'soft' | 'reset';

const one = (id: string) => `${root}/${encodeURIComponent(id)}`;

export const listServers = async (signal?: AbortSignal): Promise<Server[]> =>
  (await getJSON<{ bmcs: Server[] }>(root, signal)).bmcs;

export const addServer = (server: NewServer) => request('POST', root, { json: server });

/** Adds the servers of a table; with `dry`, it only checks them. */
export const importTable = async (table: string, dry: boolean): Promise<Imported> =>
  (await (
    await request('POST', `${root}/import${dry ? '?dry_run=true' : ''}`, {
      headers: { 'Content-Type': 'text/csv' },
      body: table,
    })
  ).json()) as Imported;

/** Boots a server; without `force`, not if that would end the host that runs on it. */
export const boot = (id: string, infraEnvId: string, force: boolean) =>
  request('POST', `${one(id)}/actions/boot`, { json: { infra_env_id: infraEnvId, force } });

/** The name of the host that a refused boot would end; undefined for other errors. */
export const hostEndedBy = (error: unknown): string | undefined =>
  error instanceof ApplianceError && typeof error.body.host === 'string' ? error.body.host : undefined;

export const switchPower = (id: string, action: Power) =>
  request('POST', `${one(id)}/actions/power`, { json: { action } });

export const eject = (id: string) => request('POST', `${one(id)}/actions/eject`);

export const inspect = (id: string) => request('POST', `${one(id)}/actions/inspect`);

export const remove = (id: string, powerOff: boolean) =>
  request('DELETE', `${one(id)}${powerOff ? '?power_off=true' : ''}`);

export const listSessions = async (id: string, signal?: AbortSignal): Promise<Session[]> =>
  (await getJSON<{ conversations: Session[] }>(`${one(id)}/conversations`, signal)).conversations.reverse();

export type InfraEnv = { id: string; name: string };

export const listInfraEnvs = async (signal?: AbortSignal): Promise<InfraEnv[]> =>
  byName(await getJSON<InfraEnv[]>('/api/assisted-install/v2/infra-envs', signal));

/** A host that registered from a server. */
export type Host = { id: string; requested_hostname?: string; cluster_id?: string; status?: string };

export const readHost = (infraEnvId: string, id: string, signal?: AbortSignal): Promise<Host> =>
  getJSON<Host>(`/api/assisted-install/v2/infra-envs/${infraEnvId}/hosts/${id}`, signal);
