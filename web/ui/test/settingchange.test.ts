// @vitest-environment jsdom
import { createElement } from 'react';
import { MemoryRouter } from 'react-router-dom-v5-compat';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import SettingsPage from '../src/settings/SettingsPage';
import type { Settings } from '../src/settings/api';
import { show, type } from './screen';

vi.mock('../src/access/AccessProvider', () => ({ useMay: () => true }));
vi.mock('../src/live/useRefetchOn', () => ({ useRefetchOn: () => undefined }));
vi.mock('../src/notices/Notifications', () => ({ Notifications: () => null }));

const settings = {
  url: { value: 'https://192.0.2.10:8090', fixed: false },
  pull_secret: { set: false, fixed: false },
  ssh_public_key: { value: '', fixed: false },
  ntp_sources: { value: [], fixed: false },
} as unknown as Settings;

/** The answer of the appliance to a change. */
let answer: () => Promise<Response>;
const scrolled = vi.fn<(this: Element) => void>();
let close: () => void;

beforeEach(async () => {
  Element.prototype.scrollIntoView = scrolled;
  vi.stubGlobal('fetch', (_path: string, { method }: RequestInit) =>
    method === 'GET' ? Promise.resolve(Response.json(settings)) : answer(),
  );
  close = show(createElement(MemoryRouter, null, createElement(SettingsPage)));
  await vi.waitFor(() => {
    type('#time-servers-field', 'bad name!!');
  });
});
afterEach(() => {
  close();
  scrolled.mockReset();
  vi.unstubAllGlobals();
});

const card = () => document.querySelector('#time-servers');
const saveButton = () => card()?.querySelector<HTMLButtonElement>('button[type=submit]');
const save = () => {
  saveButton()?.click();
};
const refuse = () =>
  Promise.resolve(Response.json({ reason: '"name!!" is not a name of a server' }, { status: 400 }));

it('a refused change is announced in the card of the setting, each time', async () => {
  answer = refuse;
  for (const count of [1, 2]) {
    save();
    await vi.waitFor(() => {
      expect(scrolled).toHaveBeenCalledTimes(count);
    });
    expect(card()?.querySelector('[role=alert]')?.textContent).toContain('"name!!" is not a name of a server.');
  }
  expect(document.querySelectorAll('[role=alert]')).toHaveLength(1);
});

it('a saved change is confirmed until the next one', async () => {
  answer = () => Promise.resolve(new Response(null, { status: 204 }));
  type('#time-servers-field', '192.0.2.1');
  save();
  await vi.waitFor(() => {
    expect(card()?.querySelector('[role=status]')?.textContent).toBe('Saved.');
  });
  type('#time-servers-field', '192.0.2.2');
  expect(card()?.querySelector('[role=status]')?.textContent).toBe('');
  answer = refuse;
  save();
  await vi.waitFor(() => {
    expect(card()?.querySelector('[role=alert]')).not.toBeNull();
  });
  expect(card()?.querySelector('[role=status]')?.textContent).toBe('');
});

it('what is typed while a change is saved stays', async () => {
  let end = (): void => undefined;
  answer = () =>
    new Promise((resolve) => {
      end = () => {
        resolve(new Response(null, { status: 204 }));
      };
    });
  type('#time-servers-field', '192.0.2.1');
  save();
  type('#time-servers-field', '192.0.2.1, 192.0.2.2');
  settings.ntp_sources.value = ['192.0.2.1'];
  end();
  await vi.waitFor(() => {
    expect(saveButton()?.ariaDisabled).not.toBe('true');
  });
  expect(document.querySelector<HTMLInputElement>('#time-servers-field')?.value).toBe('192.0.2.1, 192.0.2.2');
});

it('the button of a change is not disabled, which would end its focus', async () => {
  answer = () => new Promise(() => undefined);
  save();
  await vi.waitFor(() => {
    expect(saveButton()?.ariaDisabled).toBe('true');
  });
  expect(saveButton()?.disabled).toBe(false);
});
