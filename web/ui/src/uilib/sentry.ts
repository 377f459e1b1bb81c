/**
 * Replaces `@sentry/browser`, which the library imports: the page reports nothing to other sites.
 * Reports go to the browser's console.
 */
export const captureException = (error: unknown): void => {
  console.warn(error);
};

export const captureMessage = (message: string): void => {
  console.warn(message);
};

// The library's error handling reads the status of a request without a response from the field that
// Sentry adds to requests. It throws if the field is missing, and the page would stay broken after
// a restart of the appliance.
Object.defineProperty(XMLHttpRequest.prototype, '__sentry_xhr__', {
  configurable: true,
  get(this: XMLHttpRequest) {
    return { status_code: this.status };
  },
});
