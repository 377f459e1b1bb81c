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
 * The limit for the answer of a request that is repeated. Each request that was given up doubles
 * it, so that the answer arrives at last on a slow link. An answer within the first limit restores
 * that limit: the connection was broken, not slow.
 */
export class Limit {
  readonly #first: number;
  #now: number;

  constructor(first = limitMilliseconds) {
    this.#first = first;
    this.#now = first;
  }

  get milliseconds(): number {
    return this.#now;
  }

  /** Records that a request was given up. */
  exceeded(): void {
    this.#now *= 2;
  }

  /** Records the milliseconds until an answer. */
  answered(after: number): void {
    if (after < this.#first) {
      this.#now = this.#first;
    }
  }
}

/**
 * Gives a request up when it takes too long: a proxy or a switch can forget a connection, and the
 * browser then waits for ever.
 */
export class Patience {
  readonly #limit: Limit;

  constructor(first = limitMilliseconds) {
    this.#limit = new Limit(first);
  }

  /** Sends a request until `left` aborts. It throws `GivenUp` after the limit. */
  send<T>(load: (signal: AbortSignal) => Promise<T>, left: AbortSignal): Promise<T> {
    return new Promise((resolve, reject) => {
      const attempt = new AbortController();
      const began = Date.now();
      const end = (error: Error) => {
        attempt.abort(error);
        reject(error);
      };
      const leave = () => {
        end(left.reason as Error);
      };
      const timer = setTimeout(() => {
        this.#limit.exceeded();
        end(new GivenUp());
      }, this.#limit.milliseconds);
      left.addEventListener('abort', leave);
      load(attempt.signal)
        .then((answer) => {
          this.#limit.answered(Date.now() - began);
          resolve(answer);
        }, reject)
        .finally(() => {
          clearTimeout(timer);
          left.removeEventListener('abort', leave);
        });
    });
  }
}
