import { useCallback, useEffect, useRef, useState } from 'react';
import type { Change } from './feed';
import { useLive } from './LiveProvider';
import { Refresh } from './refresh';
import { GivenUp, Patience } from '../shell/patience';
import { mergeRows } from '../shell/rows';

/** With more changed objects, the whole list is requested. */
const maxChanged = 100;
/** Some facts, such as contacts of hosts, are no changes. They come with the whole list. */
const pauseMilliseconds = 60_000;

export type Source<T> = {
  /** Requests the rows of these objects; without ids, of all. */
  list: (ids: string[], signal: AbortSignal) => Promise<T[]>;
  keyOf: (row: T) => string;
  /** The id of the object whose row a change concerns; undefined if it concerns none. */
  concerned: (change: Change, rows: T[]) => string | undefined;
};

export type Rows<T> = { rows: T[] | undefined; error: Error | undefined; refetch: () => void };

/**
 * The rows of a table. When the feed reports changes, only the rows of the changed objects are
 * requested. The source must be the same at each rendering.
 */
export const useRows = <T extends { id: string }>(source: Source<T>): Rows<T> => {
  const live = useLive();
  const [rows, setRows] = useState<T[]>();
  const [error, setError] = useState<Error>();
  const [round, setRound] = useState(0);
  const last = useRef<T[]>([]);
  useEffect(() => {
    last.current = rows ?? [];
  }, [rows]);
  useEffect(() => {
    const left = new AbortController();
    const changed = new Set<string>();
    let all = true;
    const patience = new Patience();
    let running = false;
    const load = async () => {
      const ids = all || changed.size > maxChanged ? [] : [...changed];
      all = false;
      changed.clear();
      running = true;
      try {
        const fresh = await patience.send((signal) => source.list(ids, signal), left.signal);
        setRows((former) => (ids.length > 0 && former ? mergeRows(former, ids, fresh, source.keyOf) : fresh));
        setError(undefined);
      } catch (thrown) {
        if (!left.signal.aborted) {
          all = true;
          setError(thrown instanceof Error ? thrown : new Error(String(thrown)));
          if (thrown instanceof GivenUp) {
            refresh.changed();
          }
        }
      }
      running = false;
    };
    const refresh = new Refresh(
      () => void load(),
      () => running,
    );
    const leave = live.subscribe((notice) => {
      if (notice === 'everything') {
        all = true;
      } else {
        const id = source.concerned(notice, last.current);
        if (id === undefined) {
          return;
        }
        changed.add(id);
      }
      refresh.changed();
    });
    const timer = setInterval(() => {
      if (document.visibilityState !== 'hidden') {
        all = true;
        refresh.changed();
      }
    }, pauseMilliseconds);
    void load();
    return () => {
      left.abort();
      leave();
      refresh.stop();
      clearInterval(timer);
    };
  }, [live, round, source]);
  const refetch = useCallback(() => {
    setRound((former) => former + 1);
  }, []);
  return { rows, error, refetch };
};
