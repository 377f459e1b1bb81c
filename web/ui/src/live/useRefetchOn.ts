import { useEffect } from 'react';
import { isAbout, type Change } from './feed';
import { useLive } from './LiveProvider';
import { Refresh } from './refresh';

/**
 * Calls `refetch` when the feed reports changes of these kinds, at most once in `interval`
 * milliseconds.
 */
export const useRefetchOn = (kinds: readonly Change['kind'][], refetch: () => void, interval = 0): void => {
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
      if (isAbout(notice, wanted)) {
        refresh.changed();
      }
    });
    return () => {
      leave();
      refresh.stop();
    };
  }, [live, list, refetch, interval]);
};
