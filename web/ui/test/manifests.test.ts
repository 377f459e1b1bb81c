// @vitest-environment jsdom
import { createElement } from 'react';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Manifests } from '../src/clusters/Review';
import { show } from './screen';

let close: () => void;
beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  close();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

it('the review says that it could not read the manifests, and reads them again', async () => {
  const answers = [
    Response.json({ reason: 'The appliance is starting.' }, { status: 503 }),
    Response.json([{ folder: 'manifests', file_name: 'chrony.yaml' }]),
  ];
  const fetch = vi.fn(() => Promise.resolve(answers.shift()));
  vi.stubGlobal('fetch', fetch);
  close = show(createElement(Manifests, { id: 'c' }));
  await vi.advanceTimersByTimeAsync(0);
  await vi.waitFor(() => {
    expect(document.body.textContent).toContain('The appliance is starting.');
  });
  await vi.advanceTimersByTimeAsync(3_000);
  await vi.waitFor(() => {
    expect(document.body.textContent).toContain('manifests/chrony.yaml');
  });
  expect(document.body.textContent).not.toContain('The appliance is starting.');
  await vi.advanceTimersByTimeAsync(60_000);
  expect(fetch).toHaveBeenCalledTimes(2);
});
