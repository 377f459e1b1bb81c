import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { GivenUp, limitMilliseconds, Patience } from '../src/shell/patience';

const { signal } = new AbortController();

/** A request that is answered after this time. */
const answerAfter = (milliseconds: number) => () =>
  new Promise<string>((resolve) => {
    setTimeout(() => {
      resolve('answer');
    }, milliseconds);
  });

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

it.each([
  ['an answer in time restores the first limit', limitMilliseconds / 2, GivenUp],
  ['a slow answer keeps the longer limit', 1.5 * limitMilliseconds, undefined],
])('%s', async (_case, second, want) => {
  const patience = new Patience();
  const outcomes: unknown[] = [];
  for (const milliseconds of [1.5 * limitMilliseconds, second, 1.5 * limitMilliseconds]) {
    const sent = patience.send(answerAfter(milliseconds), signal).catch((error: unknown) => error);
    await vi.advanceTimersByTimeAsync(2 * limitMilliseconds);
    outcomes.push(await sent);
  }
  expect(outcomes[0]).toBeInstanceOf(GivenUp);
  expect(outcomes[1]).toBe('answer');
  if (want) {
    expect(outcomes[2]).toBeInstanceOf(want);
  } else {
    expect(outcomes[2]).toBe('answer');
  }
});
