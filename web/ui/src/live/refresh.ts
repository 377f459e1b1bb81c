/** How long changes are collected before they are asked for together. */
export const collectMilliseconds = 250;

/**
 * Turns a stream of "something changed" into few calls of `act`: the first change starts a wait of 250 ms, all that
 * come meanwhile join it. (A wait that began anew with each change would starve while hosts report progress.) While
 * `busy` says that an earlier refresh is under way, the next one waits for it, so that no change is lost to an answer
 * that was already being written when the change came.
 */
export class Refresh {
  readonly #act: () => void;
  readonly #busy: () => boolean;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(act: () => void, busy: () => boolean = () => false) {
    this.#act = act;
    this.#busy = busy;
  }

  /** Notes that something changed. */
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

  /** Forgets what was waiting. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
