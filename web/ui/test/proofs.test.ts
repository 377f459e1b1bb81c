// Which proof the mirror's page shows.

import { afterEach, describe, expect, it, vi } from 'vitest';
import { shownProof } from '../src/mirror/api';

const kept = [
  { id: 'install', cluster_id: 'other' },
  { id: 'asked', cluster_id: 'mine' },
  { id: 'release' },
];

const answer = (value: unknown) => Promise.resolve(new Response(JSON.stringify(value)));

describe('the proof that is shown', () => {
  afterEach(() => {
    vi.unstubAllGlobals();
  });

  it.each([
    ['the one that was asked for, though an installation began another', { asked: 'asked', cluster: undefined }, 'asked'],
    ['the newest, if none was asked for', { asked: undefined, cluster: undefined }, 'install'],
    ['the newest of its cluster', { asked: undefined, cluster: 'mine' }, 'asked'],
    ['the newest of its cluster, if the one that was asked for is not kept any more', { asked: 'gone', cluster: 'other' }, 'install'],
    ['none, if its cluster has none', { asked: undefined, cluster: 'new' }, undefined],
  ])('is %s', async (_name, wanted, shown) => {
    vi.stubGlobal('fetch', (url: string) =>
      url.endsWith('/proofs') ? answer({ proofs: kept }) : answer({ id: url.slice(url.lastIndexOf('/') + 1) }),
    );
    expect((await shownProof(wanted)).proof?.id).toBe(shown);
  });
});
