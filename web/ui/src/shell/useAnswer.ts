import { useCallback, useEffect, useRef, useState } from 'react';
import { untilSession } from '../access/ending';
import { GivenUp, limitMilliseconds, Patience } from './patience';
import { ApplianceError } from './request';

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
 * given up and sent again. A request without a session is sent again after the next login: a dialog
 * asks for it, so it is no error of the page. Both functions should be stable between renderings:
 * another `load` starts over.
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
    let isWaiting = false;
    let isAfterLogin = false;
    const sendAfterLogin = async () => {
      if (isWaiting) {
        return;
      }
      isWaiting = true;
      await untilSession(left.signal);
      isWaiting = false;
      isAfterLogin = true;
      if (!left.signal.aborted) {
        again.current();
      }
    };
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
        isAfterLogin = false;
      } catch (thrown) {
        const error = thrown instanceof Error ? thrown : new Error(String(thrown));
        isGivenUp = error instanceof GivenUp;
        const isRefused = error instanceof ApplianceError && error.status === 401;
        // A 401 that a login has not mended is not about the session.
        if (isRefused && !isAfterLogin) {
          void sendAfterLogin();
        } else if (!left.signal.aborted) {
          isAfterLogin = isRefused;
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
