// @vitest-environment jsdom
import { createElement } from 'react';
import { MemoryRouter } from 'react-router-dom-v5-compat';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Progress } from '../src/clusters/api';
import { InstallationPage } from '../src/clusters/InstallationPage';
import { press, show } from './screen';

vi.mock('../src/access/AccessProvider', () => ({
  useMay: () => true,
  Requires: ({ children }: { children: unknown }) => children,
}));

const progress = {
  cluster_id: 'c',
  name: 'harbor',
  status: 'installed',
  status_info: '',
  openshift_version: '4.20.1',
  phases: [],
  hosts: [],
  finalizing_stages: [],
  operators: [],
} as unknown as Progress;

let posts: string[];
let close: () => void;

beforeEach(() => {
  posts = [];
  vi.stubGlobal('fetch', (path: string, { method }: RequestInit) => {
    if (method === 'POST') {
      posts.push(path);
    }
    return new Promise(() => undefined);
  });
  const page = createElement(InstallationPage, { progress, refetch: () => undefined });
  close = show(createElement(MemoryRouter, null, page));
});
afterEach(() => {
  close();
  vi.unstubAllGlobals();
});

it('the page asks before an installed cluster takes more hosts for ever', () => {
  press('Add hosts');
  expect(posts).toEqual([]);
  const dialog = document.querySelector('[role=dialog]');
  expect(dialog?.textContent).toContain('Add hosts to harbor?');
  const confirm = [...(dialog?.querySelectorAll('button') ?? [])].find((one) => one.textContent === 'Add hosts');
  confirm?.click();
  expect(posts).toEqual(['/api/assisted-install/v2/clusters/c/actions/allow-add-hosts']);
});
