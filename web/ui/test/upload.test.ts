import { describe, expect, it } from 'vitest';
import { ApplianceError } from '../src/shell/request';
import { Upload, retryDelays, type Remembered, type Surroundings, type UploadView } from '../src/osimages/upload';

const mebibyte = 1024 ** 2;

/** An appliance that keeps what it is sent, and fails as it is told to. */
class Appliance {
  now = 0;
  received = new Map<string, Uint8Array>();
  whole = new Set<string>();
  announced: unknown[] = [];
  parts: number[] = [];
  waits: number[] = [];
  views: UploadView[] = [];
  remembered: Remembered | undefined;
  /** Thrown by the next calls, one each. */
  failures: Error[] = [];
  /** Milliseconds that a part takes. */
  slowness = 500;
  /** Called before a part is kept. */
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
    changed: (view, remembered) => {
      this.views.push(view);
      this.remembered = remembered;
    },
  };

  /** Whether that is what it was sent. (Comparing element by element takes seconds.) */
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
/** So many bytes of a pattern. (Making them one by one takes seconds, too.) */
const content = (size: number) => new Uint8Array(Buffer.alloc(size, pattern));
const file = (size: number, lastModified = 1) => new File([content(size)], 'live.iso', { lastModified });
const away = () => new ApplianceError(0, 'The appliance does not answer.');

/** Lets everything happen that waits for nothing but promises. */
const settle = () => new Promise((done) => setTimeout(done, 20));

const begin = async (appliance: Appliance, size = 3 * mebibyte) => {
  const upload = Upload.of('key', file(size), { sha256: 'ab' }, appliance.surroundings);
  await upload.start();
  return upload;
};

describe('an upload', () => {
  it('sends the whole file, byte for byte', async () => {
    const appliance = new Appliance();
    await begin(appliance);
    await settle();
    expect(appliance.last).toMatchObject({ state: 'done', sent: 3 * mebibyte });
    expect(appliance.has('id-1', content(3 * mebibyte))).toBe(true);
    expect(appliance.announced).toEqual([{ name: 'live.iso', size_bytes: 3 * mebibyte, sha256: 'ab' }]);
    expect(appliance.remembered).toBeUndefined();
  });

  it('begins with a small part and makes them as large as the link carries in a second', async () => {
    const appliance = new Appliance();
    await begin(appliance);
    await settle();
    expect(appliance.parts[0]).toBe(256 * 1024);
    expect(appliance.parts[1]).toBe(512 * 1024);
  });

  it('says how fast it is and when the appliance looks at the whole', async () => {
    const appliance = new Appliance();
    await begin(appliance, mebibyte);
    await settle();
    expect(appliance.views.find(({ speed }) => speed > 0)?.speed).toBe(512 * 1024);
    expect(appliance.views.map(({ state }) => state).slice(-2)).toEqual(['checking', 'done']);
  });

  it('throws what it was refused with before the first byte', async () => {
    const appliance = new Appliance();
    appliance.failures = [new ApplianceError(507, 'The disk has 2 GiB left.')];
    await expect(begin(appliance)).rejects.toThrow('The disk has 2 GiB left.');
  });

  it('waits for an appliance that is away, ever longer, and goes on where that stopped', async () => {
    const appliance = new Appliance();
    appliance.onPart = (count) => {
      if (count === 2 && appliance.waits.length === 0) {
        appliance.failures = [away(), away(), away(), new ApplianceError(503, 'It starts.'), away(), away()];
      }
    };
    await begin(appliance);
    await settle();
    expect(appliance.waits).toEqual([...retryDelays, retryDelays.at(-1), retryDelays.at(-1)]);
    expect(appliance.views.find(({ state }) => state === 'waiting')?.message).toBe('The appliance does not answer.');
    expect(appliance.last?.state).toBe('done');
    expect(appliance.has('id-1', content(3 * mebibyte))).toBe(true);
  });

  it('asks how much arrived when the appliance has another number', async () => {
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

  it('does not quarrel about the number for ever', async () => {
    const appliance = new Appliance();
    appliance.onPart = () => {
      appliance.failures = [new ApplianceError(409, 'Somebody else sends it too.')];
    };
    await begin(appliance);
    await settle();
    expect(appliance.last).toMatchObject({ state: 'failed', message: 'Somebody else sends it too.' });
    expect(appliance.waits).toHaveLength(retryDelays.length);
  });

  it('begins anew when the appliance has forgotten it', async () => {
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

  it('is done when only the last answer was lost', async () => {
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

  it('ends with what the appliance has against the file, and can be tried again', async () => {
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

  it('is not sent again when the appliance has that image already', async () => {
    const appliance = new Appliance();
    appliance.onPart = (count) => {
      if (count === 4) {
        appliance.received.delete('id-1');
        appliance.failures = [new ApplianceError(409, 'It is there already.')];
      }
    };
    await begin(appliance);
    await settle();
    expect(appliance.last).toMatchObject({ state: 'failed', message: 'It is there already.' });
    expect(appliance.announced).toHaveLength(1);
  });

  it('rests while it is paused and goes on after that', async () => {
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

  it('is given up at the appliance too', async () => {
    const appliance = new Appliance();
    const upload = await begin(appliance);
    await upload.cancel();
    await settle();
    expect(appliance.last?.state).toBe('cancelled');
    expect(appliance.received.size).toBe(0);
    expect(appliance.remembered).toBeUndefined();
  });

  it('is given up also when the appliance has forgotten it, and not when that does not answer', async () => {
    const appliance = new Appliance();
    const upload = await begin(appliance);
    upload.pause();
    appliance.failures = [away()];
    await upload.cancel();
    expect(appliance.last).toMatchObject({ state: 'failed', message: 'It could not be cancelled: The appliance does not answer.' });
    appliance.received.clear();
    await upload.cancel();
    expect(appliance.last?.state).toBe('cancelled');
  });
});

describe('an upload that was begun before the page was loaded', () => {
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
    const remembered = appliance.remembered;
    if (!remembered) {
      throw new Error('nothing is remembered');
    }
    return { appliance, again: Upload.recall('again', remembered, appliance.surroundings) };
  };

  it('shows how much there is and goes on with the same file', async () => {
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
  ])('refuses a file of %s', async (_, other) => {
    const { appliance, again } = await interrupted();
    again.resume(other);
    await settle();
    expect(appliance.last?.state).toBe('unfinished');
    expect(appliance.last?.message).toMatch(/another file/);
  });

  it('waits for its file', async () => {
    const { appliance, again } = await interrupted();
    const before = appliance.views.length;
    again.resume();
    await settle();
    expect(appliance.views).toHaveLength(before);
  });
});
