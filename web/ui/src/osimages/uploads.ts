import { Upload, type Announcement, type StoredUpload, type Surroundings, type UploadView } from './upload';

/**
 * Each upload has a key of its own: browser tabs with other uploads write to the same storage.
 */
const keyPrefix = 'landfall-upload/';
/** The key of all uploads in former releases. */
const formerKey = 'landfall-uploads';

/** An upload in the storage; the start is in milliseconds since 1970. */
type Stored = StoredUpload & { started: number };

export type UploadsSurroundings = Pick<Surroundings, 'transport' | 'now' | 'wait' | 'untilSession'> & {
  /** Milliseconds since 1970. */
  date: () => number;
  storage: Pick<Storage, 'length' | 'key' | 'getItem' | 'setItem' | 'removeItem'>;
};

/**
 * All uploads of this browser: active ones, and those that were active when the page was closed.
 * They continue on every page.
 */
export class Uploads {
  readonly #around: UploadsSurroundings;
  readonly #uploads = new Map<string, Upload>();
  /** The appliance's ids under which the uploads are stored. */
  readonly #storedIds = new Map<string, string>();
  readonly #starts = new Map<string, number>();
  readonly #watchers = new Set<() => void>();
  #views: readonly UploadView[] = [];
  #count = 0;

  constructor(around: UploadsSurroundings) {
    this.#around = around;
    convert(around.storage);
    for (const stored of readStored(around.storage)) {
      const key = this.#nextKey();
      const upload = Upload.restore(key, stored, this.#surroundings());
      this.#uploads.set(key, upload);
      this.#storedIds.set(key, stored.id);
      this.#starts.set(key, stored.started);
    }
    this.#notify();
  }

  /**
   * The states of all uploads in the order of their start. The array stays the same until a change.
   */
  views = (): readonly UploadView[] => this.#views;

  /** Calls `onChange` after each change until the returned function is called. */
  watch = (onChange: () => void): (() => void) => {
    this.#watchers.add(onChange);
    return () => this.#watchers.delete(onChange);
  };

  /**
   * Starts the upload of a file, or resumes an earlier upload of it. It throws if the appliance
   * refuses the file; then there is no upload.
   */
  add = async (file: File, facts: Omit<Announcement, 'name' | 'size_bytes'>): Promise<void> => {
    const earlier = [...this.#uploads.values()].find(
      (upload) => upload.isOf(file) && upload.view.state !== 'done',
    );
    if (earlier) {
      earlier.resume(file);
      return;
    }
    const key = this.#nextKey();
    const upload = Upload.of(key, file, facts, this.#surroundings());
    this.#uploads.set(key, upload);
    this.#starts.set(key, this.#around.date());
    try {
      await upload.start();
    } catch (error) {
      this.remove(key);
      throw error;
    }
  };

  of = (key: string): Upload | undefined => this.#uploads.get(key);

  /** Removes an ended upload from the list. */
  remove = (key: string): void => {
    this.#uploads.get(key)?.leave();
    this.#uploads.delete(key);
    this.#store(key, undefined);
    this.#starts.delete(key);
    this.#notify();
  };

  /** Removes the upload of a key that another browser tab has removed from the storage. */
  endedElsewhere = (storageKey: string): void => {
    for (const [key, id] of this.#storedIds) {
      if (storageKey === keyPrefix + id && this.#uploads.get(key)?.view.state === 'unfinished') {
        this.remove(key);
      }
    }
  };

  #nextKey(): string {
    this.#count += 1;
    return `upload-${String(this.#count)}`;
  }

  #surroundings(): Surroundings {
    const { transport, now, wait, untilSession } = this.#around;
    return {
      transport,
      now,
      wait,
      untilSession,
      changed: (view, stored) => {
        if (view.state === 'cancelled') {
          this.remove(view.key);
          return;
        }
        this.#store(view.key, stored);
        this.#notify();
      },
    };
  }

  #store(key: string, stored: StoredUpload | undefined): void {
    const { storage } = this.#around;
    const former = this.#storedIds.get(key);
    if (former !== undefined && former !== stored?.id) {
      storage.removeItem(keyPrefix + former);
      this.#storedIds.delete(key);
    }
    if (stored) {
      write(storage, { ...stored, started: this.#starts.get(key) ?? 0 });
      this.#storedIds.set(key, stored.id);
    }
  }

  #notify(): void {
    this.#views = [...this.#uploads.values()].map((upload) => upload.view);
    for (const onChange of this.#watchers) {
      onChange();
    }
  }
}

type StorageOfUploads = UploadsSurroundings['storage'];

const readStored = (storage: StorageOfUploads): Stored[] =>
  Array.from({ length: storage.length }, (_, place) => storage.key(place) ?? '')
    .filter((key) => key.startsWith(keyPrefix))
    .map((key) => withStart(0, parse(storage.getItem(key) ?? '')))
    .filter(isStored)
    .sort((a, b) => a.started - b.started);

/** Former releases did not store the start. */
const withStart = (started: number, stored: unknown): unknown =>
  typeof stored === 'object' ? { started, ...stored } : stored;

const write = (storage: StorageOfUploads, stored: Stored): void => {
  storage.setItem(keyPrefix + stored.id, JSON.stringify(stored));
};

/** Gives each upload of a former release its own key, in the same order. */
const convert = (storage: StorageOfUploads): void => {
  const former = parse(storage.getItem(formerKey) ?? '');
  if (Array.isArray(former)) {
    former
      .map((upload, place) => withStart(place, upload))
      .filter(isStored)
      .forEach((upload) => {
        write(storage, upload);
      });
  }
  storage.removeItem(formerKey);
};

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

const isStored = (value: unknown): value is Stored => {
  if (typeof value !== 'object' || value === null) {
    return false;
  }
  const { id, started, modified, sent, announcement } = value as Partial<Stored>;
  return (
    typeof id === 'string' &&
    typeof started === 'number' &&
    typeof modified === 'number' &&
    typeof sent === 'number' &&
    typeof announcement?.name === 'string' &&
    typeof announcement.size_bytes === 'number'
  );
};
