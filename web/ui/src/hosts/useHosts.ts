import { useCallback, useEffect, useRef, useState } from 'react';
import { useLive } from '../live/LiveProvider';
import { Refresh } from '../live/refresh';
import { listHosts, type HostRow } from './api';
import { merge } from './table';

/** With more changed hosts, the whole list is requested. */
const maxChanged = 100;
/** Contacts of hosts are no changes. The list is requested again for their times. */
const pauseMilliseconds = 60_000;

export type Hosts = { rows: HostRow[] | undefined; error: Error | undefined; refetch: () => void };

/**
 * The hosts of the site. When the feed reports changes, only the rows of the changed hosts are
 * requested.
 */
export const useHosts = (): Hosts => {
  const live = useLive();
  const [rows, setRows] = useState<HostRow[]>();
  const [error, setError] = useState<Error>();
  const [round, setRound] = useState(0);
  const servers = useRef(new Map<string, string>());
  useEffect(() => {
    servers.current = new Map((rows ?? []).flatMap(({ bmc, id }) => (bmc ? [[bmc.id, id]] : [])));
  }, [rows]);
  useEffect(() => {
    const left = new AbortController();
    const changed = new Set<string>();
    let all = true;
    let running = false;
    const load = async () => {
      const ids = all || changed.size > maxChanged ? [] : [...changed];
      all = false;
      changed.clear();
      running = true;
      try {
        const fresh = await listHosts(ids, left.signal);
        setRows((last) => (ids.length > 0 && last ? merge(last, ids, fresh) : fresh));
        setError(undefined);
      } catch (thrown) {
        if (!left.signal.aborted) {
          all = true;
          setError(thrown instanceof Error ? thrown : new Error(String(thrown)));
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
      } else if (notice.kind === 'hosts') {
        changed.add(notice.id);
      } else if (notice.kind === 'bmcs') {
        const host = servers.current.get(notice.id);
        if (host === undefined) {
          return;
        }
        changed.add(host);
      } else {
        return;
      }
      refresh.changed();
    });
    const timer = setInterval(() => {
      all = true;
      refresh.changed();
    }, pauseMilliseconds);
    void load();
    return () => {
      left.abort();
      leave();
      refresh.stop();
      clearInterval(timer);
    };
  }, [live, round]);
  const refetch = useCallback(() => {
    setRound((last) => last + 1);
  }, []);
  return { rows, error, refetch };
};
