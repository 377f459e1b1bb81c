import type { ImageFacts } from '../shell/appliance';

const gibibyte = 1024 ** 3;
const mebibyte = 1024 ** 2;

/** The image's kind as a person calls it. */
export const describeType = (type: string): string => {
  switch (type) {
    case 'full-iso':
      return 'full image';
    case 'minimal-iso':
      return 'minimal image';
    default:
      return type;
  }
};

/** The size in binary units and to the byte, with the kind: "1.2 GiB (1,288,490,189 bytes), full image". */
export const describeSize = ({ size_bytes: bytes, type }: ImageFacts): string => {
  const rounded =
    bytes >= gibibyte
      ? `${(bytes / gibibyte).toFixed(1)} GiB`
      : `${(bytes / mebibyte).toFixed(1)} MiB`;
  const exact = `${rounded} (${bytes.toLocaleString('en')} bytes)`;
  return type ? `${exact}, ${describeType(type)}` : exact;
};

/** A shell line that downloads the image, going on where it broke off, and checks it once its digest is known. */
export const downloadCommand = (file: string, url: string, sha256?: string): string => {
  const download = `curl -fL -C - -o ${quote(file)} ${quote(url)}`;
  return sha256 ? `${download} && echo ${quote(`${sha256}  ${file}`)} | sha256sum -c` : download;
};

const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** Whether it is worth asking again: there is no answer yet, or its digest is still being computed. */
export const isBeingComputed = (facts: ImageFacts | undefined): boolean => !facts?.sha256;
