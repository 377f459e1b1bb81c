// @vitest-environment jsdom
import { createElement } from 'react';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Registry } from '../src/registry/api';
import { MediaCard } from '../src/registry/MediaCard';
import { press, show } from './screen';

vi.mock('../src/access/AccessProvider', () => ({
  useMay: () => true,
  Requires: ({ children }: { children: unknown }) => children,
}));

const registry = {
  media: [],
  unusable: [{ path: '/media/wrong', problem: 'has no media; plug one in', state: 'empty' }],
  added: ['/media/wrong'],
  notes: [],
} as unknown as Registry;

let close: () => void;
const sent = vi.fn<(path: string, body: unknown) => void>();

beforeEach(() => {
  vi.stubGlobal('fetch', (path: string, { body }: RequestInit) => {
    sent(path, JSON.parse(body as string));
    return Promise.resolve(Response.json({}));
  });
  const act = (work: () => Promise<unknown>) => work().then(() => true);
  const card = { registry, act, onAdd: () => undefined, onCopy: () => undefined };
  close = show(createElement(MediaCard, card));
});
afterEach(() => {
  close();
  sent.mockReset();
  vi.unstubAllGlobals();
});

it('a path that was added can be removed, after a question', () => {
  press('Remove the path /media/wrong');
  expect(sent).not.toHaveBeenCalled();
  press('Remove the path');
  expect(sent).toHaveBeenCalledWith('/api/landfall/v1/registry/media/remove', { medium: '/media/wrong' });
});
