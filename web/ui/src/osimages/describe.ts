import { bytes, duration } from '../shell/quantities';
import type { OsImage } from './api';
import type { UploadView } from './upload';

/** The state of an upload in one line. */
export const describeUpload = ({ state, sent, size, speed, message }: UploadView): string => {
  const progress = `${bytes(sent)} of ${bytes(size)}`;
  switch (state) {
    case 'sending':
      return speed > 0 ? `${progress}, ${bytes(speed)}/s, ${duration((size - sent) / speed)} left` : progress;
    case 'waiting':
      return `${message} The upload resumes automatically; ${progress} arrived.`;
    case 'paused':
      return `Paused; ${progress} arrived.`;
    case 'elsewhere':
      return `Another tab or window of this browser has this upload; ${progress} arrived.`;
    case 'unfinished':
      return message || `${progress} arrived before this page was left. Choose the same file to resume.`;
    case 'checking':
      return 'The appliance is checking the file.';
    case 'failed':
      return message;
    case 'done':
      return `Uploaded, ${bytes(size)}.`;
    case 'cancelled':
      return 'Cancelled.';
  }
};

/** The progress of all uploads together in whole percent; undefined if none is active. */
export const shareOf = (views: readonly UploadView[]): number | undefined => {
  const active = views.filter(({ state }) => ['sending', 'waiting', 'checking'].includes(state));
  const size = active.reduce((sum, view) => sum + view.size, 0);
  const sent = active.reduce((sum, view) => sum + view.sent, 0);
  return size > 0 ? Math.floor((100 * sent) / size) : undefined;
};

/** The source of an image in words for the user. */
export const describeSource = ({ source, name, path, url, release }: OsImage): string => {
  switch (source) {
    case 'file':
      return `the file ${path ?? name ?? ''}`.trim();
    case 'url':
      return url ?? 'a URL';
    case 'import':
      return name ? `${name}, uploaded or imported` : 'uploaded or imported';
    case 'payload':
      return release ? `the release ${release}` : 'a release';
  }
};

/** The boot methods of the image: "BIOS and UEFI, as CD and USB stick, over the network". */
export const describeBoots = ({ boots, network_boot: network }: Pick<OsImage, 'boots' | 'network_boot'>): string => {
  const words = (boots ?? []).map((one) => one.split(' '));
  const firmware = unique(words.map(([first]) => first ?? ''));
  const media = unique(words.map(([, second]) => second ?? ''))
    .filter(Boolean)
    .map((medium) => (medium === 'USB' ? 'USB stick' : medium));
  const parts = [
    firmware.join(' and '),
    media.length > 0 ? `as ${media.join(' and ')}` : '',
    network ? 'over the network' : '',
  ].filter(Boolean);
  return parts.join(', ');
};

/** The reason why an image can't be removed; "" if it can. */
export const whyNotRemovable = ({ removable, configured, in_use_by: users }: OsImage): string => {
  if (removable) {
    return '';
  }
  if (configured) {
    return 'The configuration file contains the image: remove it there.';
  }
  if (users > 0) {
    return `${String(users)} ${users === 1 ? 'infra-env uses' : 'infra-envs use'} the image.`;
  }
  return 'The image is in use.';
};

/** Reports whether the list will change soon, so that it is fetched often. */
export const isMoving = (images: OsImage[] | undefined): boolean =>
  images === undefined ||
  images.some(({ state }) => state === 'downloading' || state === 'verifying' || state === 'waiting');

const unique = (words: string[]): string[] => [...new Set(words)];
