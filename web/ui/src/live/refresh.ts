/** Time during which changes are collected for one call. */
export const collectMilliseconds = 250;

/**
 * Combines many "something changed" notices into few calls of `act`. The first change starts a wait
 * of 250 ms, and all changes during the wait join it. (A wait that restarts with each change would
 * starve while hosts report progress.) While `busy` reports that an earlier refresh is in progress,
 * the next one waits: its response may have been written before the change.
 */
export class Refresh {
  readonly #act: () => void;
  readonly #busy: () => boolean;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(act: () => void, busy: () => boolean = () => false) {
    this.#act = act;
    this.#busy = busy;
  }

  /** Records that something changed. */
  changed(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      if (this.#busy()) {
        this.changed();
      } else {
        this.#act();
      }
    }, collectMilliseconds);
  }

  /** Cancels a pending call. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
