import { useCallback, useEffect, useState } from 'react';

export type Asked<T> = {
  /** The last response; undefined until the first one. */
  answer: T | undefined;
  /** The error of the last attempt; undefined if it succeeded. */
  error: Error | undefined;
  /** Sends the request again at once. */
  askAgain: () => void;
};

/**
 * Sends a request at once and repeats it. `wait` returns the pause in milliseconds for a response
 * (undefined if there was none); undefined ends the repetition. A failed attempt keeps the last
 * response. Both functions should be stable between renderings: another `ask` starts over.
 */
export const useAnswer = <T>(
  ask: (signal: AbortSignal) => Promise<T>,
  wait: (answer: T | undefined) => number | undefined,
): Asked<T> => {
  const [state, setState] = useState<{ of?: typeof ask; answer?: T | undefined; error?: Error | undefined }>({});
  const [round, setRound] = useState(0);
  useEffect(() => {
    const left = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const attempt = async () => {
      let latest: T | undefined;
      try {
        latest = await ask(left.signal);
        if (!left.signal.aborted) {
          setState({ of: ask, answer: latest });
        }
      } catch (thrown) {
        const error = thrown instanceof Error ? thrown : new Error(String(thrown));
        if (!left.signal.aborted) {
          setState((last) => ({ of: ask, answer: last.of === ask ? last.answer : undefined, error }));
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
  }, [ask, wait, round]);
  const askAgain = useCallback(() => {
    setRound((last) => last + 1);
  }, []);
  const current = state.of === ask;
  return {
    answer: current ? state.answer : undefined,
    error: current ? state.error : undefined,
    askAgain,
  };
};
