import { getJSON, request } from '../shell/request';
import type { Announcement, Transport } from './upload';

/** A base ISO, as listed by `GET /api/landfall/v1/os-images`. */
export type OsImage = {
  id: string;
  /** The given name of the file. */
  name?: string;
  openshift_version: string;
  cpu_architecture: string;
  volume_id: string;
  coreos_version: string;
  size_bytes: number;
  state: 'waiting' | 'downloading' | 'verifying' | 'ready' | 'bad';
  /** A sentence if the image is not ready. */
  message: string;
  done_bytes: number;
  total_bytes: number;
  source: 'file' | 'url' | 'import' | 'payload';
  path?: string;
  url?: string;
  /** The release image that contained it. */
  release?: string;
  /** Hexadecimal; empty while it is unknown. */
  sha256: string;
  minimal: boolean;
  /** The reason why there is no minimal image, with a remedy. */
  minimal_reason?: string;
  network_boot: boolean;
  /** The reason why network boot is impossible. */
  network_boot_reason?: string;
  /** The supported boot methods, such as "BIOS CD" and "UEFI USB"; absent while unknown. */
  boots?: string[] | null;
  /** Whether the configuration file contains it. */
  configured?: boolean;
  /** The number of infra-envs whose images are generated from it. */
  in_use_by: number;
  removable: boolean;
};

const root = '/api/landfall/v1/os-images';
const one = (id: string) => `${root}/${encodeURIComponent(id)}`;
const upload = (id: string) => `${root}/uploads/${encodeURIComponent(id)}`;

export const listOsImages = async (signal?: AbortSignal): Promise<OsImage[]> =>
  (await getJSON<{ os_images: OsImage[] | null }>(root, signal)).os_images ?? [];

/** Reports whether it is an incomplete upload. */
export const isArriving = ({ source, state }: OsImage): boolean =>
  source === 'import' && (state === 'waiting' || state === 'downloading');

/** A request that the appliance fetches an ISO; empty fields are not set. */
export type FetchRequest =
  | { url: string; openshift_version: string; sha256: string }
  | { release: string; cpu_architecture: string; pull_secret: string };

export const fetchOsImage = async (wanted: FetchRequest): Promise<void> => {
  await request('POST', root, { json: wanted });
};

export const verifyOsImage = async (id: string): Promise<void> => {
  await request('POST', `${one(id)}/verify`);
};

export const removeOsImage = async (id: string): Promise<void> => {
  await request('DELETE', one(id));
};

/** Uploads in parts, each with its offset, as in tus 1.0 (https://tus.io). */
export const transport: Transport = {
  announce: async (announcement: Announcement) =>
    (await (await request('POST', `${root}/uploads`, { json: announcement })).json()) as {
      id: string;
      offset_bytes: number;
    },
  offset: async (id) => {
    const response = await request('HEAD', upload(id));
    const offset = response.headers.get('Upload-Offset');
    if (offset === null) {
      throw new Error('The response of the appliance lacks the offset of the upload.');
    }
    return Number(offset);
  },
  isWhole: async (id) => {
    const image = (await listOsImages()).find((listed) => listed.id === id);
    return image !== undefined && !isArriving(image);
  },
  append: async (id, offset, part, signal) => {
    const response = await request('PATCH', upload(id), {
      body: part,
      signal,
      headers: {
        'Content-Type': 'application/offset+octet-stream',
        'Upload-Offset': String(offset),
      },
    });
    await response.arrayBuffer();
  },
  abandon: async (id) => {
    await request('DELETE', upload(id));
  },
};
