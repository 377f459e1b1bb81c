import type { DroppedFile } from './api';

/** Kinds of files that mirror rules are in; the rest of a workspace is large and stays where it is. */
const wanted = /\.(ya?ml|json|conf|pem|crt|txt|list)$/i;

/** No file with rules is larger, in bytes. */
const largest = 4 * 1024 ** 2;

export type Dropped = { name: string; files: DroppedFile[] };

/** What was dropped: a folder with the files that may be of a mirror's, or single files as they are. */
export const readDrop = async (items: DataTransferItemList): Promise<Dropped | undefined> => {
  // The list is empty once this turn is over.
  const plain = [...items].map((item) => item.getAsFile()).filter((file) => file !== null);
  const entries = [...items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  const first = entries[0] ?? plain[0];
  if (!first) {
    return undefined;
  }
  const files: DroppedFile[] = entries.length > 0 ? [] : plain.map((file) => ({ path: file.name, file }));
  for (const entry of entries) {
    await collect(entry, '', files);
  }
  return { name: first.name, files };
};

const collect = async (entry: FileSystemEntry, folder: string, into: DroppedFile[]): Promise<void> => {
  if (isFile(entry)) {
    const file = await new Promise<File>((resolve, reject) => {
      entry.file(resolve, reject);
    });
    if (folder === '' || (wanted.test(entry.name) && file.size <= largest)) {
      into.push({ path: folder + entry.name, file });
    }
    return;
  }
  if (isFolder(entry)) {
    for (const child of await childrenOf(entry)) {
      await collect(child, `${folder}${entry.name}/`, into);
    }
  }
};

/** Browsers give the children of a folder in portions; an empty one is the last. */
const childrenOf = async (folder: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> => {
  const reader = folder.createReader();
  const children: FileSystemEntry[] = [];
  for (;;) {
    const portion = await new Promise<FileSystemEntry[]>((resolve, reject) => {
      reader.readEntries(resolve, reject);
    });
    if (portion.length === 0) {
      return children;
    }
    children.push(...portion);
  }
};

const isFile = (entry: FileSystemEntry): entry is FileSystemFileEntry => entry.isFile;
const isFolder = (entry: FileSystemEntry): entry is FileSystemDirectoryEntry => entry.isDirectory;
