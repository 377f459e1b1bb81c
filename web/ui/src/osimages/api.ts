import { getJSON, request } from '../shell/request';
import type { Announcement, Transport } from './upload';

/** A base ISO as `GET /api/landfall/v1/os-images` lists it. */
export type OsImage = {
  id: string;
  /** The file's, as it was given. */
  name?: string;
  openshift_version: string;
  cpu_architecture: string;
  volume_id: string;
  coreos_version: string;
  size_bytes: number;
  state: 'waiting' | 'downloading' | 'verifying' | 'ready' | 'bad';
  /** A sentence, when it is not ready. */
  message: string;
  done_bytes: number;
  total_bytes: number;
  source: 'file' | 'url' | 'import' | 'payload';
  path?: string;
  url?: string;
  /** The release image that it was taken out of. */
  release?: string;
  /** Hexadecimal; empty while it is not known. */
  sha256: string;
  minimal: boolean;
  /** Why there is no minimal image, and what helps. */
  minimal_reason?: string;
  network_boot: boolean;
  /** Why nothing boots it over the network. */
  network_boot_reason?: string;
  /** What boots it, such as "BIOS CD" and "UEFI USB"; absent while it is not known. */
  boots?: string[] | null;
  /** Whether the configuration file names it. */
  configured?: boolean;
  /** The number of infra-envs whose images are made from it. */
  in_use_by: number;
  removable: boolean;
};

const root = '/api/landfall/v1/os-images';
const one = (id: string) => `${root}/${encodeURIComponent(id)}`;
const upload = (id: string) => `${root}/uploads/${encodeURIComponent(id)}`;

export const listOsImages = async (signal?: AbortSignal): Promise<OsImage[]> =>
  (await getJSON<{ os_images: OsImage[] | null }>(root, signal)).os_images ?? [];

/** Whether it is an upload that is not whole yet. */
export const isArriving = ({ source, state }: OsImage): boolean =>
  source === 'import' && (state === 'waiting' || state === 'downloading');

/** What the appliance is to fetch by itself; empty is not said. */
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

/** Uploads in parts, each with the offset that it begins at, as tus 1.0 does it (https://tus.io). */
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
      throw new Error('The appliance did not say how much of the upload it has.');
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
