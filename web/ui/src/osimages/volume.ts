/** The position of the primary volume descriptor in ISO 9660, and its fields (ECMA-119, 8.4). */
const descriptor = { offset: 16 * 2048, length: 2048 };
const magic = '\u0001CD001\u0001';
const volumeId = { offset: 40, length: 32 };

/** Reads the volume id of an ISO before the upload; undefined if the file is not an ISO. */
export const readVolumeId = async (file: Blob): Promise<string | undefined> => {
  const block = file.slice(descriptor.offset, descriptor.offset + descriptor.length);
  const text = new TextDecoder('latin1').decode(await block.arrayBuffer());
  if (text.length < descriptor.length || !text.startsWith(magic)) {
    return undefined;
  }
  return text.slice(volumeId.offset, volumeId.offset + volumeId.length).trimEnd();
};

/**
 * Reports whether this is a volume id of a live ISO of CoreOS: Red Hat's, the community's or
 * Fedora's.
 */
export const isCoreOS = (id: string): boolean =>
  /^(rhcos|scos|fedora-coreos|rhel-coreos|centos-stream-coreos)-/i.test(id);

/**
 * The OpenShift version in the volume id of a live ISO: its first number up to 4.18
 * (rhcos-418.94.202501221327-0). Later volume ids contain RHEL's version, which several OpenShift
 * versions share: undefined.
 */
export const versionOf = (id: string): string | undefined => {
  const minor = /^(?:rhcos|scos)-4(\d{1,2})\.\d/.exec(id)?.[1];
  return minor && `4.${minor}`;
};

/** Reports whether the text is a version: 4.20 or 4.20.8. */
export const isVersion = (text: string): boolean => /^\d+\.\d+(\.\d+(-[0-9A-Za-z.-]+)?)?$/.test(text);

/** Reports whether the text is a SHA-256: 64 hexadecimal digits. */
export const isDigest = (text: string): boolean => /^[0-9a-f]{64}$/i.test(text);
