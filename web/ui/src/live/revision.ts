/** The header with a revision of a fleet: docs/fleet.md#what-each-member-answers-itself. */
export const revisionHeader = 'Landfall-Revision';

let newest = 0;

/** Notes a revision that the page has seen. */
export const noteRevision = (revision: number): void => {
  if (Number.isSafeInteger(revision) && revision > newest) {
    newest = revision;
  }
};

/**
 * Sends the newest revision that the page has seen with each request to the appliance, of fetch and
 * of XMLHttpRequest, which the library uses. Behind a load balancer, the next request may be for
 * another member of the fleet, which then waits until its copy has that revision. A single
 * appliance sends no revisions with its responses, and ignores those of requests.
 */
export const followRevisions = (window: Window & typeof globalThis): void => {
  const isOwn = (url: string) => new URL(url, window.location.origin).origin === window.location.origin;
  const fetch = window.fetch.bind(window);
  window.fetch = async (input, init) => {
    const url = input instanceof Request ? input.url : String(input);
    if (!isOwn(url)) {
      return fetch(input, init);
    }
    const headers = new Headers(init?.headers ?? (input instanceof Request ? input.headers : undefined));
    if (newest > 0) {
      headers.set(revisionHeader, String(newest));
    }
    const response = await fetch(input, { ...init, headers });
    noteRevision(Number(response.headers.get(revisionHeader)));
    return response;
  };
  window.XMLHttpRequest = class extends window.XMLHttpRequest {
    #isOwn = false;

    constructor() {
      super();
      this.addEventListener('load', () => {
        if (this.#isOwn) {
          noteRevision(Number(this.getResponseHeader(revisionHeader)));
        }
      });
    }

    override open(method: string, url: string | URL, ...rest: unknown[]): void {
      this.#isOwn = isOwn(String(url));
      super.open(method, url, ...(rest as [boolean]));
    }

    override send(body?: XMLHttpRequestBodyInit | Document | null): void {
      if (this.#isOwn && newest > 0) {
        this.setRequestHeader(revisionHeader, String(newest));
      }
      super.send(body);
    }
  };
};
