import type { HostRow } from '../hosts/api';
import { getJSON, request } from '../shell/request';
import { byName } from '../shell/rows';

const api = '/api/assisted-install/v2/clusters';
const landfall = '/api/landfall/v1/clusters';

/** The state of a phase or a stage of an installation. */
export type State = 'waiting' | 'running' | 'done' | 'failed' | 'stopped' | 'blocked';

export type Stage = {
  name: string;
  state: State;
  started_at?: string;
  seconds?: number;
  usual_seconds?: number;
  late?: boolean;
};

export type HostProgress = {
  id: string;
  infra_env_id: string;
  name: string;
  role: string;
  state: State;
  status: string;
  status_info: string;
  stage?: string;
  stage_info?: string;
  percent: number;
  stages: Stage[];
};

export type OperatorProgress = { name: string; builtin: boolean; status: string; status_info?: string };

/** A part of an installation that failed or was stopped. */
export type Part = {
  kind: 'cluster' | 'host' | 'operator';
  id?: string;
  infra_env_id?: string;
  name: string;
  stage?: string;
  at?: string;
  text?: string;
};

export type Failure = {
  title: string;
  cause: Part;
  others: Part[];
  stopped: Part[];
  advice: { text: string; page?: string }[];
};

export type Estimate = {
  seconds: number;
  installations: number;
  shortest_seconds: number;
  longest_seconds: number;
};

/** The answer of `GET /api/landfall/v1/clusters/{id}/progress`. */
export type Progress = {
  at: string;
  cluster_id: string;
  name: string;
  openshift_version: string;
  status: string;
  status_info: string;
  percent: number;
  started_at?: string;
  ended_at?: string;
  estimate?: Estimate;
  phases: Stage[];
  hosts: HostProgress[];
  finalizing_stages: Stage[];
  operators: OperatorProgress[];
  failure?: Failure;
};

const path = (id: string) => `${api}/${encodeURIComponent(id)}`;

export const readProgress = (id: string, signal?: AbortSignal): Promise<Progress> =>
  getJSON<Progress>(`${landfall}/${encodeURIComponent(id)}/progress`, signal);

/** The fields of the API's cluster that its page shows. */
export type ClusterDetails = {
  id: string;
  name: string;
  base_dns_domain?: string;
  openshift_version?: string;
  cpu_architecture?: string;
  network_type?: string;
  api_vips?: { ip: string }[];
  ingress_vips?: { ip: string }[];
  machine_networks?: { cidr: string }[];
  cluster_networks?: { cidr: string; host_prefix?: number }[];
  service_networks?: { cidr: string }[];
  created_at?: string;
  imported?: boolean;
  control_plane_count?: number;
  schedulable_masters?: boolean;
  platform?: { type?: string };
  user_managed_networking?: boolean;
  load_balancer?: { type?: string };
  disk_encryption?: { enable_on?: string; mode?: string };
  additional_ntp_source?: string;
  http_proxy?: string;
  https_proxy?: string;
  monitored_operators?: { name: string; operator_type: string }[] | null;
  hosts?: ClusterHost[] | null;
  /** The checks of the cluster as JSON. */
  validations_info?: string;
};

/** The fields of a host that only the cluster's answer has. */
export type ClusterHost = {
  id: string;
  installation_disk_path?: string;
  /** JSON without the password; absent without fencing. */
  fencing_credentials?: string;
};

type InfraEnv = { id: string; name: string; ssh_authorized_key?: string; static_network_config?: string };

/** What decides whether a cluster can be installed. */
export type Readiness = { details: ClusterDetails; hosts: HostRow[]; infraEnvs: InfraEnv[] };

export const readReadiness = async (id: string, signal?: AbortSignal): Promise<Readiness> => {
  const query = new URLSearchParams({ cluster_id: id }).toString();
  const [details, { hosts }, infraEnvs] = await Promise.all([
    readDetails(id, signal),
    getJSON<{ hosts: HostRow[] }>(`/api/landfall/v1/hosts?${query}`, signal),
    getJSON<InfraEnv[]>(`/api/assisted-install/v2/infra-envs?${query}`, signal),
  ]);
  return { details, hosts: byName(hosts), infraEnvs };
};

export type Manifest = { folder: string; file_name: string };

/** The manifests that a person has added to the cluster. */
export const listManifests = (id: string, signal?: AbortSignal): Promise<Manifest[]> =>
  getJSON<Manifest[]>(`${path(id)}/manifests`, signal);

/** A rehearsal of an installation with simulated hosts. */
export type Rehearsal = {
  id: string;
  state: 'running' | 'done';
  doing?: string;
  passed: boolean;
  steps: { name: string; verdict: string; said: string; do?: string }[];
};

export const startRehearsal = async (id: string): Promise<Rehearsal> =>
  (await (
    await request('POST', `${landfall}/${encodeURIComponent(id)}/rehearsals`, { json: {} })
  ).json()) as Rehearsal;

export const readRehearsal = (id: string, rehearsal: string, signal?: AbortSignal): Promise<Rehearsal> =>
  getJSON<Rehearsal>(`${landfall}/${encodeURIComponent(id)}/rehearsals/${encodeURIComponent(rehearsal)}`, signal);

export const readDetails = (id: string, signal?: AbortSignal): Promise<ClusterDetails> =>
  getJSON<ClusterDetails>(path(id), signal);

/** What a cluster needs of the appliance's registry. */
export type ClusterRegistry = {
  depends: boolean;
  /** Sentences for a person if the cluster depends on the registry. */
  message?: string;
  /** The times in which the registry was away, the latest first. */
  absences: { from: string; to: string }[];
};

export const readClusterRegistry = (id: string, signal?: AbortSignal): Promise<ClusterRegistry> =>
  getJSON<ClusterRegistry>(`${landfall}/${encodeURIComponent(id)}/registry`, signal);

export const install = (id: string) => request('POST', `${path(id)}/actions/install`);
export const cancel = (id: string) => request('POST', `${path(id)}/actions/cancel`);
export const reset = (id: string) => request('POST', `${path(id)}/actions/reset`);
export const remove = (id: string) => request('DELETE', path(id));
export const allowAddHosts = (id: string) => request('POST', `${path(id)}/actions/allow-add-hosts`);

export type ClusterEvent = { event_time: string; severity: 'info' | 'warning' | 'error' | 'critical'; message: string };

export const listEvents = (id: string, signal?: AbortSignal): Promise<ClusterEvent[]> =>
  getJSON<ClusterEvent[]>(
    `/api/assisted-install/v2/events?${new URLSearchParams({
      cluster_id: id,
      order: 'descending',
      limit: '200',
    }).toString()}`,
    signal,
  );

export const logsUrl = (id: string): string => `${path(id)}/logs`;
export const kubeconfigUrl = (id: string): string => `${path(id)}/downloads/credentials?file_name=kubeconfig`;

export const readKubeconfig = async (id: string): Promise<string> =>
  (await request('GET', kubeconfigUrl(id))).text();

/** The password of the user kubeadmin. */
export const readPassword = async (id: string): Promise<string> =>
  (await getJSON<{ password: string }>(`${path(id)}/credentials`)).password;

export const readInstallConfig = (id: string): Promise<string> => getJSON<string>(`${path(id)}/install-config`);
