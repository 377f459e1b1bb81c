import { getJSON, request } from '../shell/request';
import { byName } from '../shell/rows';

const api = '/api/assisted-install/v2';
const landfall = '/api/landfall/v1';

export type Role = 'auto-assign' | 'master' | 'worker' | 'arbiter' | 'bootstrap';

export type Hardware = {
  manufacturer?: string;
  model?: string;
  serial_number?: string;
  virtual?: boolean;
  architecture?: string;
  cpus: number;
  memory_bytes: number;
  disks: number;
  disk_bytes: number;
  addresses: string[];
  macs: string[];
  bmc_address?: string;
};

/** A host, as listed by `GET /api/landfall/v1/hosts`. */
export type HostRow = {
  id: string;
  infra_env_id: string;
  infra_env_name: string;
  /** The cluster to which the infra-env belongs. Its hosts can't be unbound from that cluster. */
  infra_env_cluster_id?: string;
  cluster_id?: string;
  cluster_name?: string;
  name: string;
  role: Role;
  suggested_role?: Role;
  bootstrap?: boolean;
  status: string;
  status_info: string;
  stage?: string;
  stage_info?: string;
  installation_percentage?: number;
  failing?: number;
  first_failing?: string;
  hardware?: Hardware;
  last_contact: string;
  registered_at: string;
  clock_offset_seconds?: number;
  bmc?: { id: string; name: string; power: string; error?: string };
  /** Whether manifests may install the host; absent if it needs no approval. */
  approved?: boolean;
};

/** The hosts of the site; with `ids`, only these hosts. */
export const listHosts = async (ids: string[] = [], signal?: AbortSignal): Promise<HostRow[]> => {
  const query = ids.length > 0 ? `?${ids.map((id) => `host_id=${encodeURIComponent(id)}`).join('&')}` : '';
  return (await getJSON<{ hosts: HostRow[] }>(`${landfall}/hosts${query}`, signal)).hosts;
};

export type Severity = 'danger' | 'warning' | 'info';

/** One reason why a machine has not registered. */
export type Finding = {
  kind: 'refusal' | 'read' | 'server' | 'nothing';
  severity: Severity;
  subject: string;
  infra_env_id?: string;
  infra_env_name?: string;
  bmc_id?: string;
  sentence: string;
  since: string;
  advice: string;
};

/** The answer of `GET /api/landfall/v1/missing-hosts`. */
export type Missing = { since: string; findings: Finding[]; lines: { purpose: string; command: string }[] };

export const explainMissing = (signal?: AbortSignal): Promise<Missing> =>
  getJSON<Missing>(`${landfall}/missing-hosts`, signal);

/** The fields of the API's host that its page shows. The texts contain JSON. */
export type HostDetails = {
  id: string;
  inventory?: string;
  validations_info?: string;
  installation_disk_id?: string;
  installation_disk_path?: string;
  logs_collected_at?: string;
  registered_at?: string;
  discovery_agent_version?: string;
};

const pathOf = (host: Pick<HostRow, 'infra_env_id' | 'id'>) =>
  `${api}/infra-envs/${encodeURIComponent(host.infra_env_id)}/hosts/${encodeURIComponent(host.id)}`;

export const readDetails = (infraEnvId: string, id: string, signal?: AbortSignal): Promise<HostDetails> =>
  getJSON<HostDetails>(pathOf({ infra_env_id: infraEnvId, id }), signal);

export type HostEvent = { event_time: string; severity: 'info' | 'warning' | 'error' | 'critical'; message: string };

export const listEvents = (infraEnvId: string, id: string, signal?: AbortSignal): Promise<HostEvent[]> =>
  getJSON<HostEvent[]>(
    `${api}/events?${new URLSearchParams({
      infra_env_id: infraEnvId,
      host_id: id,
      order: 'descending',
      limit: '100',
    }).toString()}`,
    signal,
  );

export const logsUrl = (clusterId: string, id: string): string =>
  `${api}/clusters/${encodeURIComponent(clusterId)}/logs?logs_type=host&host_id=${encodeURIComponent(id)}`;

export type Cluster = { id: string; name: string; status: string };

export const listClusters = async (signal?: AbortSignal): Promise<Cluster[]> =>
  byName(await getJSON<Cluster[]>(`${api}/clusters`, signal));

export const setRole = (host: HostRow, role: Role) => request('PATCH', pathOf(host), { json: { host_role: role } });

export const rename = (host: HostRow, name: string) => request('PATCH', pathOf(host), { json: { host_name: name } });

/** The credentials of a BMC. The other of two control-plane nodes powers the host off with them. */
export type Fencing = {
  address: string;
  username: string;
  password: string;
  certificate_verification: 'Enabled' | 'Disabled';
};

export const setFencing = (host: Pick<HostRow, 'infra_env_id' | 'id'>, fencing: Fencing) =>
  request('PATCH', pathOf(host), { json: { fencing_credentials: fencing } });

export const bind = (host: HostRow, clusterId: string) =>
  request('POST', `${pathOf(host)}/actions/bind`, { json: { cluster_id: clusterId } });

export const unbind = (host: HostRow) => request('POST', `${pathOf(host)}/actions/unbind`);

/** Lets the manifests of the Kubernetes API install the host. */
export const approve = ({ infra_env_id: infraEnv, id }: HostRow) =>
  request('POST', `${landfall}/infra-envs/${infraEnv}/hosts/${id}/actions/approve`);

export const remove = (host: HostRow) => request('DELETE', pathOf(host));

/** Boots the host's server from the image of its infra-env; not if that would end the host. */
export const boot = (host: HostRow) =>
  request('POST', `${landfall}/bmcs/${encodeURIComponent(host.bmc?.id ?? '')}/actions/boot`, {
    json: { infra_env_id: host.infra_env_id },
  });
