import { asSentence, exactBytes } from '../shell/quantities';
import type { ImageFacts, ImageKind, NetworkAddresses, Read } from './api';

/** The image's kind as a person calls it. */
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

/** The size in binary units and to the byte, with the kind: "1.2 GiB (1,288,490,189 bytes), full image". */
export const describeSize = ({ size_bytes: size, type }: Pick<ImageFacts, 'size_bytes' | 'type'>): string =>
  type ? `${exactBytes(size)}, ${describeType(type)}` : exactBytes(size);

/** A shell line that downloads the image, going on where it broke off, and checks it once its digest is known. */
export const downloadCommand = (file: string, url: string, sha256?: string): string => {
  const download = `curl -fL -C - -o ${quote(file)} ${quote(url)}`;
  return sha256 ? `${download} && echo ${quote(`${sha256}  ${file}`)} | sha256sum -c` : download;
};

const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** Whether it is worth asking again soon: there is no answer yet, or the digest is still being computed. */
export const isBeingComputed = (facts: ImageFacts | undefined): boolean => !facts?.sha256;

/** Whether there is an image of that kind. */
export const isMade = (kind: ImageKind | null | undefined): kind is ImageKind & { url: string } =>
  !!kind?.url;

/** Why no minimal image can be made; "" if one can, or while that is not known. */
export const whyNoMinimal = (facts: ImageFacts | undefined): string =>
  !facts || isMade(facts.minimal)
    ? ''
    : asSentence(facts.minimal?.reason ?? 'The OS image has no part from which a minimal image could be made.');

/** Why nothing boots it over the network; "" if something does, or while that is not known. */
export const whyNoNetworkBoot = (facts: ImageFacts | undefined): string =>
  !facts || facts.network_boot?.kernel_url
    ? ''
    : asSentence(facts.network_boot?.reason ?? 'The OS image has nothing to boot over the network.');

/** The file's name with the kind in it, so that both kinds can lie side by side. */
export const fileNameOf = (name: string, kind: 'full' | 'minimal'): string =>
  kind === 'full' ? name : name.replace(/(\.iso)?$/i, '-minimal.iso');

/** The address under which a browser asks this page's own appliance for what has another of its addresses. */
export const sameOrigin = (url: string, origin: string): string => {
  try {
    const { pathname, search } = new URL(url, origin);
    return new URL(`${pathname}${search}`, origin).href;
  } catch {
    return url;
  }
};

/** The digest in a line as sha256sum writes it; "" in anything else. */
export const digestIn = (line: string): string => /^([0-9a-f]{64}) [ *]/.exec(line)?.[1] ?? '';

/** Those that read now first, then those that read last. */
export const inOrder = (reads: readonly Read[]): Read[] =>
  [...reads].sort(
    (a, b) =>
      Number(b.state === 'reading') - Number(a.state === 'reading') ||
      Date.parse(b.last_read) - Date.parse(a.last_read),
  );

/** What an ear hears of a change between two answers: who began, finished or stopped. */
export const announce = (before: readonly Read[], after: readonly Read[]): string =>
  after
    .filter((read) => before.find((old) => isSame(old, read))?.state !== read.state)
    .map(({ client, state }) => `${client} ${spoken[state]}`)
    .join('. ');

const spoken: Record<Read['state'], string> = {
  reading: 'reads the image',
  finished: 'has read what it needs',
  stopped: 'has stopped reading',
};

const isSame = (a: Read, b: Read): boolean =>
  a.client === b.client && a.image === b.image && a.kind === b.kind && a.first_read === b.first_read;

/** An address on the preferred network, the first one, as it is on another. */
export const atNetwork = (
  url: string,
  preferred: NetworkAddresses | undefined,
  there: NetworkAddresses | undefined,
): string => {
  const base = preferred && bootBase(preferred);
  return base && there && url.startsWith(base) ? bootBase(there) + url.slice(base.length) : url;
};

/** What the addresses of images begin with: not always what those of the page do. */
const bootBase = ({ full }: NetworkAddresses): string => {
  const end = full.indexOf('/byid/');
  return end < 0 ? '' : full.slice(0, end);
};
