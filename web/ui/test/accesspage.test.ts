// @vitest-environment jsdom
import { createElement } from 'react';
import { MemoryRouter } from 'react-router-dom-v5-compat';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import AccessPage from '../src/access/AccessPage';
import type { Role } from '../src/access/api';
import { show } from './screen';

let role: Role;
let close: () => void;

vi.mock('../src/access/AccessProvider', () => ({
  useAccess: () => ({ caller: { name: 'anna', role }, open: false }),
  useMay: (least: Role) => least === 'viewer' || role === 'admin' || role === least,
  useIsLimited: () => false,
}));

beforeEach(() => {
  vi.stubGlobal('fetch', () => Promise.resolve(Response.json([])));
});
afterEach(() => {
  close();
  vi.unstubAllGlobals();
});

it.each<[Role, string, string]>([
  ['admin', '', 'People'],
  ['admin', '?tab=programs', 'Programs'],
  ['admin', '?tab=unknown', 'People'],
  ['operator', '?tab=hosts', 'Hosts'],
  ['operator', '?tab=people', 'My account'],
  ['viewer', '?tab=hosts', 'My account'],
  ['viewer', '', 'My account'],
])('the account page of a person with the role %s at %j shows the tab %s', async (of, query, tab) => {
  role = of;
  const page = createElement(AccessPage);
  close = show(createElement(MemoryRouter, { initialEntries: [`/access${query}`] }, page));
  await vi.waitFor(() => {
    expect(document.querySelector('[role=tab][aria-selected=true]')?.textContent).toBe(tab);
  });
  expect(document.querySelector('[role=tabpanel]:not([hidden])')).not.toBeNull();
});
