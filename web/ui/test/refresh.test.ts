import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { collectMilliseconds, Refresh } from '../src/live/refresh';

describe('Refresh', () => {
  const act = vi.fn();

  beforeEach(() => {
    vi.useFakeTimers();
    act.mockReset();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('acts once for all changes in 250 ms', () => {
    const refresh = new Refresh(act);
    for (let count = 0; count < 100; count += 1) {
      refresh.changed();
    }
    vi.advanceTimersByTime(collectMilliseconds - 1);
    expect(act).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(act).toHaveBeenCalledOnce();
  });

  it('does not starve during constant changes', () => {
    const refresh = new Refresh(act);
    for (let elapsed = 0; elapsed < 10_000; elapsed += 10) {
      refresh.changed();
      vi.advanceTimersByTime(10);
    }
    expect(act).toHaveBeenCalledTimes(10_000 / collectMilliseconds);
  });

  it('waits for a refresh in progress', () => {
    let busy = true;
    const refresh = new Refresh(act, () => busy);
    refresh.changed();
    vi.advanceTimersByTime(collectMilliseconds * 4);
    expect(act).not.toHaveBeenCalled();
    busy = false;
    vi.advanceTimersByTime(collectMilliseconds);
    expect(act).toHaveBeenCalledOnce();
  });

  it('cancels a pending call when stopped', () => {
    const refresh = new Refresh(act);
    refresh.changed();
    refresh.stop();
    vi.advanceTimersByTime(collectMilliseconds * 2);
    expect(act).not.toHaveBeenCalled();
  });
});
