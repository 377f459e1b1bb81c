// @vitest-environment jsdom
import { act, createElement } from 'react';
import { createRoot } from 'react-dom/client';
import { afterEach, expect, it, vi } from 'vitest';
import { pauseMilliseconds, useRehearsal } from '../src/clusters/useRehearsal';

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

it('a rehearsal that the appliance has forgotten ends, one that it cannot report now continues', async () => {
  vi.useFakeTimers();
  vi.stubGlobal('IS_REACT_ACT_ENVIRONMENT', true);
  const running = { id: 'r', state: 'running', passed: false, steps: [] };
  const answers = [
    Response.json(running),
    Response.json({ reason: 'starting' }, { status: 503 }),
    Response.json(running),
    Response.json({ reason: 'There is no rehearsal r.' }, { status: 404 }),
  ];
  const send = vi.fn(() => Promise.resolve(answers.shift() ?? Response.error()));
  vi.stubGlobal('fetch', send);
  let state: ReturnType<typeof useRehearsal> | undefined;
  const Page = () => {
    state = useRehearsal('c');
    return null;
  };
  const root = createRoot(document.createElement('div'));
  act(() => {
    root.render(createElement(Page));
  });
  await act(() => state?.start());
  const seen = [];
  for (let i = 0; i < 5; i++) {
    await act(() => vi.advanceTimersByTimeAsync(pauseMilliseconds));
    seen.push([state?.runs, state?.failure]);
  }
  expect(seen).toEqual([
    [true, 'Starting.'],
    [true, ''],
    [false, 'There is no rehearsal r.'],
    [false, 'There is no rehearsal r.'],
    [false, 'There is no rehearsal r.'],
  ]);
  expect(send).toHaveBeenCalledTimes(4);
  act(() => {
    root.unmount();
  });
});
