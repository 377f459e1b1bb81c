import type { Caller } from './api';

type Listener = () => void;

const listeners = new Set<Listener>();
const observers = new Set<(caller: Caller) => void>();
const waiting = new Set<Listener>();

/**
 * Calls `listener` when the session may have ended, until the returned function is called.
 */
export const onSessionEnd = (listener: Listener): Listener => {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
};

/** Makes the page ask the appliance whether the session has ended. */
export const suspectSessionEnd = (): void => {
  listeners.forEach((listener) => {
    listener();
  });
};

/**
 * Calls `observer` with the person of the session, when the page has reported activity, until the
 * returned function is called.
 */
export const onCaller = (observer: (caller: Caller) => void): Listener => {
  observers.add(observer);
  return () => {
    observers.delete(observer);
  };
};

/** Resolves when there is a session again, or when the signal aborts. */
export const untilSession = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const over = () => {
      waiting.delete(over);
      resolve();
    };
    waiting.add(over);
    signal.addEventListener('abort', over);
  });

/** Reports that there is a session. */
export const announceSession = (): void => {
  waiting.forEach((over) => {
    over();
  });
};

const whoami = '/api/landfall/v1/whoami';

/** Paths whose 401 says that the given credentials are wrong. */
const logins = ['/api/landfall/v1/login', '/api/landfall/v1/setup', whoami];

/** Whether a response shows that the session of a page at `origin` may have ended. */
export const endsSession = (origin: string, url: string, status: number): boolean => {
  if (status !== 401) {
    return false;
  }
  const asked = new URL(url, origin);
  return asked.origin === origin && !logins.includes(asked.pathname);
};

/** Requests with this header do not prolong the session. */
export const backgroundHeader = 'X-Landfall-Background';

/** The shortest time between two reports of activity, in milliseconds. */
export const activityPause = 10_000;

/** Events of a person's activity. */
const activities = ['pointerdown', 'keydown', 'wheel', 'touchstart', 'click', 'input'];

/**
 * Observes all responses to the page, of fetch and of XMLHttpRequest, which the library uses. Their
 * requests do not prolong the session, because many are not a person's action. Instead, the page
 * reports when a person uses it.
 */
export const observeSession = (window: Window & typeof globalThis): void => {
  const report = (url: string, status: number) => {
    if (endsSession(window.location.origin, url, status)) {
      suspectSessionEnd();
    }
  };
  const fetch = window.fetch.bind(window);
  window.fetch = async (input, init) => {
    const headers = new Headers(init?.headers ?? (input instanceof Request ? input.headers : undefined));
    headers.set(backgroundHeader, '1');
    const response = await fetch(input, { ...init, headers });
    report(response.url, response.status);
    return response;
  };
  window.XMLHttpRequest = class extends window.XMLHttpRequest {
    constructor() {
      super();
      this.addEventListener('load', () => {
        report(this.responseURL, this.status);
      });
    }

    override send(body?: XMLHttpRequestBodyInit | Document | null): void {
      this.setRequestHeader(backgroundHeader, '1');
      super.send(body);
    }
  };
  let reported = -Infinity;
  const reportActivity = async (event: Event) => {
    // Without a listener, there is no session to prolong.
    if (!event.isTrusted || listeners.size === 0 || event.timeStamp - reported < activityPause) {
      return;
    }
    reported = event.timeStamp;
    try {
      const response = await fetch(whoami);
      if (response.status === 401) {
        suspectSessionEnd();
      } else if (response.ok) {
        const caller = (await response.json()) as Caller;
        observers.forEach((observer) => {
          observer(caller);
        });
      }
    } catch {
      reported = -Infinity; // the appliance does not respond: the next event reports again
    }
  };
  for (const activity of activities) {
    window.addEventListener(activity, (event) => void reportActivity(event), { capture: true, passive: true });
  }
};
