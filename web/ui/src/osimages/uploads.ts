import { Upload, type Announcement, type StoredUpload, type Surroundings, type UploadView } from './upload';

const storageKey = 'landfall-uploads';

export type UploadsSurroundings = Pick<Surroundings, 'transport' | 'now' | 'wait' | 'untilSession'> & {
  storage: Pick<Storage, 'getItem' | 'setItem'>;
};

/**
 * All uploads of this browser: active ones, and those that were active when the page was closed.
 * They continue on every page.
 */
export class Uploads {
  readonly #around: UploadsSurroundings;
  readonly #uploads = new Map<string, Upload>();
  readonly #stored = new Map<string, StoredUpload>();
  readonly #watchers = new Set<() => void>();
  #views: readonly UploadView[] = [];
  #count = 0;

  constructor(around: UploadsSurroundings) {
    this.#around = around;
    for (const stored of readStored(around.storage)) {
      const key = this.#nextKey();
      const upload = Upload.restore(key, stored, this.#surroundings());
      this.#uploads.set(key, upload);
      this.#stored.set(key, stored);
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
    this.#stored.delete(key);
    this.#store();
    this.#notify();
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
        if (stored) {
          this.#stored.set(view.key, stored);
        } else {
          this.#stored.delete(view.key);
        }
        this.#store();
        this.#notify();
      },
    };
  }

  #store(): void {
    this.#around.storage.setItem(storageKey, JSON.stringify([...this.#stored.values()]));
  }

  #notify(): void {
    this.#views = [...this.#uploads.values()].map((upload) => upload.view);
    for (const onChange of this.#watchers) {
      onChange();
    }
  }
}

const readStored = (storage: UploadsSurroundings['storage']): StoredUpload[] => {
  try {
    const kept: unknown = JSON.parse(storage.getItem(storageKey) ?? '[]');
    return Array.isArray(kept) ? kept.filter(isStoredUpload) : [];
  } catch {
    return [];
  }
};

const isStoredUpload = (value: unknown): value is StoredUpload => {
  if (typeof value !== 'object' || value === null) {
    return false;
  }
  const { id, modified, sent, announcement } = value as Partial<StoredUpload>;
  return (
    typeof id === 'string' &&
    typeof modified === 'number' &&
    typeof sent === 'number' &&
    typeof announcement?.name === 'string' &&
    typeof announcement.size_bytes === 'number'
  );
};
