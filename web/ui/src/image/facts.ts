import { asSentence, exactBytes, moment } from '../shell/quantities';
import type { ImageFacts, ImageKind, NetworkAddresses, Read, SealedState } from './api';

/** The image's kind in words for the user. */
export const describeType = (type: string): string => {
  switch (type) {
    case 'full':
    case 'full-iso':
      return 'full image';
    case 'minimal':
    case 'minimal-iso':
      return 'minimal image';
    case 'config':
      return 'config image';
    default:
      return type;
  }
};

/**
 * Formats the size in binary units and in bytes, with the kind: "1.2 GiB (1,288,490,189 bytes),
 * full image".
 */
export const describeSize = ({ size_bytes: size, type }: Pick<ImageFacts, 'size_bytes' | 'type'>): string =>
  type ? `${exactBytes(size)}, ${describeType(type)}` : exactBytes(size);

/**
 * A shell command that downloads the image, resumes an interrupted download, and verifies the
 * digest if it is known.
 */
export const downloadCommand = (file: string, url: string, sha256?: string): string => {
  const download = `curl -fL -C - -o ${quote(file)} ${quote(url)}`;
  return sha256 ? `${download} && echo ${quote(`${sha256}  ${file}`)} | sha256sum -c` : download;
};

const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** Reports whether to poll again soon: no response yet, or the digest is being computed. */
export const isBeingComputed = (facts: ImageFacts | undefined): boolean => !facts?.sha256;

/** Reports whether the image of this kind exists. */
export const isMade = (kind: ImageKind | null | undefined): kind is ImageKind & { url: string } =>
  !!kind?.url;

/** The reason why a minimal image is impossible; "" if it is possible, or not known yet. */
export const whyNoMinimal = (facts: ImageFacts | undefined): string =>
  !facts || isMade(facts.minimal)
    ? ''
    : asSentence(facts.minimal?.reason ?? 'The OS image lacks the data for a minimal image.');

/** The reason why network boot is impossible; "" if it is possible, or not known yet. */
export const whyNoNetworkBoot = (facts: ImageFacts | undefined): string =>
  !facts || facts.network_boot?.kernel_url
    ? ''
    : asSentence(facts.network_boot?.reason ?? 'The OS image has no files for network boot.');

/** The file's name with the kind in it, so that both kinds fit in one directory. */
export const fileNameOf = (name: string, kind: 'full' | 'minimal'): string =>
  kind === 'full' ? name : name.replace(/(\.iso)?$/i, '-minimal.iso');

/** The URL on this page's origin of a file that has another address of the appliance. */
export const sameOrigin = (url: string, origin: string): string => {
  try {
    const { pathname, search } = new URL(url, origin);
    return new URL(`${pathname}${search}`, origin).href;
  } catch {
    return url;
  }
};

/** The state of a sealed image in a sentence. */
export const describeSeal = ({ sealed, open, until, machines }: SealedState): string => {
  if (!sealed) {
    return (
      'The image contains the config of the hosts, with the pull secret. A sealed image contains a token instead, ' +
      'with which machines fetch the config for a limited time.'
    );
  }
  if (!open) {
    return 'The image is sealed, and no machine can fetch its config.';
  }
  const limit = machines > 0 ? `, at most ${String(machines)}` : '';
  return `The image is sealed. Machines can fetch its config until ${moment(until ?? '')}${limit}.`;
};

/** The digest in a line of sha256sum; "" in other texts. */
export const digestIn = (line: string): string => /^([0-9a-f]{64}) [ *]/.exec(line)?.[1] ?? '';

/** Sorts by activity: current readers first, then the most recent. */
export const inOrder = (reads: readonly Read[]): Read[] =>
  [...reads].sort(
    (a, b) =>
      Number(b.state === 'reading') - Number(a.state === 'reading') ||
      Date.parse(b.last_read) - Date.parse(a.last_read),
  );

/** The announcement for screen readers of new states between two responses. */
export const announce = (before: readonly Read[], after: readonly Read[]): string =>
  after
    .filter((read) => before.find((old) => isSame(old, read))?.state !== read.state)
    .map(({ client, state }) => `${client} ${announcements[state]}`)
    .join('. ');

const announcements: Record<Read['state'], string> = {
  reading: 'reads the image',
  finished: 'has read the parts that it needs',
  stopped: 'has stopped reading',
};

const isSame = (a: Read, b: Read): boolean =>
  a.client === b.client && a.image === b.image && a.kind === b.kind && a.first_read === b.first_read;

/** Converts an address on the preferred network (the first one) to another network. */
export const atNetwork = (
  url: string,
  preferred: NetworkAddresses | undefined,
  there: NetworkAddresses | undefined,
): string => {
  const base = preferred && bootBase(preferred);
  return base && there && url.startsWith(base) ? bootBase(there) + url.slice(base.length) : url;
};

/** The common prefix of images' addresses, which can differ from the page's own. */
const bootBase = ({ full }: NetworkAddresses): string => {
  const end = full.search(/\/(byid|byapikey)\//);
  return end < 0 ? '' : full.slice(0, end);
};
