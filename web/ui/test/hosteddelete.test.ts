// @vitest-environment jsdom
import { createElement } from 'react';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Cluster } from '../src/hosted/api';
import { ClusterTable } from '../src/hosted/ClusterTable';
import { button, press, show, type } from './screen';

vi.mock('../src/access/AccessProvider', () => ({ useMay: () => true }));

const cluster = {
  resource_id: '/subscriptions/s/clusters/edge',
  cid: 'c',
  name: 'edge',
  group: 'site',
  state: 'Succeeded',
  wanted_version: '4.20',
  created_at: '2026-01-01T00:00:00Z',
  node_pools: [],
} satisfies Cluster;

let requests: string[];
let answer: () => Response;
const refetch = vi.fn();
let close: () => void;

beforeEach(async () => {
  requests = [];
  answer = () => new Response(null, { status: 202 });
  vi.stubGlobal('fetch', (path: string, { method }: RequestInit) => {
    requests.push(`${String(method)} ${path}`);
    return Promise.resolve(answer());
  });
  const act = () => Promise.resolve(true);
  close = show(createElement(ClusterTable, { clusters: [cluster], act, refetch }));
  press('Kebab toggle');
  await vi.waitFor(() => {
    press('Delete');
  });
});
afterEach(() => {
  close();
  refetch.mockReset();
  vi.unstubAllGlobals();
});

it('a hosted cluster is deleted after its name was typed', async () => {
  expect(button('Delete cluster').disabled).toBe(true);
  type('#hosted-delete-name', 'edge2');
  expect(button('Delete cluster').disabled).toBe(true);
  type('#hosted-delete-name', 'edge');
  press('Delete cluster');
  await vi.waitFor(() => {
    expect(document.querySelector('[role=dialog]')).toBeNull();
  });
  expect(requests).toEqual([`DELETE ${cluster.resource_id}?api-version=2024-06-10-preview`]);
  expect(refetch).toHaveBeenCalledOnce();
});

it('a refused deletion of a hosted cluster stays in its dialog', async () => {
  answer = () => Response.json({ error: { code: 'Conflict', message: 'It is being created.' } }, { status: 409 });
  type('#hosted-delete-name', 'edge');
  press('Delete cluster');
  await vi.waitFor(() => {
    expect(document.querySelector('[role=dialog]')?.textContent).toContain('It is being created.');
  });
});
