import { Upload, type Announcement, type StoredUpload, type Surroundings, type UploadView } from './upload';

/**
 * Each upload has a key of its own: browser tabs with other uploads write to the same storage.
 */
const keyPrefix = 'landfall-upload/';
/** The key of all uploads in former releases. */
const formerKey = 'landfall-uploads';

/** An upload in the storage; the start is in milliseconds since 1970. */
type Stored = StoredUpload & { started: number };

/**
 * What the tabs of a browser say to each other: a tab asks which uploads the others have, has one
 * itself, or has one no longer.
 */
export type TabMessage = { kind: 'ask' } | { kind: 'have'; id: string; sent: number } | { kind: 'left'; id: string };

/** The questions after which a tab that does not answer has no upload: it has crashed. */
const unansweredQuestions = 3;

export type UploadsSurroundings = Pick<Surroundings, 'transport' | 'now' | 'wait' | 'untilSession'> & {
  /** Milliseconds since 1970. */
  date: () => number;
  /** Sends a message to the other tabs of this browser. */
  tell: (message: TabMessage) => void;
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
  /** The questions since another tab last said that it has an upload, by the upload's key. */
  readonly #unanswered = new Map<string, number>();
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
   * Starts the upload of a file, or resumes an earlier upload of it. An interrupted upload with
   * other facts starts over. A running one continues, because several versions can share a live
   * ISO. It throws if the appliance refuses the file; then there is no upload.
   */
  add = async (file: File, facts: Omit<Announcement, 'name' | 'size_bytes'>): Promise<void> => {
    const started = [...this.#uploads.values()].filter(
      (upload) => upload.isOf(file) && upload.view.state !== 'done',
    );
    const earlier = started.find((upload) => upload.isFor(facts)) ?? started[0];
    if (earlier?.view.state === 'elsewhere') {
      throw new Error(`Another tab or window of this browser uploads ${file.name}.`);
    }
    if (earlier?.isFor(facts)) {
      earlier.resume(file);
      return;
    }
    if (earlier && ['unfinished', 'paused', 'failed'].includes(earlier.view.state)) {
      // The appliance would import the file with the facts of the earlier announcement.
      await earlier.cancel();
      if (earlier.view.state === 'failed') {
        throw new Error(earlier.view.message);
      }
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
    this.#unanswered.delete(key);
    this.#notify();
  };

  /** Removes the upload of a key that another browser tab has removed from the storage. */
  endedElsewhere = (storageKey: string): void => {
    for (const [key, id] of this.#storedIds) {
      if (storageKey === keyPrefix + id && this.#uploads.get(key)?.isHere === false) {
        this.remove(key);
      }
    }
  };

  /** Follows a message of another tab. */
  hear = (message: TabMessage): void => {
    if (message.kind === 'ask') {
      this.tellAll();
      return;
    }
    for (const [key, id] of this.#storedIds) {
      if (id === message.id) {
        this.#unanswered.set(key, 0);
        this.#uploads.get(key)?.showElsewhere(message.kind === 'have' ? message.sent : undefined);
      }
    }
  };

  /** Tells the other tabs which uploads this one has. */
  tellAll = (): void => {
    for (const { isHere, view } of this.#uploads.values()) {
      this.#tell(isHere, view);
    }
  };

  /** Tells the other tabs that this one is closed. */
  tellLeaving = (): void => {
    for (const { isHere, view } of this.#uploads.values()) {
      if (isHere && view.id !== undefined && view.state !== 'done') {
        this.#around.tell({ kind: 'left', id: view.id });
      }
    }
  };

  /** Asks the other tabs which uploads they have. */
  ask = (): void => {
    for (const [key, upload] of this.#uploads) {
      const unanswered = (this.#unanswered.get(key) ?? 0) + 1;
      this.#unanswered.set(key, unanswered);
      if (upload.view.state === 'elsewhere' && unanswered > unansweredQuestions) {
        upload.showElsewhere(undefined);
      }
    }
    this.#around.tell({ kind: 'ask' });
  };

  #tell(isHere: boolean, { id, sent, state }: UploadView): void {
    if (isHere && id !== undefined && state !== 'done') {
      this.#around.tell({ kind: 'have', id, sent });
    }
  }

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
        if (view.state !== 'elsewhere' && view.state !== 'unfinished') {
          this.#store(view.key, stored); // the tab that has the upload stores it
        }
        this.#tell(this.#uploads.get(view.key)?.isHere ?? false, view);
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
