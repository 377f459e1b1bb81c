import { describe, expect, it, vi } from 'vitest';
import {
  activityPause,
  announceSession,
  backgroundHeader,
  endsSession,
  observeSession,
  onCaller,
  onSessionEnd,
  untilSession,
} from '../src/access/ending';

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
  let sent: [string, string | null][];
  let press: (timeStamp: number, isTrusted?: boolean) => void;
  const page = (status: number) => {
    sent = [];
    const fetch = (url: string, init?: RequestInit) => {
      sent.push([url, new Headers(init?.headers).get(backgroundHeader)]);
      return Promise.resolve({ url: `${origin}${url}`, status, ok: status === 200, json: () => ({ name: 'anna' }) });
    };
    class XMLHttpRequest extends EventTarget {
      responseURL = `${origin}/api/assisted-install/v2/clusters`;
      status = status;
      setRequestHeader = (name: string, value: string) => sent.push([name, value]);
      send() {
        sent.push(['sent', null]);
      }
    }
    const addEventListener = (type: string, listener: (event: object) => void) => {
      if (type === 'keydown') {
        press = (timeStamp, isTrusted = true) => {
          listener({ timeStamp, isTrusted });
        };
      }
    };
    const parts = { location: { origin }, fetch, XMLHttpRequest, addEventListener };
    const window = parts as unknown as Window & typeof globalThis;
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

  it('marks requests, because they are not a use of the session', async () => {
    const window = page(200);
    await window.fetch('/api/landfall/v1/status', { headers: { Accept: 'application/json' } });
    new window.XMLHttpRequest().send();
    expect(sent).toEqual([
      ['/api/landfall/v1/status', '1'],
      [backgroundHeader, '1'],
      ['sent', null],
    ]);
  });

  it("reports a person's activity, but not too often", async () => {
    const listener = vi.fn();
    page(200);
    press(0);
    expect(sent, 'without a session').toEqual([]);
    const leave = onSessionEnd(listener);
    press(1, false);
    expect(sent, 'of a script').toEqual([]);
    press(2);
    press(1 + activityPause);
    press(2 + activityPause);
    expect(sent).toEqual(Array(2).fill(['/api/landfall/v1/whoami', null]));
    expect(listener).not.toHaveBeenCalled();
    page(401);
    press(0);
    await vi.waitFor(() => {
      expect(listener).toHaveBeenCalledTimes(1);
    });
    leave();
  });

  it('tells whose session it is after a report', async () => {
    const observer = vi.fn();
    const leaves = [onCaller(observer), onSessionEnd(vi.fn())];
    page(200);
    press(0);
    await vi.waitFor(() => {
      expect(observer.mock.calls).toEqual([[{ name: 'anna' }]]);
    });
    for (const leave of leaves) {
      leave();
    }
  });
});

describe('untilSession', () => {
  it('waits for a session or the signal', async () => {
    const stop = new AbortController();
    const both = Promise.all([untilSession(stop.signal), untilSession(new AbortController().signal)]);
    stop.abort();
    announceSession();
    await both;
  });
});
