import { useEffect } from 'react';
import type { Change } from './feed';
import { useLive } from './LiveProvider';
import { Refresh } from './refresh';

/** Calls `refetch` when the feed reports changes of a cluster, or of its objects of these kinds. */
export const useRefetchOnCluster = (id: string, kinds: readonly Change['kind'][], refetch: () => void): void => {
  const live = useLive();
  const list = kinds.join();
  useEffect(() => {
    const refresh = new Refresh(refetch);
    const wanted = list.split(',');
    const leave = live.subscribe((notice) => {
      if (notice === 'everything' || (wanted.includes(notice.kind) && [notice.id, notice.cluster_id].includes(id))) {
        refresh.changed();
      }
    });
    return () => {
      leave();
      refresh.stop();
    };
  }, [live, list, refetch, id]);
};
