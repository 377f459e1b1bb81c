// @vitest-environment jsdom
import { createElement } from 'react';
import { flushSync } from 'react-dom';
import { createRoot } from 'react-dom/client';
import { afterEach, expect, it, vi } from 'vitest';
import { announceSession } from '../src/access/ending';
import { ApplianceError } from '../src/shell/request';
import { limitMilliseconds } from '../src/shell/patience';
import { useAnswer, type AnswerState } from '../src/shell/useAnswer';

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

it('an answer arrives although changes are more frequent than answers', async () => {
  const answers: ((text: string) => void)[] = [];
  const load = vi.fn(
    (signal: AbortSignal) =>
      new Promise<string>((resolve, reject) => {
        answers.push(resolve);
        signal.addEventListener('abort', () => {
          reject(new Error('aborted'));
        });
      }),
  );
  const never = () => undefined;
  let state: AnswerState<string> | undefined;
  const Page = () => {
    state = useAnswer(load, never);
    return null;
  };
  const root = createRoot(document.createElement('div'));
  flushSync(() => {
    root.render(createElement(Page));
  });
  await vi.waitFor(() => {
    expect(load).toHaveBeenCalledTimes(1);
  });
  state?.refetch();
  state?.refetch();
  expect(load).toHaveBeenCalledTimes(1);
  answers[0]?.('first');
  await vi.waitFor(() => {
    expect(state?.answer).toBe('first');
    expect(load).toHaveBeenCalledTimes(2);
  });
  answers[1]?.('second');
  await vi.waitFor(() => {
    expect(state?.answer).toBe('second');
  });
  expect(load).toHaveBeenCalledTimes(2);
  state?.refetch();
  expect(load).toHaveBeenCalledTimes(3);
  root.unmount();
});

it('a request that hangs is given up and sent again, with a longer limit', async () => {
  vi.useFakeTimers();
  const signals: AbortSignal[] = [];
  const answers: ((text: string) => void)[] = [];
  const load = vi.fn((signal: AbortSignal) => {
    signals.push(signal);
    return new Promise<string>((resolve) => {
      answers.push(resolve);
    });
  });
  const once = () => undefined;
  let state: AnswerState<string> | undefined;
  const Page = () => {
    state = useAnswer(load, once);
    return null;
  };
  const root = createRoot(document.createElement('div'));
  flushSync(() => {
    root.render(createElement(Page));
  });
  await vi.advanceTimersByTimeAsync(10);
  answers[0]?.('before');
  await vi.advanceTimersByTimeAsync(10);
  state?.refetch();
  state?.refetch();
  await vi.advanceTimersByTimeAsync(limitMilliseconds - 1);
  expect(load).toHaveBeenCalledTimes(2);
  await vi.advanceTimersByTimeAsync(10);
  expect(signals[1]?.aborted).toBe(true);
  await vi.waitFor(() => {
    expect(state).toMatchObject({ answer: 'before', error: { message: 'The appliance does not respond.' } });
  });
  expect(load).toHaveBeenCalledTimes(3);
  await vi.advanceTimersByTimeAsync(1.5 * limitMilliseconds);
  expect(signals[2]?.aborted).toBe(false);
  answers[2]?.('after');
  await vi.waitFor(() => {
    expect(state).toMatchObject({ answer: 'after', error: undefined });
  });
  await vi.advanceTimersByTimeAsync(2 * limitMilliseconds);
  expect(load).toHaveBeenCalledTimes(3);
  root.unmount();
});

it('a hidden page sends no request until it is visible', async () => {
  vi.useFakeTimers();
  const visibility = vi.spyOn(document, 'visibilityState', 'get');
  const show = (state: DocumentVisibilityState) => {
    visibility.mockReturnValue(state);
    document.dispatchEvent(new Event('visibilitychange'));
  };
  const load = vi.fn(() => Promise.resolve('answer'));
  const second = () => 1_000;
  const Page = () => {
    useAnswer(load, second);
    return null;
  };
  const root = createRoot(document.createElement('div'));
  flushSync(() => {
    root.render(createElement(Page));
  });
  await vi.advanceTimersByTimeAsync(2_500);
  expect(load).toHaveBeenCalledTimes(3);
  show('hidden');
  await vi.advanceTimersByTimeAsync(60_000);
  expect(load).toHaveBeenCalledTimes(3);
  show('visible');
  show('visible');
  await vi.advanceTimersByTimeAsync(0);
  expect(load).toHaveBeenCalledTimes(4);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(load).toHaveBeenCalledTimes(5);
  root.unmount();
  show('visible');
  await vi.advanceTimersByTimeAsync(5_000);
  expect(load).toHaveBeenCalledTimes(5);
});

it('a request without a session is sent again after the login, and is no error', async () => {
  vi.useFakeTimers();
  let hasSession = true;
  const load = vi.fn(() =>
    hasSession ? Promise.resolve('answer') : Promise.reject(new ApplianceError(401, 'The session has ended.')),
  );
  const second = () => 1_000;
  let state: AnswerState<string> | undefined;
  const Page = () => {
    state = useAnswer(load, second);
    return null;
  };
  const root = createRoot(document.createElement('div'));
  flushSync(() => {
    root.render(createElement(Page));
  });
  await vi.advanceTimersByTimeAsync(0);
  hasSession = false;
  await vi.advanceTimersByTimeAsync(3_000);
  expect(load).toHaveBeenCalledTimes(4);
  const isUnchanged = () => {
    expect(state).toMatchObject({ answer: 'answer', error: undefined });
  };
  await vi.waitFor(isUnchanged);
  hasSession = true;
  announceSession();
  await vi.advanceTimersByTimeAsync(0);
  expect(load).toHaveBeenCalledTimes(5);
  await vi.waitFor(isUnchanged);
  root.unmount();
});

it('a 401 that a login does not end is an error', async () => {
  const load = vi.fn(() => Promise.reject<string>(new ApplianceError(401, 'The registry refuses the password.')));
  const once = () => undefined;
  let state: AnswerState<string> | undefined;
  const Page = () => {
    state = useAnswer(load, once);
    return null;
  };
  const root = createRoot(document.createElement('div'));
  flushSync(() => {
    root.render(createElement(Page));
  });
  await vi.waitFor(() => {
    announceSession();
    expect(state?.error?.message).toBe('The registry refuses the password.');
  });
  announceSession();
  expect(load).toHaveBeenCalledTimes(2);
  root.unmount();
});
