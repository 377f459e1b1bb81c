import type { DroppedFile } from './api';

/**
 * The types of files with mirror rules; the other files of a workspace are large and are not
 * uploaded.
 */
const wanted = /\.(ya?ml|json|conf|pem|crt|txt|list)$/i;

/** The maximum size of a file with rules, in bytes. */
const largest = 4 * 1024 ** 2;

export type Dropped = { name: string; files: DroppedFile[] };

/** The dropped files: the relevant files of a directory, or single files. */
export const readDrop = async (items: DataTransferItemList): Promise<Dropped | undefined> => {
  // The browser empties the list when the event handler returns.
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

const collect = async (entry: FileSystemEntry, directory: string, into: DroppedFile[]): Promise<void> => {
  if (isFile(entry)) {
    const file = await new Promise<File>((resolve, reject) => {
      entry.file(resolve, reject);
    });
    if (directory === '' || (wanted.test(entry.name) && file.size <= largest)) {
      into.push({ path: directory + entry.name, file });
    }
    return;
  }
  if (isDirectory(entry)) {
    for (const child of await childrenOf(entry)) {
      await collect(child, `${directory}${entry.name}/`, into);
    }
  }
};

/**
 * Reads the children of a directory. Browsers return them in portions; an empty portion is the
 * last.
 */
const childrenOf = async (directory: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> => {
  const reader = directory.createReader();
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
const isDirectory = (entry: FileSystemEntry): entry is FileSystemDirectoryEntry => entry.isDirectory;
