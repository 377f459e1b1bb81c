import { describe, expect, it, vi } from 'vitest';
import { endsSession, observeSession, onSessionEnd } from '../src/access/ending';

const origin = 'https://site.test:8090';

describe('endsSession', () => {
  it.each([
    ['a read without a session', '/api/assisted-install/v2/clusters', 401, true],
    ['an absolute URL of the appliance', `${origin}/api/landfall/v1/status?a=b`, 401, true],
    ['a wrong password', '/api/landfall/v1/login', 401, false],
    ['a wrong setup code', '/api/landfall/v1/setup', 401, false],
    ['the question who calls', '/api/landfall/v1/whoami', 401, false],
    ['a role that is too small', '/api/landfall/v1/users', 403, false],
    ['another server', 'https://mirror.site.test/v2/', 401, false],
    ['a success', '/api/landfall/v1/status', 200, false],
  ])('%s', (_case, url, status, ends) => {
    expect(endsSession(origin, url, status)).toBe(ends);
  });
});

describe('observeSession', () => {
  const page = (status: number) => {
    const fetch = (url: string) => Promise.resolve({ url: `${origin}${url}`, status });
    class XMLHttpRequest extends EventTarget {
      responseURL = `${origin}/api/assisted-install/v2/clusters`;
      status = status;
    }
    const window = { location: { origin }, fetch, XMLHttpRequest } as unknown as Window & typeof globalThis;
    observeSession(window);
    return window;
  };

  it('reports a 401 to fetch, and returns the response', async () => {
    const listener = vi.fn();
    const leave = onSessionEnd(listener);
    const { status } = await page(401).fetch('/api/landfall/v1/status');
    expect(status).toBe(401);
    expect(listener).toHaveBeenCalledTimes(1);
    leave();
    await page(401).fetch('/api/landfall/v1/status');
    expect(listener).toHaveBeenCalledTimes(1);
  });

  it('reports a 401 to an XMLHttpRequest', () => {
    const listener = vi.fn();
    const leave = onSessionEnd(listener);
    new (page(200).XMLHttpRequest)().dispatchEvent(new Event('load'));
    expect(listener).not.toHaveBeenCalled();
    new (page(401).XMLHttpRequest)().dispatchEvent(new Event('load'));
    expect(listener).toHaveBeenCalledTimes(1);
    leave();
  });
});
