// @vitest-environment jsdom
import { createElement } from 'react';
import { MemoryRouter } from 'react-router-dom-v5-compat';
import { afterEach, expect, it, vi } from 'vitest';
import type { AmsStatus, Selection } from '../src/ams/api';
import { ClusterTable } from '../src/ams/ClusterTable';
import { press, show } from './screen';

vi.mock('../src/access/AccessProvider', () => ({ useMay: () => true, useAccess: () => ({ open: false }) }));

const status = { state: 'online', attention: 0, waiting: 0, sent: 3, left: 0, total: 0, clusters: [] };
const all: Selection = { state: '', name: '', offset: 0, limit: 50 };
const select = vi.fn();
let close: () => void;
afterEach(() => {
  close();
  select.mockReset();
});

const open = (selection: Selection) => {
  const table = createElement(ClusterTable, {
    status: status as unknown as AmsStatus,
    selection,
    select,
    act: () => Promise.resolve(true),
    changed: () => undefined,
  });
  close = show(createElement(MemoryRouter, null, table));
};

it.each<Partial<Selection>>([{ name: 'zzz' }, { state: 'attention' }])(
  'a search that finds no cluster can be cleared: %o',
  (part) => {
    open({ ...all, ...part });
    expect(document.body.textContent).toContain('No cluster matches the filters');
    press('Clear the filters');
    expect(select).toHaveBeenCalledWith(all);
  },
);

it('a site without clusters says so', () => {
  open(all);
  expect(document.body.textContent).toContain('This site has no clusters for OpenShift Cluster Manager.');
});
