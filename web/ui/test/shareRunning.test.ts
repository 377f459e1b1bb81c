import { expect, it, vi } from 'vitest';
import { shareRunning } from '../src/uilib/shareRunning';

it('calls with the same arguments share a request while it runs', async () => {
  const ends: (() => void)[] = [];
  const load = vi.fn(
    (name: string) =>
      new Promise<string>((resolve) => {
        ends.push(() => {
          resolve(`${name} ${String(ends.length)}`);
        });
      }),
  );
  const shared = shareRunning(load);
  const [first, second, other] = [shared('a'), shared('a'), shared('b')];
  expect(load).toHaveBeenCalledTimes(2);
  ends.forEach((end) => {
    end();
  });
  expect(await Promise.all([first, second, other])).toEqual(['a 2', 'a 2', 'b 2']);
  void shared('a');
  expect(load).toHaveBeenCalledTimes(3);
});

it('the call after a failure sends a request again', async () => {
  const load = vi.fn(() => Promise.reject(new Error('no answer')));
  const shared = shareRunning(load);
  await expect(shared()).rejects.toThrow('no answer');
  await expect(shared()).rejects.toThrow('no answer');
  expect(load).toHaveBeenCalledTimes(2);
});
