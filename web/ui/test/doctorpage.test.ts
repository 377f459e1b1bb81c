// @vitest-environment jsdom
import { createElement } from 'react';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import DoctorPage from '../src/doctor/DoctorPage';
import { button, press, show } from './screen';

let checks: (() => void)[];
let close: () => void;

beforeEach(() => {
  checks = [];
  vi.stubGlobal('fetch', (path: string) => {
    if (!path.includes('/doctor')) {
      return Promise.resolve(Response.json({ clusters: ['edge-10', 'edge-9'].map((name) => ({ id: name, name })) }));
    }
    return new Promise((resolve) => {
      checks.push(() => {
        resolve(Response.json({ at: '2026-01-01T00:00:00Z', verdict: 'green', findings: [] }));
      });
    });
  });
  close = show(createElement(DoctorPage));
});
afterEach(() => {
  close();
  vi.unstubAllGlobals();
});

const status = () => document.querySelector('[role=status]')?.textContent;
const isOver = () =>
  vi.waitFor(() => {
    expect(status()).toBe('');
    expect(button('Check again').ariaDisabled).not.toBe('true');
  });

it('the page says that a check runs, and runs one at a time', async () => {
  await vi.waitFor(() => {
    expect(status()).toContain('Checking the site.');
  });
  checks[0]?.();
  await isOver();
  press('Check again');
  await vi.waitFor(() => {
    expect(status()).toContain('Checking the site.');
  });
  press('Check again');
  expect(checks).toHaveLength(2);
  checks[1]?.();
  await isOver();
  expect(checks).toHaveLength(2);
});

it('a check without a cluster is not called one of all clusters', async () => {
  await vi.waitFor(() => {
    expect([...document.querySelectorAll('option')].map(({ text }) => text)).toEqual([
      'The site, without a cluster',
      'Cluster edge-9',
      'Cluster edge-10',
    ]);
  });
});
