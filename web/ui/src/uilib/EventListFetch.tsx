import { useCallback, useEffect, useState, type ComponentProps } from 'react';
import { EventListFetch as LibraryEventListFetch } from 'ui-lib/common/components/fetching/EventListFetch';
import { useLive } from '../live/LiveProvider';
import { Refresh } from '../live/refresh';
import { JournalLink } from '../journal/JournalLink';

type Props = ComponentProps<typeof LibraryEventListFetch>;

/**
 * The library's list of events, which is polled once a minute. It is fetched again when the feed
 * reports an event, and has a link to the journal.
 */
export const EventListFetch = ({ onFetchEvents, ...props }: Props) => {
  const live = useLive();
  const clusterId = props.cluster.id;
  const [round, setRound] = useState(0);
  useEffect(() => {
    const refresh = new Refresh(() => {
      setRound((last) => last + 1);
    });
    const leave = live.subscribe((notice) => {
      if (notice === 'everything' || (notice.kind === 'events' && notice.cluster_id === clusterId)) {
        refresh.changed();
      }
    });
    return () => {
      leave();
      refresh.stop();
    };
  }, [live, clusterId]);
  // The library fetches again if this function changes.
  const fetchAgain = useCallback<Props['onFetchEvents']>(
    (...rest) => {
      onFetchEvents(...rest);
    },
    // eslint-disable-next-line react-hooks/exhaustive-deps -- each round needs a new function
    [onFetchEvents, round],
  );
  return (
    <>
      {clusterId && <JournalLink clusterId={clusterId} />}
      <LibraryEventListFetch {...props} onFetchEvents={fetchAgain} />
    </>
  );
};
