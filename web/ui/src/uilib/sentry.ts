/**
 * Stands in for `@sentry/browser`, which the library imports: nothing that happens in the page is told to anyone
 * outside. What would have been reported goes to the browser's console.
 */
export const captureException = (error: unknown): void => {
  console.warn(error);
};

export const captureMessage = (message: string): void => {
  console.warn(message);
};

// The library's error handling reads the status of an unanswered request from the field that Sentry adds to requests,
// and itself fails where that is missing: the page would stay dead after a restart of the appliance.
Object.defineProperty(XMLHttpRequest.prototype, '__sentry_xhr__', {
  configurable: true,
  get(this: XMLHttpRequest) {
    return { status_code: this.status };
  },
});
