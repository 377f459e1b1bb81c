import { useCallback, useState } from 'react';

const kept = new Map<string, unknown>();

/**
 * An input that stays when a person opens another page and comes back. `begin` gets the input that
 * was left, if any. It is only in memory, because it may hold secrets: a logout or a new load of
 * the page forgets it, and nothing remains in the browser's storage.
 */
export const useKept = <T>(
  key: string,
  begin: (left: T | undefined) => T,
): { value: T; keep: (value: T) => void; forget: () => void } => {
  const [value, setValue] = useState<T>(() => begin(kept.get(key) as T | undefined));
  const keep = useCallback(
    (next: T) => {
      kept.set(key, next);
      setValue(next);
    },
    [key],
  );
  const forget = useCallback(() => {
    kept.delete(key);
  }, [key]);
  return { value, keep, forget };
};
