// @vitest-environment jsdom
import { createElement } from 'react';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { MirrorModel } from '../src/mirror/api';
import { Releases } from '../src/mirror/Releases';
import { Rules } from '../src/mirror/Rules';
import { show, type } from './screen';

vi.mock('../src/access/AccessProvider', () => ({ useMay: () => true }));

const model = { rules: [], holes: [], catalogs: [], signatures: [], imports: [] } as unknown as MirrorModel;

let close: () => void;

beforeEach(() => {
  vi.stubGlobal('fetch', () => new Promise(() => undefined));
});
afterEach(() => {
  close();
  vi.unstubAllGlobals();
});

it.each([
  ['Image to explain', createElement(Rules, { model })],
  ['Digest or pull spec of a release', createElement(Releases, { act: () => Promise.resolve(true) })],
])('the input "%s" stays when another page was open', (label, part) => {
  const selector = `[aria-label="${label}"]`;
  close = show(part);
  type(selector, 'quay.io/team/app@sha256:12');
  close();
  close = show(part);
  expect(document.querySelector<HTMLInputElement>(selector)?.value).toBe('quay.io/team/app@sha256:12');
});
