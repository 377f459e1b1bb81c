// @vitest-environment jsdom
import { createElement } from 'react';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Imported } from '../src/bmc/api';
import { TableDialog } from '../src/bmc/TableDialog';
import { button, press, show, type } from './screen';

const table = '#bmc-table';
const failed: Imported = { added: 0, failed: 1, rows: [{ line: 1, name: 'rack-1', error: 'The name is taken.' }] };
const good: Imported = { added: 1, failed: 0, rows: [] };

/** Each answers one request, in their order. */
let answers: ((imported: Imported) => void)[];
let close: () => void;

beforeEach(() => {
  answers = [];
  vi.stubGlobal(
    'fetch',
    () =>
      new Promise((resolve) => {
        answers.push((imported) => {
          resolve(Response.json(imported));
        });
      }),
  );
  close = show(createElement(TableDialog, { onClose: () => undefined }));
  type(table, 'rack-1,192.0.2.7,root,secret');
});
afterEach(() => {
  close();
  vi.unstubAllGlobals();
});

const settle = () => new Promise((over) => setTimeout(over));
const dialog = () => document.querySelector('[role=dialog]')?.textContent;
const add = async () => {
  press('Add the servers');
  answers.at(-1)?.(failed);
  await vi.waitFor(() => {
    expect(dialog()).toContain('Some servers were not added.');
  });
};

it('a late check does not replace the outcome of the addition', async () => {
  press('Check');
  await add();
  answers[0]?.(good);
  await settle();
  expect(dialog()).toContain('0 were added, 1 not.');
});

it('a check of a table that was changed meanwhile is not shown', async () => {
  press('Check');
  type(table, 'rack-2,192.0.2.8,root,secret');
  answers[0]?.(good);
  await settle();
  expect(dialog()).not.toContain('can be added');
});

it('the table cannot be checked while the servers are added', async () => {
  press('Add the servers');
  expect(button('Check').disabled).toBe(true);
  answers[0]?.(failed);
  await vi.waitFor(() => {
    expect(button('Check').disabled).toBe(false);
  });
});

it('the failure of an addition disappears with a change of the table', async () => {
  await add();
  type(table, 'rack-2,192.0.2.8,root,secret');
  expect(dialog()).not.toContain('Some servers were not added.');
});
