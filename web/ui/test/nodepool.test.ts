// @vitest-environment jsdom
import { createElement } from 'react';
import { flushSync } from 'react-dom';
import { createRoot } from 'react-dom/client';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Cluster, NodePool } from '../src/hosted/api';
import { Pool } from '../src/hosted/ClusterDetail';
import { button, press, type } from './screen';

vi.mock('../src/access/AccessProvider', () => ({ useMay: () => true }));

const field = 'input[type=number]';
const act = vi.fn(() => Promise.resolve(true));
let report: (wanted: number) => void;

const valueOf = () => document.querySelector<HTMLInputElement>(field)?.value;

beforeEach(() => {
  const root = createRoot(document.body.appendChild(document.createElement('div')));
  report = (wanted) => {
    const pool = { name: 'workers', wanted, ready: wanted, profile: 'large', state: 'Ready' } as unknown as NodePool;
    flushSync(() => {
      root.render(createElement(Pool, { cluster: { cid: 'c', name: 'edge1' } as Cluster, pool, act }));
    });
  };
  report(3);
});
afterEach(() => {
  document.body.replaceChildren();
  act.mockClear();
});

it('an unchanged field follows the number of nodes that others set', () => {
  report(5);
  expect(valueOf()).toBe('5');
  expect(button('Scale').disabled).toBe(true);
});

it('a field follows the number of nodes again after its own number was set', () => {
  type(field, '4');
  press('Scale');
  expect(act).toHaveBeenCalledOnce();
  report(4);
  report(6);
  expect(valueOf()).toBe('6');
});

it.each(['', '1.5', '-1', '501'])('the field with "%s" cannot be sent', (text) => {
  type(field, text);
  expect(button('Scale').disabled).toBe(true);
});

it('an empty field stays empty when it loses the focus', () => {
  type(field, '');
  flushSync(() => {
    document.querySelector(field)?.dispatchEvent(new FocusEvent('focusout', { bubbles: true }));
  });
  expect(valueOf()).toBe('');
  expect(button('Scale').disabled).toBe(true);
});

it('fewer nodes need a confirmation', () => {
  type(field, '1');
  press('Scale');
  expect(act).not.toHaveBeenCalled();
  expect(document.body.textContent).toContain('shrinks from 3 nodes to 1');
  press('Scale down');
  expect(act).toHaveBeenCalledOnce();
});
