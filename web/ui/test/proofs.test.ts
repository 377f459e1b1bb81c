// The selection of the proof on the mirror's page.

import { afterEach, describe, expect, it, vi } from 'vitest';
import { shownProof } from '../src/mirror/api';

const proofs = [
  { id: 'install', cluster_id: 'other' },
  { id: 'started', cluster_id: 'mine' },
  { id: 'release' },
];

const answer = (value: unknown) => Promise.resolve(new Response(JSON.stringify(value)));

describe('shownProof', () => {
  afterEach(() => {
    vi.unstubAllGlobals();
  });

  it.each([
    ['the requested proof despite a newer one', { started: 'started', cluster: undefined }, 'started'],
    ['the newest without a request', { started: undefined, cluster: undefined }, 'install'],
    ['the newest of its cluster', { started: undefined, cluster: 'mine' }, 'started'],
    ['the newest of its cluster if the requested one is gone', { started: 'gone', cluster: 'other' }, 'install'],
    ['none if its cluster has none', { started: undefined, cluster: 'new' }, undefined],
  ])('%s', async (_name, wanted, shown) => {
    vi.stubGlobal('fetch', (url: string) =>
      url.endsWith('/proofs') ? answer({ proofs }) : answer({ id: url.slice(url.lastIndexOf('/') + 1) }),
    );
    expect((await shownProof(wanted)).proof?.id).toBe(shown);
  });
});
