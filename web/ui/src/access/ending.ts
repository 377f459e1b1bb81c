const listeners = new Set<() => void>();

/**
 * Calls `listener` when a response shows that the session may have ended, until the returned
 * function is called.
 */
export const onSessionEnd = (listener: () => void): (() => void) => {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
};

/** Paths whose 401 says that the given credentials are wrong. */
const logins = ['/api/landfall/v1/login', '/api/landfall/v1/setup', '/api/landfall/v1/whoami'];

/** Whether a response shows that the session of a page at `origin` may have ended. */
export const endsSession = (origin: string, url: string, status: number): boolean => {
  if (status !== 401) {
    return false;
  }
  const asked = new URL(url, origin);
  return asked.origin === origin && !logins.includes(asked.pathname);
};

/** Observes all responses to the page, of fetch and of XMLHttpRequest, which the library uses. */
export const observeSession = (window: Window & typeof globalThis): void => {
  const report = (url: string, status: number) => {
    if (endsSession(window.location.origin, url, status)) {
      listeners.forEach((listener) => {
        listener();
      });
    }
  };
  const fetch = window.fetch.bind(window);
  window.fetch = async (...request) => {
    const response = await fetch(...request);
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
  };
};
