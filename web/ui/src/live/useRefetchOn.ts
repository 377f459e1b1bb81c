import { useEffect } from 'react';
import { isAbout, type Change } from './feed';
import { useLive } from './LiveProvider';
import { Refresh } from './refresh';

type Options = {
  /** The shortest time between two calls, in milliseconds. */
  interval?: number;
  /** The id of a cluster: only changes of the cluster and of its objects matter. */
  cluster?: string;
};

/** Calls `refetch` when the feed reports changes of these kinds. */
export const useRefetchOn = (
  kinds: readonly Change['kind'][],
  refetch: () => void,
  { interval = 0, cluster }: Options = {},
): void => {
  const live = useLive();
  const list = kinds.join();
  useEffect(() => {
    const wanted = list.split(',') as Change['kind'][];
    let last = 0;
    const refresh = new Refresh(
      () => {
        last = Date.now();
        refetch();
      },
      () => Date.now() - last < interval,
    );
    const leave = live.subscribe((notice) => {
      const matters =
        cluster === undefined || notice === 'everything' || [notice.id, notice.cluster_id].includes(cluster);
      if (matters && isAbout(notice, wanted)) {
        refresh.changed();
      }
    });
    return () => {
      leave();
      refresh.stop();
    };
  }, [live, list, refetch, interval, cluster]);
};
