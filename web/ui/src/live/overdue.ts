import { Limit } from '../shell/patience';

/** Gives up the requests of another owner when they take too long, each with its own timer. */
export class Overdue {
  readonly #giveUp: () => void;
  readonly #limit = new Limit();
  #running: { of: string; began: number; timer: ReturnType<typeof setTimeout> } | undefined;

  constructor(giveUp: () => void) {
    this.#giveUp = giveUp;
  }

  /** Records the object for which a request runs; undefined if none runs. */
  follow(of: string | undefined): void {
    const former = this.#running;
    if (former?.of === of) {
      return;
    }
    if (former && of === undefined) {
      this.#limit.answered(Date.now() - former.began);
    }
    this.stop();
    if (of !== undefined) {
      const timer = setTimeout(() => {
        this.#running = undefined;
        this.#limit.exceeded();
        this.#giveUp();
      }, this.#limit.milliseconds);
      this.#running = { of, began: Date.now(), timer };
    }
  }

  /** Ends the wait for the request that runs. */
  stop(): void {
    clearTimeout(this.#running?.timer);
    this.#running = undefined;
  }
}
