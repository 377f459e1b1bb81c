// @vitest-environment jsdom
import { createElement } from 'react';
import { flushSync } from 'react-dom';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { AccessProvider, useAccess } from '../src/access/AccessProvider';
import type { Caller } from '../src/access/api';
import { suspectSessionEnd } from '../src/access/ending';
import { Password } from '../src/access/Password';
import { useAct } from '../src/shell/useAct';
import { LateFailures } from '../src/shell/LateFailures';
import { press, show, type } from './screen';

/** The person of the session, which all tabs share; undefined without one. */
let caller: Caller | undefined;
let logOut: () => Promise<Response>;
let closes: (() => void)[];
const assign = vi.fn();

const anna: Caller = { kind: 'user', name: 'anna', role: 'admin' };
const vera: Caller = { kind: 'user', name: 'vera', role: 'viewer' };

beforeEach(() => {
  caller = undefined;
  closes = [];
  vi.stubGlobal('location', { origin: 'https://site.test', assign });
  vi.stubGlobal('fetch', (path: string, { method, body }: RequestInit) => {
    if (path.endsWith('/login') && method === 'GET') {
      return Promise.resolve(Response.json({ auth: 'local', setup: false }));
    }
    if (path.endsWith('/logout')) {
      return logOut();
    }
    if (path.endsWith('/password')) {
      caller = undefined;
      return Promise.resolve(new Response(null, { status: 204 }));
    }
    if (path.endsWith('/login')) {
      const { name } = JSON.parse(body as string) as { name: string };
      caller = [anna, vera].find((one) => one.name === name);
    }
    return Promise.resolve(caller ? Response.json(caller) : new Response(null, { status: 401 }));
  });
});
afterEach(() => {
  for (const close of closes) {
    close();
  }
  assign.mockReset();
  vi.unstubAllGlobals();
});

const Shown = () => `This is the page of ${useAccess().caller.name}.`;
/** Opens a tab of the browser. */
const open = () => {
  closes.push(show(createElement(AccessProvider, null, createElement(Shown))));
};
const pages = () => document.body.textContent.match(/This is the page of \w+\./g) ?? [];
const dialogs = () => document.querySelectorAll('[aria-label="Log in again"]').length;
const pageOf = (name: string) => `This is the page of ${name}.`;
const shown = (names: string[]) =>
  vi.waitFor(() => {
    expect(pages()).toEqual(names.map(pageOf));
  });
const fillLogin = async (name: string) => {
  await vi.waitFor(() => {
    type('#name', name);
  });
  type('#password', 'correct horse battery');
};

it('a tab starts over when another person logs in in another tab', async () => {
  caller = vera;
  open();
  await shown(['vera']);
  caller = undefined;
  open();
  await fillLogin('anna');
  expect(assign).not.toHaveBeenCalled();
  press('Log in');
  await vi.waitFor(() => {
    expect(assign).toHaveBeenCalledExactlyOnceWith('/');
  });
});

it('a tab continues when the same person logs in in another tab', async () => {
  caller = vera;
  open();
  await shown(['vera']);
  caller = undefined;
  suspectSessionEnd();
  await vi.waitFor(() => {
    expect(dialogs()).toBe(1);
  });
  caller = vera;
  open();
  await shown(['vera', 'vera']);
  await vi.waitFor(() => {
    expect(dialogs()).toBe(0);
  });
  expect(assign).not.toHaveBeenCalled();
});

it.each([
  ['another person', anna],
  ['another role', { ...vera, role: 'operator' as const }],
  ['another scope', { ...vera, clusters: ['c'] }],
])('a page whose session has %s starts over', async (_case, next) => {
  caller = vera;
  open();
  await shown(['vera']);
  caller = next;
  suspectSessionEnd();
  await vi.waitFor(() => {
    expect(assign).toHaveBeenCalledExactlyOnceWith('/');
  });
  expect(pages()).toEqual([pageOf('vera')]);
});

const PasswordPage = () => createElement(Password, { act: useAct(() => undefined).act });

it('a new password can be read, its change is told, and its fields are cleared', async () => {
  caller = anna;
  closes.push(show(createElement(AccessProvider, null, createElement(PasswordPage))));
  const fields = ['[aria-label="Present password"]', '[aria-label="New password"]'];
  await vi.waitFor(() => {
    for (const field of fields) {
      type(field, 'correct horse battery');
    }
  });
  const newType = () => document.querySelector<HTMLInputElement>('[aria-label="New password"]')?.type;
  expect(newType()).toBe('password');
  flushSync(() => {
    document.querySelector<HTMLInputElement>('#show-new-password')?.click();
  });
  expect(newType()).toBe('text');
  press('Change the password');
  await vi.waitFor(() => {
    expect(dialogs()).toBe(1);
  });
  expect(document.body.textContent).toContain('Your password was changed.');
  expect(fields.map((field) => document.querySelector<HTMLInputElement>(field)?.value)).toEqual(['', '']);
});

const LogOut = () => createElement('button', { onClick: useAccess().leave }, 'Log out');
const openWithLogOut = async () => {
  caller = anna;
  closes.push(show(createElement(AccessProvider, null, createElement(LateFailures), createElement(LogOut))));
  await vi.waitFor(() => {
    press('Log out');
  });
};

it('a page starts over after the session was ended', async () => {
  logOut = () => Promise.resolve(new Response(null, { status: 204 }));
  await openWithLogOut();
  await vi.waitFor(() => {
    expect(assign).toHaveBeenCalledExactlyOnceWith('/');
  });
});

it('a session that could not be ended is told', async () => {
  logOut = () => Promise.reject(new TypeError('Failed to fetch'));
  await openWithLogOut();
  await vi.waitFor(() => {
    const alert = document.querySelector('[data-testid="late-failure"]')?.textContent;
    expect(alert).toContain('You are still logged in');
    expect(alert).toContain('The appliance does not respond.');
  });
  expect(assign).not.toHaveBeenCalled();
});
