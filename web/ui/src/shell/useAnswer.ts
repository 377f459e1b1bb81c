import { useCallback, useEffect, useRef, useState } from 'react';
import { GivenUp, limitMilliseconds, Patience } from './patience';

export type AnswerState<T> = {
  /** The last response; undefined until the first one. */
  answer: T | undefined;
  /** The error of the last attempt; undefined if it succeeded. */
  error: Error | undefined;
  /**
   * Sends the request again: immediately, or after the one that is running. If it aborted that one,
   * the page would have no answer while changes are more frequent than answers.
   */
  refetch: () => void;
};

/**
 * Sends a request immediately and repeats it. `wait` gets the response (undefined if there was
 * none) and returns the pause in milliseconds before the next request; undefined ends the
 * repetition. While the page is hidden, the next request waits until the page is visible. A failed
 * attempt keeps the last response. A request that is not answered within `limit` milliseconds is
 * given up and sent again. Both functions should be stable between renderings: another `load`
 * starts over.
 */
export const useAnswer = <T>(
  load: (signal: AbortSignal) => Promise<T>,
  wait: (answer: T | undefined) => number | undefined,
  limit = limitMilliseconds,
): AnswerState<T> => {
  const [state, setState] = useState<{ of?: typeof load; answer?: T | undefined; error?: Error | undefined }>({});
  const again = useRef<() => void>(() => undefined);
  useEffect(() => {
    const left = new AbortController();
    const patience = new Patience(limit);
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isRunning = false;
    let isDue = false;
    let wanted = 0;
    const attempt = async () => {
      let latest: T | undefined;
      let isGivenUp = false;
      isRunning = true;
      isDue = false;
      const asked = wanted;
      try {
        latest = await patience.send(load, left.signal);
        if (!left.signal.aborted) {
          setState({ of: load, answer: latest });
        }
      } catch (thrown) {
        const error = thrown instanceof Error ? thrown : new Error(String(thrown));
        isGivenUp = error instanceof GivenUp;
        if (!left.signal.aborted) {
          setState((last) => ({ of: load, answer: last.of === load ? last.answer : undefined, error }));
        }
      }
      isRunning = false;
      const pause = wanted > asked || isGivenUp ? 0 : wait(latest);
      if (!left.signal.aborted && pause !== undefined) {
        timer = setTimeout(() => {
          isDue = true;
          attemptIfVisible();
        }, pause);
      }
    };
    const attemptIfVisible = () => {
      if (isDue && document.visibilityState !== 'hidden') {
        void attempt();
      }
    };
    again.current = () => {
      wanted += 1;
      if (!isRunning) {
        clearTimeout(timer);
        void attempt();
      }
    };
    void attempt();
    document.addEventListener('visibilitychange', attemptIfVisible);
    return () => {
      left.abort();
      document.removeEventListener('visibilitychange', attemptIfVisible);
      clearTimeout(timer);
    };
  }, [load, wait, limit]);
  const refetch = useCallback(() => {
    again.current();
  }, []);
  const current = state.of === load;
  return {
    answer: current ? state.answer : undefined,
    error: current ? state.error : undefined,
    refetch,
  };
};
