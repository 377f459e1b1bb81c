import { afterEach, expect, it, vi } from 'vitest';
import { readReadiness } from '../src/clusters/api';

afterEach(() => {
  vi.unstubAllGlobals();
});

it('the hosts of a cluster are in the order of their names', async () => {
  vi.stubGlobal('fetch', (path: string) =>
    Promise.resolve(
      Response.json(path.includes('/hosts?') ? { hosts: [{ name: 'host-10' }, { name: 'host-9' }] } : []),
    ),
  );
  const { hosts } = await readReadiness('c');
  expect(hosts.map(({ name }) => name)).toEqual(['host-9', 'host-10']);
});
