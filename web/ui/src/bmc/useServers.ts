import { useEffect } from 'react';
import { useLive } from '../live/LiveProvider';
import { Refresh } from '../live/refresh';
import { useAnswer, type AnswerState } from '../shell/useAnswer';
import { listServers, type Server } from './api';
import { isMoving } from './words';

const wait = (servers: Server[] | undefined) => (servers?.some(isMoving) && servers.length < 200 ? 2_000 : 10_000);

/** The servers; they are fetched again when the feed reports a change. */
export const useServers = (): AnswerState<Server[]> => {
  const live = useLive();
  const result = useAnswer(listServers, wait);
  const { refetch } = result;
  useEffect(() => {
    const refresh = new Refresh(refetch);
    const leave = live.subscribe((notice) => {
      if (notice === 'everything' || notice.kind === 'bmcs') {
        refresh.changed();
      }
    });
    return () => {
      leave();
      refresh.stop();
    };
  }, [live, refetch]);
  return result;
};
