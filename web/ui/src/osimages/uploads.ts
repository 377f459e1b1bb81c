import { Upload, type Announcement, type Remembered, type Surroundings, type UploadView } from './upload';

const memoryKey = 'landfall-uploads';

export type UploadsSurroundings = Pick<Surroundings, 'transport' | 'now' | 'wait'> & {
  memory: Pick<Storage, 'getItem' | 'setItem'>;
};

/**
 * All uploads of this browser: active ones, and those that were active when the page was closed.
 * They continue on every page.
 */
export class Uploads {
  readonly #around: UploadsSurroundings;
  readonly #uploads = new Map<string, Upload>();
  readonly #remembered = new Map<string, Remembered>();
  readonly #watchers = new Set<() => void>();
  #views: readonly UploadView[] = [];
  #count = 0;

  constructor(around: UploadsSurroundings) {
    this.#around = around;
    for (const remembered of readRemembered(around.memory)) {
      const key = this.#nextKey();
      const upload = Upload.restore(key, remembered, this.#surroundings());
      this.#uploads.set(key, upload);
      this.#remembered.set(key, remembered);
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
      this.forget(key);
      throw error;
    }
  };

  of = (key: string): Upload | undefined => this.#uploads.get(key);

  /** Removes an ended upload from the list. */
  forget = (key: string): void => {
    this.#uploads.get(key)?.leave();
    this.#uploads.delete(key);
    this.#remembered.delete(key);
    this.#remember();
    this.#notify();
  };

  #nextKey(): string {
    this.#count += 1;
    return `upload-${String(this.#count)}`;
  }

  #surroundings(): Surroundings {
    const { transport, now, wait } = this.#around;
    return {
      transport,
      now,
      wait,
      changed: (view, remembered) => {
        if (view.state === 'cancelled') {
          this.forget(view.key);
          return;
        }
        if (remembered) {
          this.#remembered.set(view.key, remembered);
        } else {
          this.#remembered.delete(view.key);
        }
        this.#remember();
        this.#notify();
      },
    };
  }

  #remember(): void {
    this.#around.memory.setItem(memoryKey, JSON.stringify([...this.#remembered.values()]));
  }

  #notify(): void {
    this.#views = [...this.#uploads.values()].map((upload) => upload.view);
    for (const onChange of this.#watchers) {
      onChange();
    }
  }
}

const readRemembered = (memory: UploadsSurroundings['memory']): Remembered[] => {
  try {
    const kept: unknown = JSON.parse(memory.getItem(memoryKey) ?? '[]');
    return Array.isArray(kept) ? kept.filter(isRemembered) : [];
  } catch {
    return [];
  }
};

const isRemembered = (value: unknown): value is Remembered => {
  if (typeof value !== 'object' || value === null) {
    return false;
  }
  const { id, modified, sent, announcement } = value as Partial<Remembered>;
  return (
    typeof id === 'string' &&
    typeof modified === 'number' &&
    typeof sent === 'number' &&
    typeof announcement?.name === 'string' &&
    typeof announcement.size_bytes === 'number'
  );
};
