import { getJSON, request } from '../shell/request';
import { digestIn, sameOrigin } from './facts';

/** One kind of an infra-env's image; without `url`, `reason` says why there is none. */
export type ImageKind = {
  url?: string;
  size_bytes?: number;
  etag?: string;
  /** Hexadecimal; empty while it is being computed. */
  sha256?: string;
  reason?: string;
};

/** The addresses of an image on one of the appliance's networks. */
export type NetworkAddresses = {
  /** The appliance's address there. */
  url: string;
  full: string;
  minimal: string;
  short: string;
};

/** The files and addresses for network boot. */
export type NetworkBoot = {
  ipxe_url?: string;
  /** The text of the script. */
  ipxe_script?: string;
  kernel_url?: string;
  initrd_url?: string;
  rootfs_url?: string;
  kernel_arguments?: string;
  grub_url?: string;
  /** For UEFI firmware that boots from an ISO over HTTP. */
  http_boot_url?: string;
  /** The reason if network boot is not possible. */
  reason?: string;
};

/** The response of `GET /api/landfall/v1/infra-envs/{id}/image`. */
export type ImageFacts = {
  /** The first six fields describe the infra-env's own kind. Viewers get no URLs: "". */
  url: string;
  file_name: string;
  size_bytes: number;
  /** Hexadecimal; empty while it is being computed. */
  sha256: string;
  etag: string;
  type: string;
  /** Each new image has a new revision. */
  revision?: string;
  modified?: string;
  full?: ImageKind | null;
  minimal?: ImageKind | null;
  /** Empty after a revocation. */
  short_url?: string;
  short_url_expires?: string | null;
  urls?: NetworkAddresses[] | null;
  network_boot?: NetworkBoot | null;
  config_image_url?: string;
};

/** One machine's progress in one part of the image. */
export type ReadSegment = { name: string; share_percent: number };

/**
 * An entry of `GET /api/landfall/v1/infra-envs/{id}/reads`: one machine's progress with an
 * infra-env's image.
 */
export type Read = {
  /** The address of the machine or of its BMC. */
  client: string;
  image: string;
  kind: string;
  first_read: string;
  last_read: string;
  bytes: number;
  share_percent: number;
  segments: ReadSegment[] | null;
  bytes_per_second: number;
  ranges_per_second: number;
  state: 'reading' | 'finished' | 'stopped';
  sentence: string;
};

/** The fields of the API's infra-env that the page uses. */
export type InfraEnv = { id: string; name: string; cpu_architecture?: string; type?: string };

const ofInfraEnv = (id: string, what: string) =>
  `/api/landfall/v1/infra-envs/${encodeURIComponent(id)}/${what}`;

export const getImageFacts = (infraEnvId: string, signal?: AbortSignal): Promise<ImageFacts> =>
  getJSON(ofInfraEnv(infraEnvId, 'image'), signal);

export const getReads = async (infraEnvId: string, signal: AbortSignal): Promise<Read[]> =>
  (await getJSON<{ reads: Read[] | null }>(ofInfraEnv(infraEnvId, 'reads'), signal)).reads ?? [];

/**
 * Reads the digest of an image from the file beside it; the response arrives when it is computed.
 */
export const getDigest = async (url: string, signal: AbortSignal): Promise<string> =>
  digestIn(await (await request('GET', sameOrigin(`${url}.sha256`, window.location.origin), { signal })).text());

/**
 * Creates another short address; the old one becomes invalid. Without `seconds` it does not expire.
 */
export const renewShortURL = async (infraEnvId: string, seconds?: number): Promise<void> => {
  await request('POST', ofInfraEnv(infraEnvId, 'short-url'), {
    json: seconds === undefined ? {} : { valid_seconds: seconds },
  });
};

export const revokeShortURL = async (infraEnvId: string): Promise<void> => {
  await request('DELETE', ofInfraEnv(infraEnvId, 'short-url'));
};

/** The response of `GET /api/landfall/v1/infra-envs/{id}/sealed-image`. */
export type SealedState = {
  /** The image contains a token instead of the config. */
  sealed: boolean;
  /** Machines may fetch the config, until the time `until`. */
  open: boolean;
  until: string | null;
  /** The largest number of machines that may fetch the config; 0 means no limit. */
  machines: number;
  /** The addresses that have fetched the config. */
  fetches: { address: string; first: string; last: string; times: number }[];
};

export const getSealedImage = (infraEnvId: string, signal?: AbortSignal): Promise<SealedState> =>
  getJSON(ofInfraEnv(infraEnvId, 'sealed-image'), signal);

/** Seals the image, or opens a sealed image again, for this time. */
export const sealImage = (infraEnvId: string, seconds: number, machines: number) =>
  request('PUT', ofInfraEnv(infraEnvId, 'sealed-image'), { json: { seconds, machines } });

/** Ends the time in which machines may fetch the config. */
export const closeSealedImage = (infraEnvId: string) => request('POST', ofInfraEnv(infraEnvId, 'sealed-image/close'));

/** Makes images that contain the config again. */
export const unsealImage = (infraEnvId: string) => request('DELETE', ofInfraEnv(infraEnvId, 'sealed-image'));

export const listInfraEnvs = async (clusterId: string, signal: AbortSignal): Promise<InfraEnv[]> =>
  (await getJSON<InfraEnv[] | null>(
    `/api/assisted-install/v2/infra-envs?cluster_id=${encodeURIComponent(clusterId)}`,
    signal,
  )) ?? [];
