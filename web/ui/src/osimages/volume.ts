/** Where ISO 9660 has its primary volume descriptor, and the fields of it that are read (ECMA-119, 8.4). */
const descriptor = { offset: 16 * 2048, length: 2048 };
const magic = '\u0001CD001\u0001';
const volumeId = { offset: 40, length: 32 };

/** The volume id of an ISO, read from the file before any of it is sent; undefined of a file that is no ISO. */
export const readVolumeId = async (file: Blob): Promise<string | undefined> => {
  const block = file.slice(descriptor.offset, descriptor.offset + descriptor.length);
  const text = new TextDecoder('latin1').decode(await block.arrayBuffer());
  if (text.length < descriptor.length || !text.startsWith(magic)) {
    return undefined;
  }
  return text.slice(volumeId.offset, volumeId.offset + volumeId.length).trimEnd();
};

/** Whether live ISOs of CoreOS are called so: Red Hat's, the community's, Fedora's. */
export const isCoreOS = (id: string): boolean => /^(rhcos|scos|fedora-coreos|rhel-coreos|centos-stream-coreos)-/i.test(id);

/**
 * The OpenShift version that a live ISO is called by: its first number up to 4.18 (rhcos-418.94.202501221327-0). Later
 * ones have RHEL's version there, which several versions of OpenShift share: undefined.
 */
export const versionOf = (id: string): string | undefined => {
  const minor = /^(?:rhcos|scos)-4(\d{1,2})\.\d/.exec(id)?.[1];
  return minor && `4.${minor}`;
};

/** Whether that is a version as people write it: 4.20 or 4.20.8. */
export const isVersion = (text: string): boolean => /^\d+\.\d+(\.\d+(-[0-9A-Za-z.-]+)?)?$/.test(text);

/** Whether that is a SHA-256 as people paste it: 64 hexadecimal digits. */
export const isDigest = (text: string): boolean => /^[0-9a-f]{64}$/i.test(text);
