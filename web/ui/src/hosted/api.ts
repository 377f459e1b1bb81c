import { ApplianceError, getJSON, request } from '../shell/request';
import { byName } from '../shell/rows';

const root = '/api/landfall/v1/hosted';
const version = 'api-version=2024-06-10-preview';

export type NodePool = {
  name: string;
  profile: string;
  state: string;
  reason?: string;
  wanted: number;
  most?: number;
  ready: number;
};

/** A hosted cluster, as listed by `GET /api/landfall/v1/hosted`. */
export type Cluster = {
  resource_id: string;
  cid: string;
  name: string;
  group: string;
  state: string;
  /** What the cluster waits for. */
  reason?: string;
  /** The time of the last report; absent before the first one. */
  as_of?: string;
  version?: string;
  wanted_version: string;
  api_url?: string;
  management_cluster?: string;
  created_at: string;
  node_pools: NodePool[];
};

export type ManagementCluster = {
  consumer: string;
  /** The ID of the cluster of this appliance; absent if another program installed it. */
  cluster_id?: string;
  base_domain: string;
  publish: string;
  address?: string;
  agent_namespace: string;
  /** The layout of its bundles: flat or nested. */
  layout?: string;
  profiles?: string[];
  clusters: number;
  /** The time of the last message; absent before the first one. */
  seen_at?: string;
  /** Absent while its agent is not connected. */
  connected_since?: string;
  /** Why nothing is delivered to it. */
  held?: string;
  /** Sentences about its connection, such as a clock that was set back. */
  problems?: string[];
};

export type Overview = {
  subscription: string;
  versions: string[];
  clusters: Cluster[];
  management_clusters: ManagementCluster[];
};

export type Bundle = {
  id: string;
  name: string;
  consumer: string;
  version: number;
  reported_version: number;
  reported_at?: string;
  state: 'waiting' | 'applied' | 'refused' | 'deleting';
  reason?: string;
};

export type Detail = Cluster & {
  conditions: { type: string; status: string; message?: string }[];
  dns_records: { name: string; type: string; value: string; note?: string }[];
  bundles: Bundle[];
  lines: { title: string; command: string }[];
};

/** The hosted clusters; null if the configuration disables them. */
export const readOverview = async (signal?: AbortSignal): Promise<Overview | null> => {
  const answer = await getJSON<Overview & { disabled?: boolean }>(root, signal);
  return answer.disabled ? null : answer;
};

const clusterPath = (cid: string) => `${root}/clusters/${encodeURIComponent(cid)}`;

export const readDetail = (cid: string, signal?: AbortSignal): Promise<Detail> =>
  getJSON<Detail>(clusterPath(cid), signal);

/** A bundle with its manifests and status, as text. */
export const readBundle = async (id: string): Promise<string> =>
  JSON.stringify(await getJSON<unknown>(`${root}/bundles/${encodeURIComponent(id)}`), null, 2);

export type NewCluster = {
  name: string;
  version: string;
  profile: string;
  nodes: number;
  group: string;
  location: string;
  prefix: string;
};

/**
 * Creates a hosted cluster, with a node pool unless the profile is empty. The appliance chooses
 * values for the other empty fields.
 */
export const createCluster = ({ name, version, profile, nodes, group, location, prefix }: NewCluster) =>
  request('POST', `${root}/clusters`, {
    json: {
      name,
      version,
      group,
      location,
      domain_prefix: prefix,
      node_pools: profile === '' ? [] : [{ name: 'workers', profile, replicas: nodes }],
    },
  });

export const scale = (cluster: Cluster, pool: string, replicas: number) =>
  request('PATCH', `${cluster.resource_id}/nodePools/${encodeURIComponent(pool)}?${version}`, {
    json: { properties: { replicas } },
  });

export const removeCluster = (cluster: Cluster) => request('DELETE', `${cluster.resource_id}?${version}`);

type Kubeconfig = { operation: string; status: string; error?: string; kubeconfig?: string };

/** Requests a kubeconfig, and waits until the management cluster has signed its certificate. */
export const requestKubeconfig = async (cid: string, signal: AbortSignal): Promise<string> => {
  const path = `${clusterPath(cid)}/kubeconfigs`;
  const asked = (await (await request('POST', path, { signal })).json()) as Kubeconfig;
  for (;;) {
    const now = await getJSON<Kubeconfig>(`${path}/${asked.operation}`, signal);
    if (now.kubeconfig) {
      return now.kubeconfig;
    }
    if (['Failed', 'Canceled'].includes(now.status)) {
      throw new ApplianceError(409, now.error ?? 'The kubeconfig was not issued.');
    }
    await new Promise((resolve) => {
      setTimeout(resolve, 1_000);
    });
  }
};

export type NewManagement = {
  consumer: string;
  /** The ID of a cluster that this appliance installed, or empty. */
  cluster_id: string;
  base_domain: string;
  publish: string;
  address: string;
  profiles: string[];
  agent_image: string;
  /** flat or nested; empty: the appliance chooses it. */
  layout: string;
};

/** Something that a cluster lacks; without an error, control planes can run on it. */
export type Lack = { id: string; severity: 'error' | 'warning'; sentence: string };

/**
 * What a cluster lacks as a management cluster. The mirror is asked, too, which takes some seconds.
 */
export const checkManagement = async (wanted: NewManagement): Promise<Lack[]> => {
  const response = await request('POST', `${root}/management-clusters/check`, { json: wanted });
  return ((await response.json()) as { findings: Lack[] }).findings;
};

/** Uses a cluster for control planes, also if it lacks something: checkManagement has said what. */
export const addManagement = (wanted: NewManagement) =>
  request('POST', `${root}/management-clusters?force=true`, { json: wanted });

const managementPath = (consumer: string) => `${root}/management-clusters/${encodeURIComponent(consumer)}`;

export const removeManagement = (consumer: string) => request('DELETE', managementPath(consumer));

/** Applies the manifests of an agent to a management cluster that this appliance installed. */
export const applyAgent = (consumer: string) => request('POST', `${managementPath(consumer)}/agent`);

/**
 * Requests the manifests that an administrator applies to a management cluster. They contain the
 * key of its agent.
 */
export const issueAgent = async (consumer: string): Promise<Blob> =>
  (await request('GET', `${managementPath(consumer)}/agent`)).blob();

/** A bundle on a management cluster that contradicts this appliance. */
export type Finding = {
  id: string;
  kind: 'unknown' | 'newer' | 'foreign' | 'gone';
  /** The name of the bundle; absent until the management cluster has reported it. */
  name?: string;
  sentence: string;
  decision?: string;
  objects?: { kind: string; namespace?: string; name: string }[];
};

export type Connection = { hold?: { reason: string; since: string }; findings: Finding[] };

const consumerPath = (consumer: string) => `/api/maestro/v1/consumers/${encodeURIComponent(consumer)}`;

/** Why nothing is sent to a management cluster, and what a person must decide about. */
export const readConnection = (consumer: string, signal?: AbortSignal): Promise<Connection> =>
  getJSON<Connection>(`${consumerPath(consumer)}/connection`, signal);

export type Decision = 'adopt' | 'delete' | 'ignore';

/** Decides about a bundle. A deletion must repeat the bundle's name. */
export const decide = (consumer: string, { id, name }: Finding, decision: Decision) =>
  request('POST', `${consumerPath(consumer)}/findings/${encodeURIComponent(id)}`, {
    json: decision === 'delete' ? { decision, name } : { decision },
  });

/** Ends a hold without findings: the state of this appliance replaces that of the cluster. */
export const release = (consumer: string) => request('DELETE', `${consumerPath(consumer)}/hold`);

/**
 * The decisions that are possible about a bundle. Only one that is unknown to this appliance can be
 * deleted there: for the others, the hosted cluster is deleted here.
 */
export const decisionsAbout = ({ kind, name }: Finding): Decision[] =>
  kind === 'unknown' && name !== undefined ? ['adopt', 'ignore', 'delete'] : ['adopt', 'ignore'];

/** An infra-env whose hosts are offered to a management cluster, with their hardware profile. */
export type WorkerSource = { infra_env_id: string; profile: string };

/** A host that is offered to a management cluster, or can't be. */
export type WorkerHost = {
  id: string;
  infra_env_id?: string;
  name?: string;
  /** Absent if the host does not exist here. */
  status?: string;
  /** That of the hosted cluster whose node pool has chosen the host, as namespace/name. */
  cluster_deployment?: string;
  problem?: string;
};

/** Without sources, the management cluster's own assisted service has the workers. */
export type Workers = { workers: WorkerSource[]; problem?: string; problem_since?: string; hosts: WorkerHost[] };

const workersPath = (consumer: string) => `${managementPath(consumer)}/workers`;

export const readWorkers = (consumer: string, signal?: AbortSignal): Promise<Workers> =>
  getJSON<Workers>(workersPath(consumer), signal);

export const setWorkers = (consumer: string, workers: WorkerSource[]) =>
  request('PUT', workersPath(consumer), { json: { workers } });

export type InfraEnv = { id: string; name: string; cluster_id?: string };

/** The infra-envs of the site. Hosts of those that belong to a cluster can't be offered. */
export const listInfraEnvs = async (signal?: AbortSignal): Promise<InfraEnv[]> =>
  byName(await getJSON<InfraEnv[]>('/api/assisted-install/v2/infra-envs', signal));
