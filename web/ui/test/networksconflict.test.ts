// @vitest-environment jsdom
import { createElement } from 'react';
import { MemoryRouter } from 'react-router-dom-v5-compat';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { HostConfig } from '../src/networks/api';
import { forgetDraft } from '../src/networks/drafts';
import { newHost, toConfig } from '../src/networks/hosts';
import NetworksPage from '../src/networks/NetworksPage';
import { press, show, type } from './screen';

vi.mock('../src/access/AccessProvider', () => ({
  useMay: () => true,
  Requires: ({ children }: { children: unknown }) => children,
}));

const configOf = (mac: string): HostConfig => toConfig({ host: { ...newHost(), nics: [{ mac, name: 'eth0' }] } });
const macsOf = (hosts: HostConfig[]) =>
  hosts.flatMap(({ mac_interface_map: nics }) => nics.map((nic) => nic.mac_address));

/** The networks that the appliance has stored. */
let stored: HostConfig[];
let saves: number;
/** When and whether the page gets the answer of a save. */
let answerOfSave: (answer: Response) => Promise<Response>;
/** What the appliance hides in a description. */
let hide: (yaml: string) => string;
let close: () => void;

beforeEach(() => {
  stored = [configOf('52:54:00:00:00:01')];
  saves = 0;
  answerOfSave = (answer) => Promise.resolve(answer);
  const shown = () => stored.map((host) => ({ ...host, network_yaml: hide(host.network_yaml) }));
  const infraEnv = () => ({ id: 'i', name: 'berlin', static_network_config: JSON.stringify(shown()) });
  hide = (yaml) => yaml;
  vi.stubGlobal('fetch', (path: string, { method, body }: RequestInit) => {
    if (path.endsWith('/preview')) {
      const { static_network_config: hosts } = JSON.parse(body as string) as { static_network_config: HostConfig[] };
      return Promise.resolve(
        Response.json({
          way: 'keyfiles',
          hosts: hosts.map(({ network_yaml: yaml }) => ({ network_yaml: hide(yaml), addresses: [], files: [] })),
        }),
      );
    }
    if (path.endsWith('/infra-envs')) {
      return Promise.resolve(Response.json([infraEnv()]));
    }
    if (method === 'PATCH') {
      saves += 1;
      stored = (JSON.parse(body as string) as { static_network_config: HostConfig[] }).static_network_config;
      return answerOfSave(Response.json(infraEnv()));
    }
    return Promise.resolve(Response.json(infraEnv()));
  });
});
afterEach(() => {
  close();
  forgetDraft('i');
  vi.unstubAllGlobals();
});

const mine = '52:54:00:00:00:0a';
const theirs = '52:54:00:00:00:0b';
const macField = '[aria-label="MAC address 1"]';

const openPage = () => {
  close = show(createElement(MemoryRouter, null, createElement(NetworksPage)));
};
const changeMine = async () => {
  await vi.waitFor(() => {
    type(macField, mine);
  });
};
const saved = () =>
  vi.waitFor(() => {
    expect(document.body.textContent).toContain('Saved.');
  });
const conflictShown = () =>
  vi.waitFor(() => {
    expect(document.querySelector('[data-testid=networks-conflict]')).not.toBeNull();
  });

it('networks that nobody else has changed are saved, also twice', async () => {
  openPage();
  await changeMine();
  press('Save');
  await vi.waitFor(() => {
    expect(macsOf(stored)).toEqual([mine]);
    expect(document.body.textContent).toContain('Saved.');
  });
  type(macField, '52:54:00:00:00:0c');
  press('Save');
  await vi.waitFor(() => {
    expect(macsOf(stored)).toEqual(['52:54:00:00:00:0c']);
  });
});

it('a change that somebody else saved meanwhile is not overwritten', async () => {
  openPage();
  await changeMine();
  stored = [configOf(theirs)];
  press('Save');
  await conflictShown();
  expect(macsOf(stored)).toEqual([theirs]);
  press('Discard my changes and show them');
  await vi.waitFor(() => {
    expect(document.querySelector<HTMLInputElement>(macField)?.value).toBe(theirs);
  });
});

it('also not by changes that were kept while another page was open', async () => {
  openPage();
  await changeMine();
  close();
  stored = [configOf(theirs)];
  openPage();
  await vi.waitFor(() => {
    press('Save');
  });
  await conflictShown();
  expect(macsOf(stored)).toEqual([theirs]);
  press('Replace them with mine');
  await vi.waitFor(() => {
    expect(macsOf(stored)).toEqual([mine]);
  });
});

it.each([
  ['the same networks', mine],
  ['further changes', '52:54:00:00:00:0c'],
])('one’s own save whose answer was lost is no conflict with %s', async (_case, next) => {
  answerOfSave = () => Promise.reject(new TypeError('Failed to fetch'));
  openPage();
  await changeMine();
  press('Save');
  await vi.waitFor(() => {
    expect(document.body.textContent).toContain('The appliance does not respond.');
  });
  expect(macsOf(stored)).toEqual([mine]);
  answerOfSave = (answer) => Promise.resolve(answer);
  type(macField, next);
  press('Save');
  await saved();
  expect(macsOf(stored)).toEqual([next]);
});

it('one’s own save with a new password whose answer was lost is no conflict', async () => {
  hide = (yaml) => yaml.replace(/password: .*/, 'password: hidden');
  stored = [{ ...configOf(mine), network_yaml: 'interfaces: []\npassword: former\n' }];
  answerOfSave = () => Promise.reject(new TypeError('Failed to fetch'));
  openPage();
  await vi.waitFor(() => {
    type('textarea', 'interfaces: [{}]\npassword: new\n');
  });
  press('Save');
  await vi.waitFor(() => {
    expect(document.body.textContent).toContain('The appliance does not respond.');
  });
  answerOfSave = (answer) => Promise.resolve(answer);
  press('Save');
  await saved();
  expect(stored[0]?.network_yaml).toContain('password: new');
});

it.each([
  ['the same networks', mine],
  ['further changes', '52:54:00:00:00:0c'],
])('one’s own save that ends on another page is no conflict with %s', async (_case, next) => {
  let end = (): void => undefined;
  answerOfSave = (answer) =>
    new Promise((resolve) => {
      end = () => {
        resolve(answer);
      };
    });
  openPage();
  await changeMine();
  press('Save');
  await vi.waitFor(() => {
    expect(macsOf(stored)).toEqual([mine]);
  });
  close();
  openPage();
  await vi.waitFor(() => {
    type(macField, next);
  });
  end();
  answerOfSave = (answer) => Promise.resolve(answer);
  press('Save');
  await saved();
  expect(macsOf(stored)).toEqual([next]);
});

it('a conflict ends with the save of one’s own networks, which runs once', async () => {
  openPage();
  await changeMine();
  stored = [configOf(theirs)];
  press('Save');
  await conflictShown();
  const ends: (() => void)[] = [];
  answerOfSave = (answer) =>
    new Promise((resolve) => {
      ends.push(() => {
        resolve(answer);
      });
    });
  for (const name of ['Replace them with mine', 'Save', 'Discard the changes', 'Discard my changes and show them']) {
    press(name);
  }
  await vi.waitFor(() => {
    expect(ends).toHaveLength(1);
  });
  expect(document.querySelector('[data-testid=networks-conflict]')).not.toBeNull();
  expect(document.querySelector<HTMLInputElement>(macField)?.value).toBe(mine);
  ends[0]?.();
  await saved();
  expect(document.querySelector('[data-testid=networks-conflict]')).toBeNull();
  expect(saves).toBe(1);
});

it('a conflict stays while the appliance does not respond', async () => {
  openPage();
  await changeMine();
  stored = [configOf(theirs)];
  press('Save');
  await conflictShown();
  answerOfSave = () => Promise.reject(new TypeError('Failed to fetch'));
  press('Replace them with mine');
  await vi.waitFor(() => {
    expect(document.body.textContent).toContain('The appliance does not respond.');
  });
  expect(document.querySelector('[data-testid=networks-conflict]')).not.toBeNull();
});
