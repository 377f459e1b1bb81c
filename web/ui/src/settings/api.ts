import { getJSON, request } from '../shell/request';

/** A release that clusters can be installed with. */
export type Release = {
  openshift_version: string;
  cpu_architecture: string;
  url: string;
  default: boolean;
  source: 'configuration' | 'administrator' | 'medium';
  state?: 'ready' | 'checking' | 'failed' | '';
  /** A sentence if the release is not ready. */
  message?: string;
};

/** A setting; the configuration file fixes it if `fixed`. */
type Fixable<T> = { value: T; fixed: boolean };

/** The site's settings, as shown by `GET /api/landfall/v1/settings`. It contains no secret. */
export type Settings = {
  releases: Release[] | null;
  pull_secret: { set: boolean; fixed: boolean; registries: string[] | null };
  ssh_public_key: Fixable<string>;
  ntp_sources: Fixable<string[] | null>;
  url: Fixable<string> & {
    candidates: string[] | null;
    restart_needed: boolean;
    /** Where the appliance listens if only its machine reaches it, and what to do then. */
    local_listener?: string;
    advice?: string;
  };
};

/** A change of settings; absent fields keep their values. */
export type Change = {
  /** "" removes it. */
  pull_secret?: string;
  ssh_public_key?: string;
  ntp_sources?: string[];
  url?: string;
};

const root = '/api/landfall/v1/settings';

export const readSettings = (signal?: AbortSignal) => getJSON<Settings>(root, signal);

export const changeSettings = (change: Change) => request('PATCH', root, { json: change });

export const addRelease = (release: string, isDefault: boolean) =>
  request('POST', `${root}/releases`, { json: { release, ...(isDefault && { default: true }) } });

export const removeRelease = ({ openshift_version: version, cpu_architecture: architecture }: Release) =>
  request('DELETE', `${root}/releases/${encodeURIComponent(version)}/${encodeURIComponent(architecture)}`);
