const listeners = new Set<() => void>();

/**
 * Calls `listener` when a response shows that the session has ended, until the returned function is
 * called.
 */
export const onSessionEnd = (listener: () => void): (() => void) => {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
};

/** Paths whose 401 says that the given credentials are wrong. */
const logins = ['/api/landfall/v1/login', '/api/landfall/v1/setup', '/api/landfall/v1/whoami'];

/**
 * Observes all responses to the page, of fetch and of XMLHttpRequest, which the library uses. A 401
 * means that the session has ended.
 */
export const observeSession = (window: Window & typeof globalThis): void => {
  const report = (url: string, status: number) => {
    const { origin, pathname } = new URL(url, window.location.href);
    if (status === 401 && origin === window.location.origin && !logins.includes(pathname)) {
      listeners.forEach((listener) => {
        listener();
      });
    }
  };
  const { fetch } = window;
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
