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

/** What network boot takes. */
export type NetworkBoot = {
  ipxe_url?: string;
  /** The script itself. */
  ipxe_script?: string;
  kernel_url?: string;
  initrd_url?: string;
  rootfs_url?: string;
  kernel_arguments?: string;
  grub_url?: string;
  /** For UEFI firmware that boots from an ISO over HTTP. */
  http_boot_url?: string;
  /** Why there is none of this. */
  reason?: string;
};

/** What `GET /api/landfall/v1/infra-envs/{id}/image` answers. */
export type ImageFacts = {
  /** The first six are of the kind that the infra-env asks for. */
  url: string;
  file_name: string;
  size_bytes: number;
  /** Hexadecimal; empty while it is being computed. */
  sha256: string;
  etag: string;
  type: string;
  /** Another revision is another image. */
  revision?: string;
  modified?: string;
  full?: ImageKind | null;
  minimal?: ImageKind | null;
  /** Empty after it was revoked. */
  short_url?: string;
  short_url_expires?: string | null;
  urls?: NetworkAddresses[] | null;
  network_boot?: NetworkBoot | null;
  config_image_url?: string;
};

/** How much of a part of the image one machine has read. */
export type ReadSegment = { name: string; share_percent: number };

/** What one machine has read of an infra-env's image: an entry of `GET /api/landfall/v1/infra-envs/{id}/reads`. */
export type Read = {
  /** Its address, or that of its management controller. */
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

/** The part of the API's infra-env that is looked at. */
export type InfraEnv = { id: string; name: string; cpu_architecture?: string; type?: string };

const ofInfraEnv = (id: string, what: string) =>
  `/api/landfall/v1/infra-envs/${encodeURIComponent(id)}/${what}`;

export const getImageFacts = (infraEnvId: string, signal?: AbortSignal): Promise<ImageFacts> =>
  getJSON(ofInfraEnv(infraEnvId, 'image'), signal);

export const getReads = async (infraEnvId: string, signal: AbortSignal): Promise<Read[]> =>
  (await getJSON<{ reads: Read[] | null }>(ofInfraEnv(infraEnvId, 'reads'), signal)).reads ?? [];

/** The digest of an image from the file beside it; the answer comes when it is computed. */
export const getDigest = async (url: string, signal: AbortSignal): Promise<string> =>
  digestIn(await (await request('GET', sameOrigin(`${url}.sha256`, window.location.origin), { signal })).text());

/** Makes another short address; the old one leads nowhere from then on. Without `seconds` it has no end. */
export const renewShortURL = async (infraEnvId: string, seconds?: number): Promise<void> => {
  await request('POST', ofInfraEnv(infraEnvId, 'short-url'), {
    json: seconds === undefined ? {} : { valid_seconds: seconds },
  });
};

export const revokeShortURL = async (infraEnvId: string): Promise<void> => {
  await request('DELETE', ofInfraEnv(infraEnvId, 'short-url'));
};

export const listInfraEnvs = async (clusterId: string, signal: AbortSignal): Promise<InfraEnv[]> =>
  (await getJSON<InfraEnv[] | null>(
    `/api/assisted-install/v2/infra-envs?cluster_id=${encodeURIComponent(clusterId)}`,
    signal,
  )) ?? [];
