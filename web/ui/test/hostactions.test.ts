// @vitest-environment jsdom
import { createElement, Fragment, useState } from 'react';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { HostRow } from '../src/hosts/api';
import { HostActions } from '../src/hosts/HostActions';
import { button, choose, press, show, type } from './screen';

const host = (name: string, alter: Partial<HostRow> = {}): HostRow => ({
  id: name,
  infra_env_id: 'e',
  infra_env_name: 'east',
  name,
  role: 'worker',
  status: 'known-unbound',
  status_info: '',
  last_contact: '2026-01-01T00:00:00Z',
  registered_at: '2026-01-01T00:00:00Z',
  ...alter,
});

const clusters = [
  { id: '1', name: 'done', status: 'installed' },
  { id: '2', name: 'open', status: 'insufficient' },
  { id: '3', name: 'more', status: 'adding-hosts' },
];

/** Why the appliance refuses a change; '' if it accepts it. */
let refusal: string;
const answer = () => (refusal === '' ? Response.json({}) : Response.json({ reason: refusal }, { status: 409 }));
let close: () => void;

beforeEach(() => {
  refusal = '';
  vi.stubGlobal('fetch', (_path: string, { method }: RequestInit) =>
    Promise.resolve(method === 'GET' ? Response.json(clusters) : answer()),
  );
});
afterEach(() => {
  close();
  vi.unstubAllGlobals();
});

const Page = ({ first }: { first: HostRow }) => {
  const [selected, setSelected] = useState([first]);
  const next = () => {
    setSelected([host('node-2')]);
  };
  return createElement(
    Fragment,
    null,
    createElement('button', { onClick: next }, 'Select another host'),
    createElement(HostActions, { hosts: selected, label: 'Actions', onDone: () => undefined }),
  );
};
const open = (first: HostRow) => {
  close = show(createElement(Page, { first }));
};
const dialog = () => document.querySelector('[role=dialog]');
const confirm = (name: string) => {
  [...(dialog()?.querySelectorAll('button') ?? [])].find(({ textContent }) => textContent === name)?.click();
};

it.each([
  ['installed', { cluster_id: 'c' }, ['Unbind']],
  ['installed', { cluster_id: 'c', infra_env_cluster_id: 'c' }, []],
  ['installing-in-progress', { cluster_id: 'c' }, []],
  ['known', { cluster_id: 'c' }, ['Set role', 'Unbind', 'Rename']],
  ['known-unbound', {}, ['Set role', 'Bind to a cluster', 'Rename']],
  ['insufficient-unbound', {}, ['Set role', 'Rename']],
])('a host that is %s with %j has the actions that the appliance accepts', (status, alter, want) => {
  open(host('node-1', { status, ...alter }));
  const some = ['Set role', 'Bind to a cluster', 'Unbind', 'Rename'];
  expect(some.filter((name) => !button(name).disabled)).toEqual(want);
});

it('a host can be bound to the clusters that accept hosts', async () => {
  open(host('node-1'));
  press('Bind to a cluster');
  await vi.waitFor(() => {
    const names = [...document.querySelectorAll('#host-cluster option')].map(({ textContent: name }) => name);
    expect(names).toEqual(['Choose a cluster', 'more', 'open']);
  });
});

it('a name that is refused stays in its dialog', async () => {
  refusal = 'The name has an underscore.';
  open(host('node-1'));
  press('Rename');
  type('#host-name', 'with_underscore');
  confirm('Rename');
  await vi.waitFor(() => {
    expect(dialog()?.textContent).toContain(refusal);
  });
  expect(document.querySelector<HTMLInputElement>('#host-name')?.value).toBe('with_underscore');
});

it.each([
  ['Set role', 'Set role', () => undefined],
  [
    'Bind to a cluster',
    'Bind',
    () => {
      choose('#host-cluster', '2');
    },
  ],
])('a refusal of "%s" is shown in its dialog, which another attempt closes', async (name, action, fill) => {
  refusal = 'The cluster is being prepared.';
  open(host('node-1'));
  press(name);
  await vi.waitFor(fill);
  confirm(action);
  await vi.waitFor(() => {
    expect(dialog()?.querySelector('[role=alert]')?.textContent).toContain(refusal);
  });
  refusal = '';
  confirm(action);
  await vi.waitFor(() => {
    expect(dialog()).toBeNull();
  });
});

it('the outcome of an action disappears when other hosts are selected', async () => {
  refusal = 'Infra-env east belongs to a cluster.';
  open(host('node-1', { cluster_id: 'c', status: 'known' }));
  press('Unbind');
  confirm('Unbind');
  await vi.waitFor(() => {
    expect(document.body.textContent).toContain(refusal);
  });
  press('Select another host');
  expect(document.body.textContent).not.toContain(refusal);
});
