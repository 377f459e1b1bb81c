/** Time during which changes are collected for one call. */
export const collectMilliseconds = 250;
/** Time after which the refresh in progress is given up, if others wait for it. */
export const patienceMilliseconds = 30_000;

const waitsUntilGivenUp = patienceMilliseconds / collectMilliseconds;

/**
 * Combines many "something changed" notices into few calls of `act`. The first change starts a wait
 * of 250 ms, and all changes during the wait join it. (A wait that restarts with each change would
 * starve while hosts report progress.) While `busy` reports that an earlier refresh is in progress,
 * the next one waits: its response may have been written before the change. `giveUp` ends a refresh
 * for which the next one has waited too long.
 */
export class Refresh {
  readonly #act: () => void;
  readonly #busy: () => boolean;
  readonly #giveUp: () => void;
  #waits = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(act: () => void, busy: () => boolean = () => false, giveUp: () => void = () => undefined) {
    this.#act = act;
    this.#busy = busy;
    this.#giveUp = giveUp;
  }

  /** Records that something changed. */
  changed(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      if (!this.#busy()) {
        this.#waits = 0;
        this.#act();
        return;
      }
      this.#waits += 1;
      if (this.#waits % waitsUntilGivenUp === 0) {
        this.#giveUp();
      }
      this.changed();
    }, collectMilliseconds);
  }

  /** Cancels a pending call. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
