// @vitest-environment jsdom
import { createElement, type ReactElement } from 'react';
import { flushSync } from 'react-dom';
import { MemoryRouter } from 'react-router-dom-v5-compat';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Password } from '../src/access/Password';
import { Tokens } from '../src/ams/Tokens';
import type { InfraEnv, Server } from '../src/bmc/api';
import { ServerTable } from '../src/bmc/ServerTable';
import { TableDialog } from '../src/bmc/TableDialog';
import { useAct } from '../src/shell/useAct';
import { button, press, show, type } from './screen';

vi.mock('../src/access/AccessProvider', () => ({
  useMay: () => true,
  useAccess: () => ({ caller: { name: 'vera', role: 'admin' } }),
}));

const server = {
  id: 's',
  name: 'rack-1',
  address: '192.0.2.7',
  state: 'available',
  power: 'off',
  infra_env_id: 'i',
} as Server;
const infraEnvs: InfraEnv[] = [{ id: 'i', name: 'berlin' }];
const nothing = () => undefined;

const WithAct = ({ of }: { of: 'tokens' | 'password' | 'servers' }) => {
  const { act } = useAct(nothing);
  switch (of) {
    case 'tokens':
      return createElement(Tokens, { act });
    case 'password':
      return createElement(Password, { act });
    case 'servers':
      return createElement(MemoryRouter, null, createElement(ServerTable, { servers: [server], infraEnvs, act }));
  }
};

/** The changes that were requested, and their answers. */
let changes: string[];
let answers: ((response: Response) => void)[];
let close: () => void;

beforeEach(() => {
  changes = [];
  answers = [];
  vi.stubGlobal('fetch', (path: string, { method }: RequestInit) => {
    if (method === 'GET') {
      return Promise.resolve(Response.json([]));
    }
    changes.push(`${String(method)} ${path}`);
    return new Promise((answer) => {
      answers.push(answer);
    });
  });
});
afterEach(() => {
  close();
  vi.unstubAllGlobals();
});

/** The button of the open dialog, or of the page. */
const shown = (name: string): HTMLButtonElement =>
  [...document.querySelectorAll<HTMLButtonElement>('[role=dialog] button')].find(
    (one) => one.textContent.trim() === name,
  ) ?? button(name);

const pick = async (menu: string, name: string) => {
  press(menu);
  await vi.waitFor(() => {
    press(name);
  });
};

type Case = {
  what: string;
  element: () => ReactElement;
  /** Fills in the form, or opens the dialog. */
  prepare?: () => void | Promise<void>;
  name: string;
  change: string;
};

it.each<Case>([
  {
    what: 'a token for the ocm command',
    element: () => createElement(WithAct, { of: 'tokens' }),
    name: 'Create a token',
    change: 'POST /api/landfall/v1/ams/tokens',
  },
  {
    what: 'a new password',
    element: () => createElement(WithAct, { of: 'password' }),
    prepare: () => {
      type('[aria-label="Present password"]', 'old');
      type('[aria-label="New password"]', 'new');
    },
    name: 'Change the password',
    change: 'PUT /api/landfall/v1/users/vera/password',
  },
  {
    what: 'a table of servers',
    element: () => createElement(TableDialog, { onClose: nothing }),
    prepare: () => {
      type('#bmc-table', 'rack-1,192.0.2.7,root,secret');
    },
    name: 'Add the servers',
    change: 'POST /api/landfall/v1/bmcs/import',
  },
  {
    what: 'the boot of a server',
    element: () => createElement(WithAct, { of: 'servers' }),
    prepare: () => {
      press('Boot now');
    },
    name: 'Boot it',
    change: 'POST /api/landfall/v1/bmcs/s/actions/boot',
  },
  {
    what: 'the removal of a server',
    element: () => createElement(WithAct, { of: 'servers' }),
    prepare: () => pick('More for rack-1', 'Remove'),
    name: 'Remove',
    change: 'DELETE /api/landfall/v1/bmcs/s',
  },
])('two clicks send $what once', async ({ element, prepare, name, change }) => {
  close = show(element());
  await prepare?.();
  const clicked = await vi.waitFor(() => shown(name));
  flushSync(() => {
    clicked.click();
    clicked.click();
  });
  await vi.waitFor(() => {
    expect(changes).toEqual([change]);
  });
  clicked.click();
  expect(changes).toEqual([change]);
  answers[0]?.(Response.json({ reason: 'The disk is full.' }, { status: 500 }));
  await vi.waitFor(() => {
    clicked.click();
    expect(changes).toEqual([change, change]);
  });
});
