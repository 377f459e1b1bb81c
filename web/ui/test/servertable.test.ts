// @vitest-environment jsdom
import { createElement, Fragment, useState } from 'react';
import { MemoryRouter } from 'react-router-dom-v5-compat';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Server } from '../src/bmc/api';
import { ServerTable } from '../src/bmc/ServerTable';
import { press, show, type } from './screen';

vi.mock('../src/access/AccessProvider', () => ({ useMay: () => true }));

const failing = (count: number): Server[] =>
  Array.from({ length: count }, (_, i) => ({
    id: String(i),
    name: `server-${String(i)}`,
    address: '192.0.2.7',
    state: 'available',
    power: 'on',
    error: { kind: 'unreachable', message: 'The BMC does not answer.', at: '2026-01-01T00:00:00Z' },
  })) as unknown as Server[];

let close: () => void;

const Page = () => {
  const [servers, setServers] = useState(failing(51));
  const recover = () => {
    setServers(failing(2));
  };
  return createElement(
    Fragment,
    null,
    createElement('button', { onClick: recover }, 'Recover'),
    createElement(ServerTable, { servers, infraEnvs: [], act: () => Promise.resolve(true) }),
  );
};

beforeEach(() => {
  close = show(createElement(MemoryRouter, null, createElement(Page)));
});
afterEach(() => {
  close();
});

const rows = () => document.querySelectorAll('[data-testid=bmc-server]').length;
const find = (text: string) => {
  type('input[aria-label="Part of the name or address"]', text);
};

it('the last page of servers is shown when there are fewer pages', () => {
  press('Go to next page');
  expect(rows()).toBe(1);
  press('Recover');
  expect(rows()).toBe(2);
});

it('servers are found in either case', () => {
  find('SERVER-50');
  expect(rows()).toBe(1);
});

it('a search that finds no server says so and can be cleared', () => {
  find('zzz');
  expect(rows()).toBe(0);
  expect(document.body.textContent).toContain('No server matches the filters.');
  press('Clear the filters');
  expect(rows()).toBe(50);
});
