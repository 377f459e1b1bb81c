import { ApplianceError, sentenceOf } from '../shell/request';

/** The announcement of an upload: the body of `POST /api/landfall/v1/os-images/uploads`. */
export type Announcement = {
  name: string;
  size_bytes: number;
  /** Hexadecimal; the appliance compares it at the end. */
  sha256?: string;
  openshift_version?: string;
  cpu_architecture?: string;
};

/**
 * The requests of an upload. Each call throws an `ApplianceError` if it is rejected or has no
 * response.
 */
export type Transport = {
  announce(announcement: Announcement): Promise<{ id: string; offset_bytes: number }>;
  /** The number of bytes that the appliance has received. */
  offset(id: string): Promise<number>;
  /** Whether the upload is complete and has become an OS image; it then no longer exists. */
  isWhole(id: string): Promise<boolean>;
  append(id: string, offset: number, part: Blob, signal: AbortSignal): Promise<void>;
  abandon(id: string): Promise<void>;
};

/**
 * - `sending`: parts are being sent
 * - `waiting`: the appliance does not respond, or the session has ended; the upload continues when
 *   it responds, or when the person has logged in again
 * - `paused`: paused by the user
 * - `elsewhere`: another tab or window of this browser has the upload
 * - `unfinished`: started before the page was loaded; resumes when the user chooses the file
 *   again
 * - `checking`: all bytes have arrived, the appliance checks them
 * - `failed`: rejected, with the reason in `message`; `resume` tries again
 * - `done`, `cancelled`: ended
 */
export type UploadState =
  | 'sending'
  | 'waiting'
  | 'paused'
  | 'elsewhere'
  | 'unfinished'
  | 'checking'
  | 'failed'
  | 'done'
  | 'cancelled';

/** The state of an upload for the page. Each change creates a new object. */
export type UploadView = {
  /** The key of this object in this page; the appliance's id comes later. */
  key: string;
  /** The appliance's id; undefined until it has accepted the upload. */
  id: string | undefined;
  name: string;
  size: number;
  state: UploadState;
  /** Bytes that the appliance has received. */
  sent: number;
  /** Recent bytes per second; 0 while unknown. */
  speed: number;
  /** A sentence for `waiting` and `failed`, otherwise "". */
  message: string;
};

/** The data of an upload that is stored so that it can resume after a reload of the page. */
export type StoredUpload = {
  id: string;
  announcement: Announcement;
  /**
   * The time of the file's last change, in milliseconds since 1970: another time means other
   * content.
   */
  modified: number;
  sent: number;
};

/** The first part is small, to show progress on a slow link; later parts take about a second. */
const firstPart = 256 * 1024;
const largestPart = 16 * 1024 ** 2;
const secondsPerPart = 1;
/**
 * Delays between attempts while the appliance does not respond, in milliseconds; the last one
 * repeats.
 */
export const retryDelays = [500, 1_000, 2_000, 5_000];

const isUnauthenticated = (error: unknown): boolean => error instanceof ApplianceError && error.status === 401;

/** The environment of an upload; tests pass their own. */
export type Surroundings = {
  transport: Transport;
  /** Milliseconds of a monotonic clock. */
  now(): number;
  /** Resolves after this time, or earlier when the signal aborts. */
  wait(milliseconds: number, signal: AbortSignal): Promise<void>;
  /** Resolves when there is a session again, or when the signal aborts. */
  untilSession(signal: AbortSignal): Promise<void>;
  /** Called after each change, with the data to store; undefined if there is none. */
  changed(view: UploadView, stored: StoredUpload | undefined): void;
};

/**
 * The upload of one file. It resumes automatically after a lost connection, and after a reload with
 * `resume`.
 */
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

  /** An upload of a newly chosen file; `start` starts it. */
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

  /** An upload that was started before the page was loaded. */
  static restore(key: string, { id, announcement, modified, sent }: StoredUpload, around: Surroundings): Upload {
    const upload = new Upload(key, announcement, modified, around, { state: 'unfinished', sent });
    upload.#id = id;
    return upload;
  }

  get view(): UploadView {
    return this.#view;
  }

  /** Reports whether this tab has the file: only one tab at a time sends it. */
  get isHere(): boolean {
    return this.#file !== undefined;
  }

  /** Reports whether this upload is of that file. */
  isOf = (file: File): boolean =>
    file.name === this.#announcement.name &&
    file.size === this.#announcement.size_bytes &&
    file.lastModified === this.#modified;

  /**
   * Reports whether this upload was announced with the given facts. Facts that are not given match.
   */
  isFor = (facts: Omit<Announcement, 'name' | 'size_bytes'>): boolean =>
    (['sha256', 'openshift_version', 'cpu_architecture'] as const).every(
      (fact) => !facts[fact] || facts[fact].toLowerCase() === this.#announcement[fact]?.toLowerCase(),
    );

  /**
   * Announces the upload. It resolves when the appliance accepts it, and throws the error if the
   * appliance refuses it, so that a form can show it. The bytes are sent afterwards.
   */
  start = async (): Promise<void> => {
    const { id, offset_bytes: sent } = await this.#around.transport.announce(this.#announcement);
    this.#id = id;
    this.#show({ sent });
    void this.#run(sent);
  };

  /** Resumes after `pause` or a failure; an unfinished upload needs its file again. */
  resume = (file: File | undefined = this.#file): void => {
    if (!file) {
      return;
    }
    if (!this.isOf(file)) {
      this.#show({ message: `${file.name} is not the file of the started upload.` });
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

  /** Cancels the upload, here and at the appliance. */
  cancel = async (): Promise<void> => {
    this.#stop();
    if (this.#id !== undefined) {
      try {
        await this.#around.transport.abandon(this.#id);
      } catch (error) {
        if (!(error instanceof ApplianceError && error.status === 404)) {
          this.#show({ state: 'failed', message: `The upload could not be cancelled: ${sentenceOf(error)}` });
          return;
        }
      }
    }
    this.#show({ state: 'cancelled', speed: 0, message: '' });
  };

  /** Shows that another tab has the upload, or has it no longer. */
  showElsewhere = (sent: number | undefined): void => {
    if (!this.isHere) {
      this.#show(sent === undefined ? { state: 'unfinished' } : { state: 'elsewhere', sent, message: '' });
    }
  };

  /** Stops without a change of state, here and at the appliance. */
  leave(): void {
    this.#stop();
  }

  #stop(): void {
    this.#running?.abort();
    this.#running = undefined;
  }

  /**
   * Sends until the end of the file. It starts at the given offset, or requests the offset from the
   * appliance.
   */
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
        if (!this.#retries(error, signal, failures)) {
          return;
        }
        known = undefined; // only the appliance has the number of bytes that arrived before the error
        if (isUnauthenticated(error)) {
          await this.#around.untilSession(signal);
          continue;
        }
        const delay = retryDelays[Math.min(failures, retryDelays.length - 1)] ?? 0;
        failures += 1;
        await this.#around.wait(delay, signal);
      }
    }
  }

  /**
   * The number of bytes that the appliance has received; the size, if the upload has become an OS
   * image.
   */
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

  /**
   * The appliance's id of this upload. The upload is announced again if the appliance no longer has
   * it.
   */
  async #announced(): Promise<string> {
    this.#id ??= (await this.#around.transport.announce(this.#announcement)).id;
    return this.#id;
  }

  async #send(from: number, signal: AbortSignal, arrived: () => void): Promise<void> {
    const { size } = this.#view;
    const file = this.#file;
    const id = await this.#announced();
    if (!file) {
      throw new Error('No file has been chosen yet.');
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

  /** Reports whether to retry automatically after this error; otherwise shows the error. */
  #retries(error: unknown, signal: AbortSignal, failures: number): boolean {
    if (signal.aborted) {
      return false;
    }
    if (error instanceof ApplianceError) {
      if (isUnauthenticated(error)) {
        this.#show({ state: 'waiting', speed: 0, message: 'Log in again to continue the upload.' });
        return true;
      }
      if (error.isPassing) {
        this.#show({ state: 'waiting', speed: 0, message: error.message });
        return true;
      }
      // An error at the last part is about the whole file.
      const mayBeMended = failures < retryDelays.length && this.#view.state !== 'checking';
      if (error.status === 404 && this.#id !== undefined && mayBeMended) {
        this.#id = undefined; // it was cancelled elsewhere: start over
        this.#show({ sent: 0 });
        return true;
      }
      if (error.status === 409 && mayBeMended) {
        return true; // the appliance has another number of bytes
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
