import { ApplianceError } from './request';

/** The first limit for the answer of a request, in milliseconds. */
export const limitMilliseconds = 30_000;

/** A request that was given up, because it was not answered within its limit. */
export class GivenUp extends ApplianceError {
  constructor() {
    super(0, 'The appliance does not respond.');
    this.name = 'GivenUp';
  }
}

/**
 * Gives a request up when it takes too long: a proxy or a switch can forget a connection, and the
 * browser then waits for ever. Each request that was given up doubles the limit, so that the answer
 * arrives at last on a slow link.
 */
export class Patience {
  #limit: number;

  constructor(limit = limitMilliseconds) {
    this.#limit = limit;
  }

  /** Sends a request until `left` aborts. It throws `GivenUp` after the limit. */
  send<T>(load: (signal: AbortSignal) => Promise<T>, left: AbortSignal): Promise<T> {
    return new Promise((resolve, reject) => {
      const attempt = new AbortController();
      const end = (error: Error) => {
        attempt.abort(error);
        reject(error);
      };
      const leave = () => {
        end(left.reason as Error);
      };
      const timer = setTimeout(() => {
        this.#limit *= 2;
        end(new GivenUp());
      }, this.#limit);
      left.addEventListener('abort', leave);
      load(attempt.signal)
        .then(resolve, reject)
        .finally(() => {
          clearTimeout(timer);
          left.removeEventListener('abort', leave);
        });
    });
  }
}
