import { describe, expect, it } from 'vitest';
import { ApplianceError } from '../src/shell/request';
import { Upload, retryDelays, type StoredUpload, type Surroundings, type UploadView } from '../src/osimages/upload';

const mebibyte = 1024 ** 2;

/** An appliance in memory that stores parts and fails on request. */
class Appliance {
  now = 0;
  received = new Map<string, Uint8Array>();
  whole = new Set<string>();
  announced: unknown[] = [];
  parts: number[] = [];
  waits: number[] = [];
  views: UploadView[] = [];
  stored: StoredUpload | undefined;
  /** Errors of the next calls, one each. */
  failures: Error[] = [];
  /** The duration of one part in milliseconds. */
  slowness = 500;
  /** Called before a part is stored. */
  onPart: (count: number) => void = () => undefined;

  readonly surroundings: Surroundings = {
    transport: {
      announce: (announcement) => {
        this.#fail();
        this.announced.push(announcement);
        const id = `id-${String(this.announced.length)}`;
        this.received.set(id, new Uint8Array());
        return Promise.resolve({ id, offset_bytes: 0 });
      },
      offset: (id) => {
        this.#fail();
        return Promise.resolve(this.#of(id).length);
      },
      isWhole: (id) => Promise.resolve(this.whole.has(id)),
      append: async (id, offset, part, signal) => {
        this.onPart(this.parts.length + 1);
        this.#fail();
        signal.throwIfAborted();
        const have = this.#of(id);
        if (offset !== have.length) {
          throw new ApplianceError(409, 'another offset');
        }
        const more = new Uint8Array(await part.arrayBuffer());
        signal.throwIfAborted();
        const all = new Uint8Array(have.length + more.length);
        all.set(have);
        all.set(more, have.length);
        this.received.set(id, all);
        this.parts.push(more.length);
        this.now += this.slowness;
      },
      abandon: (id) => {
        this.#fail();
        this.#of(id);
        this.received.delete(id);
        return Promise.resolve();
      },
    },
    now: () => this.now,
    wait: (milliseconds) => {
      this.waits.push(milliseconds);
      return Promise.resolve();
    },
    untilSession: () => Promise.resolve(),
    changed: (view, stored) => {
      this.views.push(view);
      this.stored = stored;
    },
  };

  /** Reports whether it has these bytes. (A comparison of single elements takes seconds.) */
  has(id: string, bytes: Uint8Array): boolean {
    return Buffer.from(bytes).equals(this.received.get(id) ?? new Uint8Array());
  }

  get last(): UploadView | undefined {
    return this.views.at(-1);
  }

  #fail(): void {
    const failure = this.failures.shift();
    if (failure) {
      throw failure;
    }
  }

  #of(id: string): Uint8Array {
    const have = this.received.get(id);
    if (!have) {
      throw new ApplianceError(404, 'There is no such upload.');
    }
    return have;
  }
}

const pattern = Uint8Array.from({ length: 251 }, (_, index) => index);
/** Bytes of a pattern. (Creating them one by one takes seconds.) */
const content = (size: number) => new Uint8Array(Buffer.alloc(size, pattern));
const file = (size: number, lastModified = 1) => new File([content(size)], 'live.iso', { lastModified });
const away = () => new ApplianceError(0, 'The appliance does not respond.');

/** Waits until all pending promises are settled. */
const settle = () => new Promise((done) => setTimeout(done, 20));

const begin = async (appliance: Appliance, size = 3 * mebibyte) => {
  const upload = Upload.of('key', file(size), { sha256: 'ab' }, appliance.surroundings);
  await upload.start();
  return upload;
};

describe('Upload', () => {
  it('sends the whole file', async () => {
    const appliance = new Appliance();
    await begin(appliance);
    await settle();
    expect(appliance.last).toMatchObject({ state: 'done', sent: 3 * mebibyte });
    expect(appliance.has('id-1', content(3 * mebibyte))).toBe(true);
    expect(appliance.announced).toEqual([{ name: 'live.iso', size_bytes: 3 * mebibyte, sha256: 'ab' }]);
    expect(appliance.stored).toBeUndefined();
  });

  it('adapts the part size to the speed of the link', async () => {
    const appliance = new Appliance();
    await begin(appliance);
    await settle();
    expect(appliance.parts[0]).toBe(256 * 1024);
    expect(appliance.parts[1]).toBe(512 * 1024);
  });

  it('shows the speed and the check', async () => {
    const appliance = new Appliance();
    await begin(appliance, mebibyte);
    await settle();
    expect(appliance.views.find(({ speed }) => speed > 0)?.speed).toBe(512 * 1024);
    expect(appliance.views.map(({ state }) => state).slice(-2)).toEqual(['checking', 'done']);
  });

  it('throws the error of a refused announcement', async () => {
    const appliance = new Appliance();
    appliance.failures = [new ApplianceError(507, 'The disk has 2 GiB left.')];
    await expect(begin(appliance)).rejects.toThrow('The disk has 2 GiB left.');
  });

  it('waits with growing delays, then resumes', async () => {
    const appliance = new Appliance();
    appliance.onPart = (count) => {
      if (count === 2 && appliance.waits.length === 0) {
        appliance.failures = [away(), away(), away(), new ApplianceError(503, 'It starts.'), away(), away()];
      }
    };
    await begin(appliance);
    await settle();
    expect(appliance.waits).toEqual([...retryDelays, retryDelays.at(-1), retryDelays.at(-1)]);
    expect(appliance.views.find(({ state }) => state === 'waiting')?.message).toBe('The appliance does not respond.');
    expect(appliance.last?.state).toBe('done');
    expect(appliance.has('id-1', content(3 * mebibyte))).toBe(true);
  });

  it('waits for a login, then resumes with the same file', async () => {
    const appliance = new Appliance();
    let logIn = (): void => undefined;
    appliance.surroundings.untilSession = () =>
      new Promise((done) => {
        logIn = done;
      });
    appliance.onPart = (count) => {
      if (count === 2) {
        appliance.onPart = () => undefined;
        throw new ApplianceError(401, 'the session has ended; log in again');
      }
    };
    await begin(appliance);
    await settle();
    expect(appliance.last).toMatchObject({ state: 'waiting', message: 'Log in again to continue the upload.' });
    logIn();
    await settle();
    expect(appliance.last).toMatchObject({ state: 'done', message: '' });
    expect(appliance.has('id-1', content(3 * mebibyte))).toBe(true);
    expect(appliance.waits).toEqual([]);
  });

  it('requests the offset after a conflict', async () => {
    const appliance = new Appliance();
    appliance.onPart = (count) => {
      if (count === 2) {
        appliance.received.set('id-1', content(100));
        appliance.onPart = () => undefined;
      }
    };
    await begin(appliance);
    await settle();
    expect(appliance.has('id-1', content(3 * mebibyte))).toBe(true);
  });

  it('fails after repeated conflicts', async () => {
    const appliance = new Appliance();
    appliance.onPart = () => {
      appliance.failures = [new ApplianceError(409, 'Somebody else sends it too.')];
    };
    await begin(appliance);
    await settle();
    expect(appliance.last).toMatchObject({ state: 'failed', message: 'Somebody else sends it too.' });
    expect(appliance.waits).toHaveLength(retryDelays.length);
  });

  it('starts over if the appliance no longer has the upload', async () => {
    const appliance = new Appliance();
    appliance.onPart = (count) => {
      if (count === 2) {
        appliance.received.delete('id-1');
        appliance.onPart = () => undefined;
      }
    };
    await begin(appliance);
    await settle();
    expect(appliance.has('id-2', content(3 * mebibyte))).toBe(true);
  });

  it('is done if only the last response was lost', async () => {
    const appliance = new Appliance();
    appliance.onPart = (count) => {
      if (count === 4) {
        appliance.received.delete('id-1');
        appliance.whole.add('id-1');
        appliance.failures = [away()];
      }
    };
    await begin(appliance);
    await settle();
    expect(appliance.last).toMatchObject({ state: 'done', sent: 3 * mebibyte });
    expect(appliance.announced).toHaveLength(1);
  });

  it('fails if the file is refused, and can be retried', async () => {
    const appliance = new Appliance();
    appliance.onPart = () => {
      appliance.failures = [new ApplianceError(400, 'It is no live ISO.')];
      appliance.onPart = () => undefined;
    };
    const upload = await begin(appliance);
    await settle();
    expect(appliance.last).toMatchObject({ state: 'failed', message: 'It is no live ISO.' });
    upload.resume();
    await settle();
    expect(appliance.last?.state).toBe('done');
  });

  it('fails if the image exists already', async () => {
    const appliance = new Appliance();
    appliance.onPart = (count) => {
      if (count === 4) {
        appliance.received.delete('id-1');
        appliance.failures = [new ApplianceError(409, 'The image exists already.')];
      }
    };
    await begin(appliance);
    await settle();
    expect(appliance.last).toMatchObject({ state: 'failed', message: 'The image exists already.' });
    expect(appliance.announced).toHaveLength(1);
  });

  it('pauses and resumes', async () => {
    const appliance = new Appliance();
    const upload = Upload.of('key', file(3 * mebibyte), {}, appliance.surroundings);
    appliance.onPart = (count) => {
      if (count === 2) {
        upload.pause();
      }
    };
    await upload.start();
    await settle();
    expect(appliance.last).toMatchObject({ state: 'paused', sent: 256 * 1024 });
    appliance.onPart = () => undefined;
    upload.resume();
    upload.resume();
    await settle();
    expect(appliance.last?.state).toBe('done');
    expect(appliance.has('id-1', content(3 * mebibyte))).toBe(true);
  });

  it('cancels at the appliance', async () => {
    const appliance = new Appliance();
    const upload = await begin(appliance);
    await upload.cancel();
    await settle();
    expect(appliance.last?.state).toBe('cancelled');
    expect(appliance.received.size).toBe(0);
    expect(appliance.stored).toBeUndefined();
  });

  it('cancels without an upload at the appliance, not without a response', async () => {
    const appliance = new Appliance();
    const upload = await begin(appliance);
    upload.pause();
    appliance.failures = [away()];
    await upload.cancel();
    expect(appliance.last).toMatchObject({
      state: 'failed',
      message: 'The upload could not be cancelled: The appliance does not respond.',
    });
    appliance.received.clear();
    await upload.cancel();
    expect(appliance.last?.state).toBe('cancelled');
  });
});

describe('Upload after a reload', () => {
  const interrupted = async () => {
    const appliance = new Appliance();
    const upload = Upload.of('key', file(3 * mebibyte), {}, appliance.surroundings);
    appliance.onPart = (count) => {
      if (count === 3) {
        upload.leave();
      }
    };
    await upload.start();
    await settle();
    appliance.onPart = () => undefined;
    const stored = appliance.stored;
    if (!stored) {
      throw new Error('nothing is stored');
    }
    return { appliance, again: Upload.restore('again', stored, appliance.surroundings) };
  };

  it('shows the progress and resumes with the same file', async () => {
    const { appliance, again } = await interrupted();
    expect(again.view.state).toBe('unfinished');
    expect(again.view.sent).toBeGreaterThan(0);
    again.resume(file(3 * mebibyte));
    await settle();
    expect(appliance.last?.state).toBe('done');
    expect(appliance.announced).toHaveLength(1);
    expect(appliance.has('id-1', content(3 * mebibyte))).toBe(true);
  });

  it.each([
    ['another size', file(2 * mebibyte)],
    ['another time', file(3 * mebibyte, 2)],
    ['another name', new File([content(3 * mebibyte)], 'other.iso', { lastModified: 1 })],
  ])('rejects a file of %s', async (_, other) => {
    const { appliance, again } = await interrupted();
    again.resume(other);
    await settle();
    expect(appliance.last?.state).toBe('unfinished');
    expect(appliance.last?.message).toMatch(/is not the file/);
  });

  it('waits for its file', async () => {
    const { appliance, again } = await interrupted();
    const before = appliance.views.length;
    again.resume();
    await settle();
    expect(appliance.views).toHaveLength(before);
  });
});
