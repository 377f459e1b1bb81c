// @vitest-environment jsdom
import { createElement, type ReactElement } from 'react';
import { flushSync } from 'react-dom';
import { MemoryRouter } from 'react-router-dom-v5-compat';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Passkeys } from '../src/access/Passkeys';
import { Users } from '../src/access/Users';
import type { AmsStatus } from '../src/ams/api';
import { ClusterTable } from '../src/ams/ClusterTable';
import { Connection } from '../src/ams/Connection';
import { Couriers } from '../src/ams/Couriers';
import { Tokens } from '../src/ams/Tokens';
import type { Place } from '../src/mirror/api';
import { ImportBox } from '../src/mirror/ImportBox';
import { UploadList } from '../src/osimages/UploadList';
import type { Act } from '../src/shell/useAct';
import { press, show } from './screen';

vi.mock('../src/access/AccessProvider', () => ({
  useMay: () => true,
  useAccess: () => ({ caller: { name: 'anna', role: 'admin' } }),
  Requires: ({ children }: { children: unknown }) => children,
}));
vi.mock('../src/osimages/UploadsProvider', () => ({
  useUploadViews: () => [{ key: 'u', name: 'live.iso', size: 8, sent: 4, state: 'paused' }],
  useUploads: () => ({
    of: () => ({
      cancel: () => {
        changes.push('the upload is cancelled');
        return Promise.resolve();
      },
    }),
  }),
}));

let changes: string[];
let close: () => void;

beforeEach(() => {
  changes = [];
  vi.stubGlobal('fetch', (path: string, { method, body }: RequestInit) => {
    if (method === 'GET') {
      return Promise.resolve(Response.json([listed]));
    }
    changes.push([method, path, body].filter((part) => typeof part === 'string').join(' '));
    return Promise.resolve(new Response(null, { status: 204 }));
  });
});
afterEach(() => {
  close();
  vi.unstubAllGlobals();
});

const act: Act = async (work) => {
  await work();
  return true;
};
const nothing = () => undefined;
const status = {
  state: 'online',
  api_url: '',
  waiting: 1,
  clock_skew_seconds: 0,
  couriers: [{ export_id: '7', until: '2026-01-01T00:00:00Z', clusters: 1 }],
  clusters: [{ cluster_id: 'c', name: 'harbor', state: 'waiting', told: {}, to_tell: {}, edited: {} }],
} as unknown as AmsStatus;
const selection = { state: '', name: '', offset: 0, limit: 50 } as const;
/** An object of every list. */
const listed = { id: 'i', name: 'vera', role: 'viewer', label: 'office key', host: 'landfall.site' };
const imported = { name: 'site.tar', imported: '2026-01-01T00:00:00Z', files: [], ignored: [], cluster_id: 'c' };

const imports = (places: Place[]) =>
  createElement(ImportBox, {
    imports: [imported],
    places,
    isImporting: false,
    take: nothing,
    changed: nothing,
    failed: nothing,
  });

const choose = (label: string, value: string) => {
  const select = document.querySelector<HTMLSelectElement>(`select[aria-label="${label}"]`);
  if (!select) {
    throw new Error(`there is no ${label}`);
  }
  select.value = value;
  flushSync(() => {
    select.dispatchEvent(new Event('change', { bubbles: true }));
  });
};

type Case = { what: string; element: () => ReactElement; begin: () => void; question: string; action: string };

it.each<Case & { change: string }>([
  {
    what: 'a change of a role',
    element: () => createElement(Users, { act }),
    begin: () => {
      choose('Role of vera', 'admin');
    },
    question: 'Make vera an administrator?',
    action: 'Change the role',
    change: 'PATCH /api/landfall/v1/users/vera {"role":"admin"}',
  },
  {
    what: 'the end of access of an account',
    element: () => createElement(Users, { act }),
    begin: () => {
      press('Disable');
    },
    question: 'Disable the account vera?',
    action: 'Disable',
    change: 'PATCH /api/landfall/v1/users/vera {"disabled":true}',
  },
  {
    what: 'the deletion of a passkey',
    element: () => createElement(Passkeys, { act }),
    begin: () => {
      press('Delete');
    },
    question: 'Delete office key for landfall.site?',
    action: 'Delete',
    change: 'DELETE /api/landfall/v1/passkeys/i',
  },
  {
    what: 'the end of a token for the ocm command',
    element: () => createElement(Tokens, { act }),
    begin: () => {
      press('Revoke');
    },
    question: 'Revoke the token i?',
    action: 'Revoke',
    change: 'DELETE /api/landfall/v1/ams/tokens/i',
  },
  {
    what: 'the report of a lost export',
    element: () => createElement(Couriers, { status, act, failed: nothing, changed: nothing }),
    begin: () => {
      press('Report as lost');
    },
    question: 'Report the export 7 as lost?',
    action: 'Report as lost',
    change: 'DELETE /api/landfall/v1/ams/exports/7',
  },
  {
    what: 'the end of the changes of a cluster',
    element: () =>
      createElement(
        MemoryRouter,
        null,
        createElement(ClusterTable, { status, selection, select: nothing, act, changed: nothing }),
      ),
    begin: () => {
      press('Drop');
    },
    question: 'Drop the changes of harbor?',
    action: 'Drop',
    change: 'POST /api/landfall/v1/ams/clusters/c/leave {}',
  },
  {
    what: 'the end of an upload',
    element: () => createElement(UploadList),
    begin: () => {
      press('Cancel the upload of live.iso');
    },
    question: 'Cancel the upload of live.iso?',
    action: 'Cancel the upload',
    change: 'the upload is cancelled',
  },
  {
    what: 'a logout from OpenShift Cluster Manager',
    element: () => createElement(Connection, { status, act, changed: nothing }),
    begin: () => {
      press('Log out');
    },
    question: 'Log out of OpenShift Cluster Manager?',
    action: 'Log out',
    change: 'DELETE /api/landfall/v1/ams/credentials',
  },
  {
    what: 'the removal of an import',
    element: () => imports([{ level: { cluster_id: 'c' }, label: 'cluster east' }]),
    begin: () => {
      press('Remove');
    },
    question: 'Remove the import site.tar?',
    action: 'Remove',
    change: 'DELETE /api/landfall/v1/mirror/imports/site.tar?cluster_id=c',
  },
])('$what waits for a confirmation', async ({ element, begin, question, action, change }) => {
  close = show(element());
  await vi.waitFor(begin);
  const dialog = await vi.waitFor(() => {
    const found = document.querySelector('[role=dialog]');
    expect(found?.textContent).toContain(question);
    return found;
  });
  expect(changes).toEqual([]);
  const confirm = [...(dialog?.querySelectorAll('button') ?? [])].find((one) => one.textContent.trim() === action);
  confirm?.click();
  await vi.waitFor(() => {
    expect(changes).toEqual([change]);
  });
});

it.each([
  ['of a cluster', [{ level: { cluster_id: 'c' }, label: 'cluster east' }], 'no longer apply to cluster east.'],
  ['of a deleted object', [], 'Its cluster or infra-env was deleted, so its rules apply to nothing.'],
])('the removal of an import %s says what its rules applied to', async (_case, places, want) => {
  close = show(imports(places));
  press('Remove');
  await vi.waitFor(() => {
    expect(document.querySelector('[role=dialog]')?.textContent).toContain(want);
  });
});
