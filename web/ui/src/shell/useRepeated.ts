import { useEffect, useState } from 'react';

/**
 * Asks at once and then every `milliseconds`, each time after the answer, for as long as `again` says so. A failed
 * attempt keeps the last answer and is tried again.
 */
export const useRepeated = <T>(
  ask: (signal: AbortSignal) => Promise<T>,
  again: (answer: T | undefined) => boolean,
  milliseconds: number,
): T | undefined => {
  const [answer, setAnswer] = useState<T>();
  useEffect(() => {
    const left = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const round = async () => {
      let latest: T | undefined;
      try {
        latest = await ask(left.signal);
        setAnswer(latest);
      } catch {
        latest = undefined;
      }
      if (!left.signal.aborted && again(latest)) {
        timer = setTimeout(() => void round(), milliseconds);
      }
    };
    void round();
    return () => {
      left.abort();
      clearTimeout(timer);
    };
  }, [ask, again, milliseconds]);
  return answer;
};
