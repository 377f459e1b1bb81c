import { getJSON } from './request';

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

export const getStatus = (signal: AbortSignal): Promise<Status> =>
  getJSON('/api/landfall/v1/status', signal);
