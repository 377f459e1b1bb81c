import { describe, expect, it, vi } from 'vitest';
import { ApplianceError } from '../src/shell/request';
import type { Transport } from '../src/osimages/upload';
import { Uploads, type TabMessage } from '../src/osimages/uploads';

const settle = () => new Promise((done) => setTimeout(done, 5));
const file = new File(['contents'], 'live.iso', { lastModified: 1 });

const storageWith = (stored: Record<string, string> = {}) => {
  const texts = new Map(Object.entries(stored));
  return {
    get length() {
      return texts.size;
    },
    key: (place: number) => [...texts.keys()][place] ?? null,
    getItem: (key: string) => texts.get(key) ?? null,
    setItem: (key: string, value: string) => {
      texts.set(key, value);
    },
    removeItem: (key: string) => {
      texts.delete(key);
    },
  };
};

/** The start of each upload is a second after that of the upload before. */
const date = () => (seconds += 1_000);
let seconds = 0;

const surroundings = (transport: Partial<Transport> = {}, storage = storageWith()) => {
  return {
    transport: {
      announce: vi.fn(() => Promise.resolve({ id: 'id-1', offset_bytes: 0 })),
      offset: vi.fn(() => Promise.resolve(0)),
      isWhole: vi.fn(() => Promise.resolve(false)),
      append: vi.fn(() => Promise.resolve()),
      abandon: vi.fn(() => Promise.resolve()),
      ...transport,
    },
    storage,
    now: () => 0,
    date,
    tell: () => undefined,
    wait: () => new Promise<void>(() => undefined),
    untilSession: () => new Promise<void>(() => undefined),
  };
};

const announced = (id: string) => Promise.resolve({ id, offset_bytes: 0 });
const unanswered = () => new Promise<never>(() => undefined);

/** The names of the uploads that the page shows after a reload. */
const namesAfterReload = (storage: ReturnType<typeof storageWith>) =>
  new Uploads(surroundings({}, storage)).views().map(({ name }) => name);

describe('Uploads', () => {
  it('shown until dismissed', async () => {
    const uploads = new Uploads(surroundings());
    const onChange = vi.fn();
    uploads.watch(onChange);
    await uploads.add(file, {});
    await settle();
    expect(uploads.views()).toMatchObject([{ name: 'live.iso', state: 'done' }]);
    expect(onChange).toHaveBeenCalled();
    uploads.remove(uploads.views()[0]?.key ?? '');
    expect(uploads.views()).toEqual([]);
  });

  it('not listed if refused', async () => {
    const around = surroundings({ announce: () => Promise.reject(new ApplianceError(507, 'The disk is full.')) });
    const uploads = new Uploads(around);
    await expect(uploads.add(file, {})).rejects.toThrow('The disk is full.');
    expect(uploads.views()).toEqual([]);
    expect(around.storage).toHaveLength(0);
  });

  it('resume after a reload with the same file', async () => {
    const before = surroundings({ append: unanswered });
    await new Uploads(before).add(file, { openshift_version: '4.20' });
    await settle();

    const after = surroundings({}, before.storage);
    const uploads = new Uploads(after);
    expect(uploads.views()).toMatchObject([{ name: 'live.iso', state: 'unfinished' }]);
    await uploads.add(file, {});
    await settle();
    expect(after.transport.announce).not.toHaveBeenCalled();
    expect(uploads.views()).toMatchObject([{ state: 'done' }]);
    expect(after.storage).toHaveLength(0);
  });

  it('start over with the same file but another version', async () => {
    const before = surroundings({ append: unanswered });
    await new Uploads(before).add(file, { openshift_version: '4.19' });
    await settle();

    const after = surroundings({ announce: vi.fn(() => announced('id-2')) }, before.storage);
    const uploads = new Uploads(after);
    await uploads.add(file, { openshift_version: '4.20' });
    await settle();
    expect(after.transport.abandon).toHaveBeenCalledWith('id-1');
    expect(after.transport.announce).toHaveBeenCalledWith({
      name: 'live.iso',
      size_bytes: file.size,
      openshift_version: '4.20',
    });
    expect(uploads.views()).toMatchObject([{ state: 'done' }]);
  });

  it('run at the same time for two versions of one file', async () => {
    let started = 0;
    const announce = vi.fn(() => announced(`id-${String((started += 1))}`));
    const around = surroundings({ announce, append: unanswered });
    const uploads = new Uploads(around);
    await uploads.add(file, { openshift_version: '4.20' });
    await settle();
    await uploads.add(file, { openshift_version: '4.21' });
    await settle();
    expect(around.transport.abandon).not.toHaveBeenCalled();
    expect(uploads.views()).toMatchObject([{ state: 'checking' }, { state: 'checking' }]);
    await uploads.add(file, { openshift_version: '4.20' });
    expect(uploads.views()).toHaveLength(2);
  });

  it('keep an earlier upload that can not be cancelled', async () => {
    const before = surroundings({ append: unanswered });
    await new Uploads(before).add(file, { openshift_version: '4.19' });
    await settle();

    const refusal = () => Promise.reject(new ApplianceError(503, 'The appliance restarts.'));
    const after = surroundings({ abandon: refusal }, before.storage);
    const uploads = new Uploads(after);
    await expect(uploads.add(file, { openshift_version: '4.20' })).rejects.toThrow('The appliance restarts.');
    expect(after.transport.announce).not.toHaveBeenCalled();
    expect(uploads.views()).toHaveLength(1);
  });

  it('not listed after cancellation', async () => {
    const around = surroundings({ append: unanswered });
    const uploads = new Uploads(around);
    await uploads.add(file, {});
    await uploads.of(uploads.views()[0]?.key ?? '')?.cancel();
    expect(around.transport.abandon).toHaveBeenCalledWith('id-1');
    expect(uploads.views()).toEqual([]);
    expect(around.storage).toHaveLength(0);
  });

  it('same file twice', async () => {
    const around = surroundings();
    const uploads = new Uploads(around);
    await uploads.add(file, {});
    await settle();
    await uploads.add(file, {});
    await settle();
    expect(around.transport.announce).toHaveBeenCalledTimes(2);
  });

  it('of one browser tab stay stored when another tab stores its own', async () => {
    const storage = storageWith();
    const another = new File(['contents'], 'another.iso', { lastModified: 1 });
    const second = surroundings({ append: unanswered, announce: () => announced('id-2') }, storage);
    const secondTab = new Uploads(second);
    await new Uploads(surroundings({ append: unanswered }, storage)).add(file, {});
    await secondTab.add(another, {});
    await settle();
    expect(namesAfterReload(storage)).toEqual(['live.iso', 'another.iso']);
    await secondTab.of(secondTab.views()[0]?.key ?? '')?.cancel();
    expect(namesAfterReload(storage)).toEqual(['live.iso']);
  });

  it('in the order of their start after a reload', async () => {
    const ids = ['id-2', 'id-3', 'id-1'];
    const around = surroundings({ append: unanswered, announce: () => announced(ids.shift() ?? '') });
    const uploads = new Uploads(around);
    for (const name of ['first.iso', 'second.iso', 'third.iso']) {
      await uploads.add(new File(['contents'], name), {});
    }
    expect(namesAfterReload(around.storage)).toEqual(['first.iso', 'second.iso', 'third.iso']);
  });

  it('of a former release get keys of their own', async () => {
    const former = ['id-2', 'id-1'].map((id) => ({
      id,
      announcement: { name: `${id}.iso`, size_bytes: 8 },
      modified: 1,
      sent: 4,
    }));
    const storage = storageWith({ 'landfall-uploads': JSON.stringify([...former, { id: 7 }]) });
    const around = surroundings({}, storage);
    const uploads = new Uploads(around);
    expect(uploads.views()).toMatchObject([
      { name: 'id-2.iso', sent: 4 },
      { name: 'id-1.iso', sent: 4 },
    ]);
    expect(storage.getItem('landfall-uploads')).toBeNull();
    await uploads.of(uploads.views()[0]?.key ?? '')?.cancel();
    expect(around.transport.abandon).toHaveBeenCalledWith('id-2');
    expect(namesAfterReload(storage)).toEqual(['id-1.iso']);
  });

  it('of another browser tab disappear when they end there', async () => {
    const storage = storageWith();
    const first = new Uploads(surroundings({ append: unanswered }, storage));
    await first.add(file, {});
    const second = new Uploads(surroundings({}, storage));
    first.endedElsewhere('landfall-upload/id-1');
    second.endedElsewhere('landfall-upload/id-2');
    expect(first.views()).toMatchObject([{ state: 'checking' }]);
    expect(second.views()).toMatchObject([{ state: 'unfinished' }]);
    second.endedElsewhere('landfall-upload/id-1');
    expect(second.views()).toEqual([]);
  });

  describe('that run in another browser tab', () => {
    /** Two tabs with one storage. The first one uploads a file. */
    const twoTabs = async () => {
      const storage = storageWith();
      const tabs: Uploads[] = [];
      const open = (transport: Partial<Transport>) => {
        const around = {
          ...surroundings(transport, storage),
          tell: (message: TabMessage) => {
            tabs.filter((other) => other !== tab).forEach((other) => {
              other.hear(message);
            });
          },
        };
        const tab = new Uploads(around);
        tabs.push(tab);
        tab.ask();
        return { tab, around };
      };
      let proceed: () => void = () => undefined;
      const append = () =>
        new Promise<void>((done) => {
          proceed = done;
        });
      const first = open({ append });
      await first.tab.add(new File([new Uint8Array(300 * 1024)], 'live.iso', { lastModified: 1 }), {});
      const second = open({});
      return {
        storage,
        first: first.tab,
        second: second.tab,
        around: second.around,
        proceed: () => {
          proceed();
        },
      };
    };

    it('are shown as such, with their progress', async () => {
      const { second, proceed, storage } = await twoTabs();
      expect(second.views()).toMatchObject([{ state: 'elsewhere', sent: 0 }]);
      proceed();
      await settle();
      expect(second.views()).toMatchObject([{ state: 'elsewhere', sent: 256 * 1024 }]);
      proceed();
      await settle();
      expect(storage).toHaveLength(0);
      second.endedElsewhere('landfall-upload/id-1');
      expect(second.views()).toEqual([]);
      expect(storage).toHaveLength(0);
    });

    it('do not start a second time', async () => {
      const { second, around } = await twoTabs();
      const same = new File([new Uint8Array(300 * 1024)], 'live.iso', { lastModified: 1 });
      await expect(second.add(same, {})).rejects.toThrow('Another tab or window of this browser uploads live.iso.');
      expect(around.transport.offset).not.toHaveBeenCalled();
    });

    it('can be resumed after that tab is closed', async () => {
      const { first, second } = await twoTabs();
      first.tellLeaving();
      expect(second.views()).toMatchObject([{ state: 'unfinished' }]);
    });

    it('can be resumed after that tab has crashed', async () => {
      const { first, second } = await twoTabs();
      first.hear = () => undefined;
      for (let question = 0; question < 3; question += 1) {
        second.ask();
        expect(second.views()).toMatchObject([{ state: 'elsewhere' }]);
      }
      second.ask();
      expect(second.views()).toMatchObject([{ state: 'unfinished' }]);
    });
  });

  it('stored under the new id after the appliance has forgotten the former one', async () => {
    const around = surroundings({
      append: vi.fn(unanswered).mockRejectedValueOnce(new ApplianceError(404, 'There is no such upload.')),
      announce: vi.fn(() => announced('id-2')).mockReturnValueOnce(announced('id-1')),
    });
    const twoParts = new File([new Uint8Array(300 * 1024)], 'live.iso', { lastModified: 1 });
    await new Uploads({ ...around, wait: () => Promise.resolve() }).add(twoParts, {});
    await settle();
    expect(around.storage).toHaveLength(1);
    expect(around.storage.getItem('landfall-upload/id-2')).toContain('live.iso');
  });

  it.each(['no JSON', '{}', 'null', '{"id":7}'])('empty if the storage contains %s', (stored) => {
    const storage = storageWith({ 'landfall-upload/id-1': stored });
    expect(new Uploads(surroundings({}, storage)).views()).toEqual([]);
  });
});
