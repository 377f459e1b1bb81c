import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Overdue } from '../src/live/overdue';
import { limitMilliseconds } from '../src/shell/patience';

describe('Overdue', () => {
  const giveUp = vi.fn();
  let overdue: Overdue;
  /** Ends the request, and begins the next one. */
  const next = () => {
    overdue.follow(undefined);
    overdue.follow('berlin');
  };

  beforeEach(() => {
    vi.useFakeTimers();
    giveUp.mockReset();
    overdue = new Overdue(giveUp);
    overdue.follow('berlin');
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('gives up a request that hangs, without a change', () => {
    vi.advanceTimersByTime(limitMilliseconds - 1);
    overdue.follow('berlin');
    expect(giveUp).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(giveUp).toHaveBeenCalledOnce();
  });

  it('waits longer each time, so that a slow link has an answer at last', () => {
    vi.advanceTimersByTime(limitMilliseconds);
    next();
    vi.advanceTimersByTime(2 * limitMilliseconds - 1);
    expect(giveUp).toHaveBeenCalledOnce();
    next(); // a slow answer keeps the limit
    vi.advanceTimersByTime(2 * limitMilliseconds - 1);
    expect(giveUp).toHaveBeenCalledOnce();
  });

  it('has the first limit again after an answer in time', () => {
    vi.advanceTimersByTime(limitMilliseconds);
    next();
    vi.advanceTimersByTime(limitMilliseconds - 1);
    next();
    vi.advanceTimersByTime(limitMilliseconds);
    expect(giveUp).toHaveBeenCalledTimes(2);
  });

  it.each([
    ['an answered request', undefined],
    ['the request of the page before', 'paris'],
  ])('does not give up %s', (_case, of) => {
    vi.advanceTimersByTime(limitMilliseconds - 1);
    overdue.follow(of);
    vi.advanceTimersByTime(1);
    expect(giveUp).not.toHaveBeenCalled();
  });
});
