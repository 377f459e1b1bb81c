// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { rememberPlace, returnToPlace } from '../src/access/returning';

const show = (path: string) => {
  window.history.replaceState(null, '', path);
};
const shown = () => window.location.pathname + window.location.search;

describe('returnToPlace', () => {
  beforeEach(() => {
    vi.useFakeTimers();
    show('/access?tab=audit');
    rememberPlace(window);
  });
  afterEach(() => {
    vi.useRealTimers();
    window.sessionStorage.clear();
  });

  it('shows the place that the person left', () => {
    show('/');
    returnToPlace(window);
    expect(shown()).toBe('/access?tab=audit');
  });

  it('once', () => {
    show('/');
    returnToPlace(window);
    show('/');
    returnToPlace(window);
    expect(shown()).toBe('/');
  });

  it('keeps another page', () => {
    show('/mirror');
    returnToPlace(window);
    expect(shown()).toBe('/mirror');
  });

  it('forgets the place after the time for a login', () => {
    vi.advanceTimersByTime(15 * 60_000);
    show('/');
    returnToPlace(window);
    expect(shown()).toBe('/');
  });
});
