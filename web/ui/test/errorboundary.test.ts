// @vitest-environment jsdom
import { Suspense, createElement, type ComponentType } from 'react';
import { flushSync } from 'react-dom';
import { createRoot } from 'react-dom/client';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { ErrorBoundary } from '../src/shell/ErrorBoundary';
import { lazyAgain } from '../src/shell/lazyAgain';
import { button } from './screen';

beforeEach(() => {
  vi.useFakeTimers();
  // React reports what a boundary catches.
  vi.spyOn(console, 'error').mockReturnValue(undefined);
});
afterEach(() => {
  document.body.replaceChildren();
  vi.useRealTimers();
  vi.restoreAllMocks();
});

const Loaded: ComponentType = () => 'The hosts';
const text = () => document.body.textContent;

/** Returns what opens a page: one that `load` imports, or one that needs no import. */
const openWith = (load: () => Promise<{ default: ComponentType }>) => {
  const Page = lazyAgain(load);
  const root = createRoot(document.body.appendChild(document.createElement('div')));
  return (pathname: string) => {
    flushSync(() => {
      root.render(
        createElement(ErrorBoundary, {
          pathname,
          children: createElement(
            Suspense,
            { fallback: 'Loading' },
            pathname === '/hosts' ? createElement(Page) : 'The servers',
          ),
        }),
      );
    });
  };
};

it('a page is loaded although its first import fails', async () => {
  const load = vi.fn(() => Promise.resolve({ default: Loaded }));
  load.mockRejectedValueOnce(new TypeError('Failed to fetch dynamically imported module'));
  openWith(load)('/hosts');
  await vi.advanceTimersByTimeAsync(0);
  expect(text()).toBe('Loading');
  await vi.advanceTimersByTimeAsync(5_000);
  await vi.waitFor(() => {
    expect(text()).toBe('The hosts');
  });
  expect(load).toHaveBeenCalledTimes(2);
});

it('a page that does not load offers to reload, and the other pages still open', async () => {
  const open = openWith(() => Promise.reject(new TypeError('Failed to fetch dynamically imported module')));
  open('/hosts');
  await vi.advanceTimersByTimeAsync(10_000);
  await vi.waitFor(() => {
    expect(text()).toContain('This page cannot be shown');
  });
  expect(button('Reload the page').disabled).toBe(false);
  open('/servers');
  expect(text()).toBe('The servers');
});
