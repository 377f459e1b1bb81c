// @vitest-environment jsdom
import { createElement } from 'react';
import { flushSync } from 'react-dom';
import { MemoryRouter } from 'react-router-dom-v5-compat';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import MirrorPage from '../src/mirror/MirrorPage';
import { button, press, show, type } from './screen';

vi.mock('../src/access/AccessProvider', () => ({
  useMay: () => true,
  useIsLimited: () => true,
  useAccess: () => ({ caller: { name: 'anna', role: 'admin' } }),
  Requires: ({ children }: { children: unknown }) => children,
}));

const model = { rules: [], holes: [], catalogs: [], signatures: [], imports: [] };

let imports: string[];
let explanations: number;
let answer: (response: Response) => void;
let close: () => void;

beforeEach(async () => {
  imports = [];
  explanations = 0;
  vi.stubGlobal('fetch', (path: string, { method }: RequestInit) => {
    if (method === 'POST') {
      imports.push(path);
      return new Promise((resolve) => {
        answer = resolve;
      });
    }
    if (path.includes('/explain')) {
      explanations += 1;
      return new Promise(() => undefined);
    }
    return Promise.resolve(Response.json(path.endsWith('/mirror') ? model : []));
  });
  close = show(createElement(MemoryRouter, null, createElement(MirrorPage)));
  await vi.waitFor(() => button('Import a file'));
});
afterEach(() => {
  close();
  vi.unstubAllGlobals();
});

const text = () => document.body.textContent;

const choose = (name: string) => {
  const input = document.querySelector<HTMLInputElement>('input[type=file]');
  Object.defineProperty(input, 'files', { configurable: true, value: [new File(['x'], name)] });
  flushSync(() => {
    input?.dispatchEvent(new Event('change', { bubbles: true }));
  });
};

const drop = (items: unknown[]) => {
  const event = new Event('drop', { bubbles: true });
  Object.defineProperty(event, 'dataTransfer', { value: { items } });
  flushSync(() => {
    document.querySelector('[data-testid=mirror]')?.dispatchEvent(event);
  });
};

it('an import is shown while it runs, and runs once', async () => {
  choose('mirror_000001.tar');
  await vi.waitFor(() => {
    expect(text()).toContain('Importing mirror_000001.tar.');
  });
  expect(button('Import a file').ariaDisabled).toBe('true');
  choose('mirror_000002.tar');
  expect(text()).toContain('The last files were not imported, because an import was running.');
  answer(new Response(null, { status: 204 }));
  await vi.waitFor(() => {
    expect(text()).not.toContain('Importing');
  });
  expect(imports).toEqual(['/api/landfall/v1/mirror?name=mirror_000001.tar']);
  choose('mirror_000002.tar');
  await vi.waitFor(() => {
    expect(text()).toContain('Importing mirror_000002.tar.');
  });
  expect(text()).not.toContain('The last files were not imported');
});

it('a directory that the browser cannot read is reported', async () => {
  const entry = {
    isFile: true,
    name: 'gone.yaml',
    file: (_: unknown, reject: (error: Error) => void) => {
      reject(new Error('The file gone.yaml was not found.'));
    },
  };
  drop([{ getAsFile: () => null, webkitGetAsEntry: () => entry }]);
  await vi.waitFor(() => {
    expect(text()).toContain('The file gone.yaml was not found.');
  });
  expect(imports).toEqual([]);
});

it('a second click on Explain sends nothing while the first one runs', () => {
  type('input[aria-label="Image to explain"]', 'quay.io/a/b:1');
  press('Explain');
  press('Explain');
  expect(explanations).toBe(1);
});
