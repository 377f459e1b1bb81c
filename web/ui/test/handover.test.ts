// @vitest-environment jsdom
import { createElement } from 'react';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { ManagementDialog } from '../src/hosted/ManagementDialog';
import { HandOverDialog } from '../src/registry/HandOverDialog';
import { button, press, show, type } from './screen';

let answer: (path: string) => Promise<Response>;
let close: () => void;

beforeEach(() => {
  vi.stubGlobal('fetch', (path: string) => answer(path));
});
afterEach(() => {
  close();
  vi.unstubAllGlobals();
});

const nothing = () => undefined;
const settle = () => new Promise((over) => setTimeout(over));
const plan = { way: 'add-mirror', to: 'r.site.example', images: 7, bytes: 8, state: 'planned', clusters: [] };
const shown = () => document.querySelector('[data-testid=hand-over-plan]');

it('the plan of a hand-over disappears when its input changes', async () => {
  answer = () => Promise.resolve(Response.json(plan));
  close = show(createElement(HandOverDialog, { before: null, onClose: nothing }));
  type('#hand-over-to', 'r.site.example');
  press('Show what is copied');
  await vi.waitFor(() => {
    expect(shown()).not.toBeNull();
  });
  type('#hand-over-to', 'other.site.example');
  expect(shown()).toBeNull();
});

it('a plan that arrives after a change of its input is not shown', async () => {
  let arrive: () => void = nothing;
  answer = () =>
    new Promise((resolve) => {
      arrive = () => {
        resolve(Response.json(plan));
      };
    });
  close = show(createElement(HandOverDialog, { before: null, onClose: nothing }));
  type('#hand-over-to', 'r.site.example');
  press('Show what is copied');
  type('#hand-over-to', 'other.site.example');
  arrive();
  await settle();
  expect(shown()).toBeNull();
});

it('a cluster without lacks is not used all the same', async () => {
  answer = (path) =>
    Promise.resolve(
      path.includes('/check')
        ? Response.json({ findings: [] })
        : Response.json({ reason: 'The name is taken.' }, { status: 409 }),
    );
  close = show(createElement(ManagementDialog, { onClose: nothing }));
  type('#management-consumer', 'mc1');
  type('#management-base_domain', 'hosted.example.com');
  press('Check and use it');
  await vi.waitFor(() => {
    expect(document.body.textContent).toContain('The name is taken.');
  });
  expect(button('Check and use it').disabled).toBe(false);
});
