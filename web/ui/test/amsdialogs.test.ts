// @vitest-environment jsdom
import { createElement } from 'react';
import { afterEach, expect, it, vi } from 'vitest';
import type { ClusterLine } from '../src/ams/api';
import { EditDialog } from '../src/ams/EditDialog';
import { LoginDialog } from '../src/ams/LoginDialog';
import { press, show, type } from './screen';

const line = { cluster_id: 'c', name: 'one', edited: {} } as ClusterLine;

let close: () => void;
afterEach(() => {
  close();
  vi.unstubAllGlobals();
});

const refuse = () => {
  vi.stubGlobal('fetch', () => Promise.resolve(Response.json({ reason: 'The disk is full.' }, { status: 500 })));
};
const accept = () => {
  vi.stubGlobal('fetch', () => Promise.resolve(new Response(null, { status: 204 })));
};

it.each([
  [
    'the login dialog',
    (onClose: () => void) => createElement(LoginDialog, { onClose }),
    { '#ams-id': 'robot', '#ams-secret': 'hush' },
    'Save the credentials',
  ],
  [
    'the dialog of the values of a cluster',
    (onClose: () => void) => createElement(EditDialog, { line, by: 'me', onClose }),
    { '#ams-name': 'berlin' },
    'Send',
  ],
])('%s keeps its input until the appliance has it', async (_dialog, dialog, inputs, action) => {
  const onClose = vi.fn();
  refuse();
  close = show(dialog(onClose));
  for (const [selector, text] of Object.entries(inputs)) {
    type(selector, text);
  }
  press(action);
  await vi.waitFor(() => {
    expect(document.body.textContent).toContain('The disk is full.');
  });
  expect(onClose).not.toHaveBeenCalled();
  for (const [selector, text] of Object.entries(inputs)) {
    expect(document.querySelector<HTMLInputElement>(selector)?.value).toBe(text);
  }
  accept();
  press(action);
  await vi.waitFor(() => {
    expect(onClose).toHaveBeenCalledOnce();
  });
});
