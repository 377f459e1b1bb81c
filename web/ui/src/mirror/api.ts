import { getJSON, request } from '../shell/request';

/** A rule of the site's, as `GET /api/landfall/v1/mirror` lists it. */
export type Rule = {
  prefix: string;
  location?: string;
  blocked: boolean;
  insecure?: boolean;
  mirrors: { location: string; insecure?: boolean; for: 'all' | 'digest-only' | 'tag-only' }[];
  origin: string;
};

export type Hole = { kind: string; prefix: string; text: string; grave: boolean };

export type MirrorModel = {
  rules: Rule[];
  holes: Hole[];
  catalogs: { name: string; image: string }[];
  signatures: string[];
  imports: { name: string; imported: string; files: { name: string }[]; ignored: { name: string; reason: string }[] }[];
  problem?: string;
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

export const readMirror = (signal?: AbortSignal): Promise<MirrorModel> => getJSON(root, signal);

/** A file of a folder, with its path within it. */
export type DroppedFile = { path: string; file: File };

/** Imports a dropped folder, or a single file as it is: an archive or a document. */
export const importMirror = async (name: string, files: DroppedFile[]): Promise<void> => {
  let body: File | FormData | undefined = files[0]?.file;
  if (files.length !== 1) {
    body = new FormData();
    for (const { path, file } of files) {
      body.append(path, file);
    }
  }
  await request('POST', `${root}?name=${encodeURIComponent(name)}`, body === undefined ? {} : { body });
};

export const removeImport = async (name: string): Promise<void> => {
  await request('DELETE', `${root}/imports/${encodeURIComponent(name)}`);
};

export const explain = (image: string): Promise<Explanation> =>
  getJSON(`${root}/explain?image=${encodeURIComponent(image)}`);

export const listReleases = async (signal?: AbortSignal): Promise<string[]> => {
  const status = await getJSON<{ releases: { openshift_version: string }[] }>('/api/landfall/v1/status', signal);
  return [...new Set(status.releases.map((release) => release.openshift_version))];
};

export const startProof = async (release: string): Promise<Proof> =>
  (await (await request('POST', `${root}/proofs`, { json: { release, fresh: true } })).json()) as Proof;

export type Newest = { proof?: Proof };

/** The newest proof with its results, if there is one. */
export const newestProof = async (signal?: AbortSignal): Promise<Newest> => {
  const { proofs } = await getJSON<{ proofs: Proof[] }>(`${root}/proofs`, signal);
  return proofs[0] ? { proof: await getJSON<Proof>(`${root}/proofs/${proofs[0].id}`, signal) } : {};
};

export const listURL = (proof: Proof, format: 'text' | 'imageset' | 'csv') =>
  `${root}/proofs/${proof.id}/list?format=${format}`;
