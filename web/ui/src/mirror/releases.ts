import { getJSON, request } from '../shell/request';

export type SigningKey = { file: string; fingerprint: string; owner: string };

/** A release that clusters may use. */
export type Release = {
  digest: string;
  pull_spec?: string;
  /** `configured`, `signed`, or with who allowed it and when: `administrator`, `medium`. */
  source: string;
  by?: string;
  at?: string;
  /** Of the medium. */
  path?: string;
  signed_by?: SigningKey;
};

export type ReleaseList = {
  releases: Release[] | null;
  signing_keys: SigningKey[] | null;
};

const root = '/api/landfall/v1/releases';

export const readReleases = (signal?: AbortSignal) => getJSON<ReleaseList>(root, signal);

export const allowRelease = (release: string) => request('POST', root, { json: { release } });

export const forgetRelease = (digest: string) => request('DELETE', `${root}/${encodeURIComponent(digest)}`);
