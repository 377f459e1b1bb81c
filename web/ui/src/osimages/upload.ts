import { ApplianceError, sentenceOf } from '../shell/request';

/** What the appliance is told before the first byte: what `POST /api/landfall/v1/os-images/uploads` takes. */
export type Announcement = {
  name: string;
  size_bytes: number;
  /** Hexadecimal; the appliance compares it at the end. */
  sha256?: string;
  openshift_version?: string;
  cpu_architecture?: string;
};

/** How an upload reaches the appliance. Each call throws an `ApplianceError` when it was refused or not answered. */
export type Transport = {
  announce(announcement: Announcement): Promise<{ id: string; offset_bytes: number }>;
  /** The number of bytes that the appliance has. */
  offset(id: string): Promise<number>;
  /** Whether all of it has arrived and has become an OS image. Then it is no upload any more. */
  isWhole(id: string): Promise<boolean>;
  append(id: string, offset: number, part: Blob, signal: AbortSignal): Promise<void>;
  abandon(id: string): Promise<void>;
};

/**
 * - `sending`: parts are on their way
 * - `waiting`: the appliance does not answer; it is asked again until it does
 * - `paused`: the person said so
 * - `unfinished`: begun before the page was loaded; goes on when the person chooses the file again
 * - `checking`: all bytes are there, the appliance looks at them
 * - `failed`: it was refused, `message` says why; `resume` tries again
 * - `done`, `cancelled`: it is over
 */
export type UploadState =
  | 'sending'
  | 'waiting'
  | 'paused'
  | 'unfinished'
  | 'checking'
  | 'failed'
  | 'done'
  | 'cancelled';

/** What is shown of an upload; each change makes another one. */
export type UploadView = {
  /** Of this object in this page; the appliance's id comes later. */
  key: string;
  /** The appliance's; undefined until it took the upload. */
  id: string | undefined;
  name: string;
  size: number;
  state: UploadState;
  /** Bytes that the appliance has. */
  sent: number;
  /** Bytes per second of late; 0 while that is not known. */
  speed: number;
  /** A sentence for `waiting` and `failed`, else "". */
  message: string;
};

/** What is kept of an upload for the time after a reload. */
export type Remembered = {
  id: string;
  announcement: Announcement;
  /** The file's own last modification, milliseconds since 1970: another one means another content. */
  modified: number;
  sent: number;
};

/** The first part is small, so that there is progress to see on a slow link too; then parts take about a second. */
const firstPart = 256 * 1024;
const largestPart = 16 * 1024 ** 2;
const secondsPerPart = 1;
/** Waits between attempts while the appliance does not answer, milliseconds; the last one is repeated. */
export const retryDelays = [500, 1_000, 2_000, 5_000];

/** What an upload needs of its surroundings; tests give their own. */
export type Surroundings = {
  transport: Transport;
  /** Milliseconds, of a clock that only goes forward. */
  now(): number;
  /** Ends after that time, or earlier when the signal does. */
  wait(milliseconds: number, signal: AbortSignal): Promise<void>;
  /** Called with each change, with what to remember of it: undefined when that is nothing. */
  changed(view: UploadView, remembered: Remembered | undefined): void;
};

/** One file on its way to the appliance. It goes on by itself after a lost connection, and after a reload with `resume`. */
export class Upload {
  readonly #around: Surroundings;
  readonly #announcement: Announcement;
  readonly #modified: number;
  #view: UploadView;
  #file: File | undefined;
  #id: string | undefined;
  #running: AbortController | undefined;

  private constructor(
    key: string,
    announcement: Announcement,
    modified: number,
    around: Surroundings,
    start: Pick<UploadView, 'state' | 'sent'>,
  ) {
    this.#around = around;
    this.#announcement = announcement;
    this.#modified = modified;
    this.#view = {
      key,
      id: undefined,
      name: announcement.name,
      size: announcement.size_bytes,
      speed: 0,
      message: '',
      ...start,
    };
  }

  /** An upload of a file that the person has just chosen; it begins with `start`. */
  static of(
    key: string,
    file: File,
    facts: Omit<Announcement, 'name' | 'size_bytes'>,
    around: Surroundings,
  ): Upload {
    const announcement = { name: file.name, size_bytes: file.size, ...facts };
    const upload = new Upload(key, announcement, file.lastModified, around, { state: 'paused', sent: 0 });
    upload.#file = file;
    return upload;
  }

  /** An upload that was begun before the page was loaded. */
  static recall(key: string, { id, announcement, modified, sent }: Remembered, around: Surroundings): Upload {
    const upload = new Upload(key, announcement, modified, around, { state: 'unfinished', sent });
    upload.#id = id;
    return upload;
  }

  get view(): UploadView {
    return this.#view;
  }

  /** Whether that is the file that this upload is of. */
  isOf = (file: File): boolean =>
    file.name === this.#announcement.name &&
    file.size === this.#announcement.size_bytes &&
    file.lastModified === this.#modified;

  /**
   * Announces the upload; ends when the appliance took it, and throws what it refused it with, so that a form can say
   * so. The bytes follow by themselves.
   */
  start = async (): Promise<void> => {
    const { id, offset_bytes: sent } = await this.#around.transport.announce(this.#announcement);
    this.#id = id;
    this.#show({ sent });
    void this.#run(sent);
  };

  /** Goes on after `pause` or a failure; an unfinished upload needs its file again. */
  resume = (file: File | undefined = this.#file): void => {
    if (!file) {
      return;
    }
    if (!this.isOf(file)) {
      this.#show({ message: `${file.name} is another file than the one whose upload was begun.` });
      return;
    }
    this.#file = file;
    if (!this.#running) {
      void this.#run();
    }
  };

  pause = (): void => {
    this.#stop();
    this.#show({ state: 'paused', speed: 0, message: '' });
  };

  /** Gives up, here and at the appliance. */
  cancel = async (): Promise<void> => {
    this.#stop();
    if (this.#id !== undefined) {
      try {
        await this.#around.transport.abandon(this.#id);
      } catch (error) {
        if (!(error instanceof ApplianceError && error.status === 404)) {
          this.#show({ state: 'failed', message: `It could not be cancelled: ${sentenceOf(error)}` });
          return;
        }
      }
    }
    this.#show({ state: 'cancelled', speed: 0, message: '' });
  };

  /** Leaves everything as it is, at the appliance too. */
  leave(): void {
    this.#stop();
  }

  #stop(): void {
    this.#running?.abort();
    this.#running = undefined;
  }

  /** Sends until all is sent, from an offset that is known or is asked for. */
  async #run(from?: number): Promise<void> {
    const running = new AbortController();
    this.#running = running;
    const { signal } = running;
    let known = from;
    let failures = 0;
    this.#show({ state: 'sending', message: '', speed: 0 });
    while (!signal.aborted) {
      try {
        known ??= await this.#arrived();
        await this.#send(known, signal, () => {
          failures = 0;
        });
        this.#running = undefined;
        return;
      } catch (error) {
        if (!this.#goesOn(error, signal, failures)) {
          return;
        }
        known = undefined; // what had arrived before it broke off is for the appliance to say
        const delay = retryDelays[Math.min(failures, retryDelays.length - 1)] ?? 0;
        failures += 1;
        await this.#around.wait(delay, signal);
      }
    }
  }

  /** The number of bytes that the appliance has; all of them, when it is no upload any more but an OS image. */
  async #arrived(): Promise<number> {
    const { transport } = this.#around;
    const id = await this.#announced();
    try {
      return await transport.offset(id);
    } catch (error) {
      if (error instanceof ApplianceError && error.status === 404 && (await transport.isWhole(id))) {
        return this.#view.size;
      }
      throw error;
    }
  }

  /** The appliance's id of this upload, which is announced again if the appliance has forgotten it. */
  async #announced(): Promise<string> {
    this.#id ??= (await this.#around.transport.announce(this.#announcement)).id;
    return this.#id;
  }

  async #send(from: number, signal: AbortSignal, arrived: () => void): Promise<void> {
    const { size } = this.#view;
    const file = this.#file;
    const id = await this.#announced();
    if (!file) {
      throw new Error('The file is not chosen yet.');
    }
    let sent = from;
    let part = firstPart;
    this.#show({ state: sent < size ? 'sending' : 'done', sent, message: '' });
    while (sent < size) {
      const end = Math.min(size, sent + part);
      if (end === size) {
        this.#show({ state: 'checking', speed: 0 });
      }
      const began = this.#around.now();
      await this.#around.transport.append(id, sent, file.slice(sent, end), signal);
      if (signal.aborted) {
        return;
      }
      arrived();
      const seconds = Math.max(1, this.#around.now() - began) / 1_000;
      const rate = (end - sent) / seconds;
      const speed = this.#view.speed === 0 ? rate : 0.7 * this.#view.speed + 0.3 * rate;
      part = Math.min(largestPart, Math.max(firstPart, Math.round(rate * secondsPerPart)));
      sent = end;
      this.#show({ state: sent < size ? 'sending' : 'done', sent, speed, message: '' });
    }
  }

  /** Whether another attempt is worth it by itself after that error; if not, it is shown. */
  #goesOn(error: unknown, signal: AbortSignal, failures: number): boolean {
    if (signal.aborted) {
      return false;
    }
    if (error instanceof ApplianceError) {
      if (error.isPassing) {
        this.#show({ state: 'waiting', speed: 0, message: error.message });
        return true;
      }
      // What is said of the last part is said of the whole file.
      const mayBeMended = failures < retryDelays.length && this.#view.state !== 'checking';
      if (error.status === 404 && this.#id !== undefined && mayBeMended) {
        this.#id = undefined; // it was given up elsewhere: from the beginning
        this.#show({ sent: 0 });
        return true;
      }
      if (error.status === 409 && mayBeMended) {
        return true; // it has another number of bytes than was thought
      }
    }
    this.#running = undefined;
    this.#show({ state: 'failed', speed: 0, message: sentenceOf(error) });
    return false;
  }

  #show(change: Partial<UploadView>): void {
    this.#view = { ...this.#view, id: this.#id, ...change };
    const over = this.#view.state === 'done' || this.#view.state === 'cancelled';
    this.#around.changed(
      this.#view,
      over || this.#id === undefined
        ? undefined
        : {
            id: this.#id,
            announcement: this.#announcement,
            modified: this.#modified,
            sent: this.#view.sent,
          },
    );
  }
}
