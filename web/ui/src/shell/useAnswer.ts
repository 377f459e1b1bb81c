import { useCallback, useEffect, useState } from 'react';

export type AnswerState<T> = {
  /** The last response; undefined until the first one. */
  answer: T | undefined;
  /** The error of the last attempt; undefined if it succeeded. */
  error: Error | undefined;
  /** Sends the request again immediately. */
  refetch: () => void;
};

/**
 * Sends a request immediately and repeats it. `wait` gets the response (undefined if there was
 * none) and returns the pause in milliseconds before the next request; undefined ends the
 * repetition. A failed attempt keeps the last response. Both functions should be stable between
 * renderings: another `load` starts over.
 */
export const useAnswer = <T>(
  load: (signal: AbortSignal) => Promise<T>,
  wait: (answer: T | undefined) => number | undefined,
): AnswerState<T> => {
  const [state, setState] = useState<{ of?: typeof load; answer?: T | undefined; error?: Error | undefined }>({});
  const [round, setRound] = useState(0);
  useEffect(() => {
    const left = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const attempt = async () => {
      let latest: T | undefined;
      try {
        latest = await load(left.signal);
        if (!left.signal.aborted) {
          setState({ of: load, answer: latest });
        }
      } catch (thrown) {
        const error = thrown instanceof Error ? thrown : new Error(String(thrown));
        if (!left.signal.aborted) {
          setState((last) => ({ of: load, answer: last.of === load ? last.answer : undefined, error }));
        }
      }
      const pause = wait(latest);
      if (!left.signal.aborted && pause !== undefined) {
        timer = setTimeout(() => void attempt(), pause);
      }
    };
    void attempt();
    return () => {
      left.abort();
      clearTimeout(timer);
    };
  }, [load, wait, round]);
  const refetch = useCallback(() => {
    setRound((last) => last + 1);
  }, []);
  const current = state.of === load;
  return {
    answer: current ? state.answer : undefined,
    error: current ? state.error : undefined,
    refetch,
  };
};
