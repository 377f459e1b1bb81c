import { getJSON } from './request';

/** The response of `GET /api/landfall/v1/status`. */
export type Status = {
  version: string;
  /** The address that the appliance gives to hosts and BMCs. */
  url: string;
  addresses: string[];
  /** The SHA-256 of the appliance's certificate authority; absent without TLS. */
  authority_fingerprint?: string;
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

export const getStatus = (signal?: AbortSignal): Promise<Status> =>
  getJSON('/api/landfall/v1/status', signal);

/** The certificates with which clients verify the appliance. */
export const authorityURL = '/ca.crt';
