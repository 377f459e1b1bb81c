// @vitest-environment jsdom
import { createElement } from 'react';
import { MemoryRouter } from 'react-router-dom-v5-compat';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { forgetDraft } from '../src/networks/drafts';
import { newHost, toConfig } from '../src/networks/hosts';
import NetworksPage from '../src/networks/NetworksPage';
import { show, type } from './screen';

vi.mock('../src/access/AccessProvider', () => ({
  useMay: () => true,
  Requires: ({ children }: { children: unknown }) => children,
}));

type Stored = { id: string; name: string; static_network_config: string };

const infraEnvOf = (id: string, name: string): Stored => ({
  id,
  name,
  static_network_config: JSON.stringify([
    toConfig({ host: { ...newHost(), nics: [{ mac: '52:54:00:00:00:01', name: 'eth0' }] } }),
  ]),
});

/** The list of the appliance. */
let infraEnvs: Stored[];
let close: () => void;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  vi.stubGlobal('fetch', (path: string) => {
    if (path.endsWith('/preview')) {
      return Promise.resolve(Response.json({ way: 'keyfiles', hosts: [] }));
    }
    if (path.endsWith('/infra-envs')) {
      return Promise.resolve(Response.json(infraEnvs));
    }
    const found = infraEnvs.find(({ id }) => path.endsWith(`/${id}`));
    return Promise.resolve(
      found ? Response.json(found) : Response.json({ reason: 'the infra-env does not exist' }, { status: 404 }),
    );
  });
});
afterEach(() => {
  close();
  forgetDraft('b');
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const macField = '[aria-label="MAC address 1"]';
const select = () => document.querySelector<HTMLSelectElement>('[aria-label="Infra-env"]');
const options = () => [...(select()?.options ?? [])].map(({ text }) => text);
const chosen = () => select()?.selectedOptions[0]?.text;
const open = (address: string) => {
  close = show(createElement(MemoryRouter, { initialEntries: [address] }, createElement(NetworksPage)));
};
const typed = '52:54:00:00:00:0a';
/** Types into the form of the infra-env berlin. */
const beginWork = async () => {
  infraEnvs = [infraEnvOf('b', 'berlin')];
  open('/networks');
  await vi.waitFor(() => {
    type(macField, typed);
  });
};
/** The page reads this list the next time. */
const change = (list: Stored[]) => {
  infraEnvs = list;
  vi.advanceTimersByTime(10_000);
};
const workIsThere = () => {
  expect(document.querySelector<HTMLInputElement>(macField)?.value).toBe(typed);
};

it('a new first infra-env does not replace the one in work', async () => {
  await beginWork();
  change([infraEnvOf('a', 'aachen'), infraEnvOf('b', 'berlin')]);
  await vi.waitFor(() => {
    expect(options()).toEqual(['aachen', 'berlin']);
  });
  expect(chosen()).toBe('berlin');
  workIsThere();
});

it.each([
  ['the last one', []],
  ['one of two', [infraEnvOf('a', 'aachen')]],
])('a deleted infra-env in work stays, and is named so: %s', async (_case, rest) => {
  await beginWork();
  change(rest);
  await vi.waitFor(() => {
    expect(chosen()).toBe('Deleted infra-env');
  });
  workIsThere();
});

it('the page names no other infra-env than the one of its address', async () => {
  infraEnvs = [infraEnvOf('b', 'berlin')];
  open('/networks?infra_env=gone');
  await vi.waitFor(() => {
    expect(document.body.textContent).toContain('The infra-env does not exist.');
  });
  expect(chosen()).toBe('Deleted infra-env');
});

it('without an infra-env, the first one is shown when it exists', async () => {
  infraEnvs = [];
  open('/networks');
  await vi.waitFor(() => {
    expect(document.body.textContent).toContain('No infra-env yet.');
  });
  change([infraEnvOf('b', 'berlin')]);
  await vi.waitFor(() => {
    expect(chosen()).toBe('berlin');
  });
});

it('the infra-envs are in the order of their names', async () => {
  infraEnvs = [infraEnvOf('1', 'edge-10'), infraEnvOf('2', 'edge-9'), infraEnvOf('3', 'core')];
  open('/networks');
  await vi.waitFor(() => {
    expect(options()).toEqual(['core', 'edge-9', 'edge-10']);
  });
  expect(chosen()).toBe('core');
});
