// @vitest-environment jsdom
import { createElement, type FunctionComponent } from 'react';
import { MemoryRouter } from 'react-router-dom-v5-compat';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import ClustersPage from '../src/clusters/ClustersPage';
import NewClusterPage from '../src/clusters/NewClusterPage';
import { show } from './screen';

const rights = vi.hoisted(() => ({ mayOperate: true, isLimited: true }));

vi.mock('../src/access/AccessProvider', () => ({
  useMay: () => rights.mayOperate,
  useIsLimited: () => rights.isLimited,
  Requires: ({ children }: { children: unknown }) => (rights.mayOperate ? children : null),
}));
vi.mock('../src/live/LiveProvider', () => ({ useFeedState: () => 'live', useLive: () => undefined }));
vi.mock('../src/live/useRows', () => ({ useRows: () => ({ rows: [], refetch: () => undefined }) }));

let requests: string[];
let close: () => void;

beforeEach(() => {
  requests = [];
  vi.stubGlobal('fetch', (path: string) => {
    requests.push(path);
    return new Promise(() => undefined);
  });
});
afterEach(() => {
  close();
  vi.unstubAllGlobals();
});

const open = (page: FunctionComponent) => {
  close = show(createElement(MemoryRouter, null, createElement(page)));
};
const text = () => document.body.textContent;

it.each([
  [true, false, true],
  [true, true, false],
  [false, false, false],
])('the list offers a new cluster: operator %s, limited %s', (mayOperate, isLimited, offers) => {
  Object.assign(rights, { mayOperate, isLimited });
  open(ClustersPage);
  expect(text().includes('Create cluster')).toBe(offers);
});

it.each([
  [true, true, 'Your account may use only some clusters'],
  [false, false, 'Viewers cannot create clusters'],
])('the page of a new cluster says why nobody can use it: operator %s, limited %s', (mayOperate, isLimited, why) => {
  Object.assign(rights, { mayOperate, isLimited });
  open(NewClusterPage);
  expect(text()).toContain(why);
  expect(requests).toEqual([]);
});
