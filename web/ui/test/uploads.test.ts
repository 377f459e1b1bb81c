import { describe, expect, it, vi } from 'vitest';
import { ApplianceError } from '../src/shell/request';
import type { Transport } from '../src/osimages/upload';
import { Uploads } from '../src/osimages/uploads';

const settle = () => new Promise((done) => setTimeout(done, 5));
const file = new File(['contents'], 'live.iso', { lastModified: 1 });

const surroundings = (transport: Partial<Transport> = {}, stored?: string) => {
  const storage = new Map(stored === undefined ? [] : [['landfall-uploads', stored]]);
  return {
    stored: () => storage.get('landfall-uploads'),
    transport: {
      announce: vi.fn(() => Promise.resolve({ id: 'id-1', offset_bytes: 0 })),
      offset: vi.fn(() => Promise.resolve(0)),
      isWhole: vi.fn(() => Promise.resolve(false)),
      append: vi.fn(() => Promise.resolve()),
      abandon: vi.fn(() => Promise.resolve()),
      ...transport,
    },
    storage: {
      getItem: (key: string) => storage.get(key) ?? null,
      setItem: (key: string, value: string) => {
        storage.set(key, value);
      },
    },
    now: () => 0,
    wait: () => new Promise<void>(() => undefined),
    untilSession: () => new Promise<void>(() => undefined),
  };
};

const unanswered = () => new Promise<never>(() => undefined);

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
    expect(around.stored()).toBe('[]');
  });

  it('resume after a reload with the same file', async () => {
    const before = surroundings({ append: unanswered });
    await new Uploads(before).add(file, { openshift_version: '4.20' });
    await settle();

    const after = surroundings({}, before.stored());
    const uploads = new Uploads(after);
    expect(uploads.views()).toMatchObject([{ name: 'live.iso', state: 'unfinished' }]);
    await uploads.add(file, {});
    await settle();
    expect(after.transport.announce).not.toHaveBeenCalled();
    expect(uploads.views()).toMatchObject([{ state: 'done' }]);
    expect(after.stored()).toBe('[]');
  });

  it('not listed after cancellation', async () => {
    const around = surroundings({ append: unanswered });
    const uploads = new Uploads(around);
    await uploads.add(file, {});
    await uploads.of(uploads.views()[0]?.key ?? '')?.cancel();
    expect(around.transport.abandon).toHaveBeenCalledWith('id-1');
    expect(uploads.views()).toEqual([]);
    expect(around.stored()).toBe('[]');
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

  it.each(['no JSON', '{}', '[null,{"id":7}]'])('empty if the storage contains %s', (stored) => {
    expect(new Uploads(surroundings({}, stored)).views()).toEqual([]);
  });
});
