/** What `GET /api/landfall/v1/status` answers. */
export type Status = {
  version: string;
  /** The address that hosts and their management controllers are given. */
  url: string;
  addresses: string[];
  os_images: OsImage[];
  releases: Release[];
};

export type OsImage = {
  openshift_version: string;
  cpu_architecture: string;
  state: string;
  message: string;
};

export type Release = {
  openshift_version: string;
  cpu_architecture: string;
  state?: string;
  message?: string;
};

/** What `GET /api/landfall/v1/infra-envs/{id}/image` answers. */
export type ImageFacts = {
  url: string;
  file_name: string;
  size_bytes: number;
  /** Hexadecimal; empty while it is being computed. */
  sha256: string;
  etag: string;
  type: string;
};

const get = async <T>(path: string, signal: AbortSignal): Promise<T> => {
  const response = await fetch(path, { signal, headers: { Accept: 'application/json' } });
  if (!response.ok) {
    throw new Error(`The appliance answered ${String(response.status)} to ${path}.`);
  }
  return (await response.json()) as T;
};

export const getStatus = (signal: AbortSignal): Promise<Status> =>
  get('/api/landfall/v1/status', signal);

export const getImageFacts = (infraEnvId: string, signal: AbortSignal): Promise<ImageFacts> =>
  get(`/api/landfall/v1/infra-envs/${encodeURIComponent(infraEnvId)}/image`, signal);
