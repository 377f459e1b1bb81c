import { getJSON, request } from '../shell/request';

/** A rule of the site, as listed by `GET /api/landfall/v1/mirror`. */
export type Rule = {
  prefix: string;
  location?: string;
  blocked: boolean;
  insecure?: boolean;
  mirrors: { location: string; insecure?: boolean; for: 'all' | 'digest-only' | 'tag-only' }[];
  origin: string;
};

export type Hole = { kind: string; prefix: string; text: string; grave: boolean };

/**
 * The scope of rules: all clusters, an infra-env or a cluster. Rules of an infra-env or cluster
 * override those for all clusters.
 */
export type Level = { cluster_id?: string; infra_env_id?: string };

export type MirrorModel = Level & {
  rules: Rule[];
  holes: Hole[];
  catalogs: { name: string; image: string }[];
  signatures: string[];
  imports: Import[];
  problem?: string;
};

export type Import = Level & {
  name: string;
  imported: string;
  files: { name: string }[];
  ignored: { name: string; reason: string }[];
};

export type Explanation = {
  image: string;
  steps: { image: string; source: boolean; rule: string }[];
  notes: string[];
};

/** One image of a proof. */
export type Result = { ref: string; names?: string[]; verdict: string; text?: string; optional?: boolean };

export type Proof = {
  id: string;
  release: string;
  cluster_id?: string;
  why: 'ordered' | 'ready' | 'install';
  state: 'running' | 'done' | 'failed';
  started: string;
  message?: string;
  complete: boolean;
  gaps: number;
  images: number;
  total: number;
  arrived?: number;
  awaited?: number;
  report?: { results: Result[]; faults: { text: string; images: number }[]; warnings: string[] };
};

const root = '/api/landfall/v1/mirror';

/** The query of a request about a level, with other parameters. */
const query = (level: Level, others: Record<string, string> = {}) => {
  const { cluster_id, infra_env_id } = level;
  const text = new URLSearchParams({
    ...others,
    ...(cluster_id && { cluster_id }),
    ...(infra_env_id && { infra_env_id }),
  }).toString();
  return text && `?${text}`;
};

export const readMirror = (level: Level, signal?: AbortSignal): Promise<MirrorModel> =>
  getJSON(root + query(level), signal);

/** A cluster or infra-env that can have its own rules. */
export type Place = { level: Level; label: string };

export const listPlaces = async (signal?: AbortSignal): Promise<Place[]> => {
  type Named = { id: string; name: string };
  const [clusters, infraEnvs] = await Promise.all([
    getJSON<Named[]>('/api/assisted-install/v2/clusters', signal),
    getJSON<Named[]>('/api/assisted-install/v2/infra-envs', signal),
  ]);
  return [
    { level: {}, label: 'all clusters' },
    ...clusters.map(({ id, name }) => ({ level: { cluster_id: id }, label: `cluster ${name}` })),
    ...infraEnvs.map(({ id, name }) => ({ level: { infra_env_id: id }, label: `infra-env ${name}` })),
  ];
};

export const sameLevel = (a: Level, b: Level) =>
  (a.cluster_id ?? '') === (b.cluster_id ?? '') && (a.infra_env_id ?? '') === (b.infra_env_id ?? '');

/** A file of a directory, with its path in it. */
export type DroppedFile = { path: string; file: File };

/** Imports a dropped directory, or a single file (an archive or a document). */
export const importMirror = async (level: Level, name: string, files: DroppedFile[]): Promise<void> => {
  let body: File | FormData | undefined = files[0]?.file;
  if (files.length !== 1) {
    body = new FormData();
    for (const { path, file } of files) {
      body.append(path, file);
    }
  }
  await request('POST', root + query(level, { name }), body === undefined ? {} : { body });
};

export const removeImport = async (level: Level, name: string): Promise<void> => {
  await request('DELETE', `${root}/imports/${encodeURIComponent(name)}${query(level)}`);
};

export const explain = (level: Level, image: string): Promise<Explanation> =>
  getJSON(`${root}/explain${query(level, { image })}`);

export const listReleases = async (signal?: AbortSignal): Promise<string[]> => {
  const status = await getJSON<{ releases: { openshift_version: string }[] }>('/api/landfall/v1/status', signal);
  return [...new Set(status.releases.map((release) => release.openshift_version))];
};

/** Starts a proof of a release, or of all images that a cluster needs. */
export const startProof = async (wanted: { release: string } | { cluster_id: string }): Promise<Proof> =>
  (await (await request('POST', `${root}/proofs`, { json: { ...wanted, fresh: true } })).json()) as Proof;

/** The proofs without their results, the newest first. */
export const listProofs = async (signal?: AbortSignal): Promise<Proof[]> =>
  (await getJSON<{ proofs: Proof[] }>(`${root}/proofs`, signal)).proofs;

export type Shown = { proof?: Proof };

/**
 * The proof that was started on this page, with its results. If it no longer exists, the newest
 * proof of the cluster, or the newest of all.
 */
export const shownProof = async (
  { started, cluster }: { started: string | undefined; cluster: string | undefined },
  signal?: AbortSignal,
): Promise<Shown> => {
  const proofs = await listProofs(signal);
  const shown =
    proofs.find(({ id }) => id === started) ??
    proofs.find(({ cluster_id }) => cluster === undefined || cluster_id === cluster);
  return shown ? { proof: await getJSON<Proof>(`${root}/proofs/${shown.id}`, signal) } : {};
};

export const listURL = (proof: Proof, format: 'text' | 'imageset' | 'csv') =>
  `${root}/proofs/${proof.id}/list?format=${format}`;
