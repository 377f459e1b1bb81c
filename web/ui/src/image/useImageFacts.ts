import { useCallback, useEffect } from 'react';
import { useLive } from '../live/LiveProvider';
import { Refresh } from '../live/refresh';
import { useAnswer, type Asked } from '../shell/useAnswer';
import { getImageFacts, type ImageFacts } from './api';
import { isBeingComputed } from './facts';

const whileComputing = 1_000;
const otherwise = 10_000;
const wait = (facts: ImageFacts | undefined) => (isBeingComputed(facts) ? whileComputing : otherwise);

/**
 * The facts about an infra-env's image. They are fetched again when the feed reports a change of
 * the infra-env.
 */
export const useImageFacts = (infraEnvId: string): Asked<ImageFacts> => {
  const live = useLive();
  const ask = useCallback((signal: AbortSignal) => getImageFacts(infraEnvId, signal), [infraEnvId]);
  const asked = useAnswer(ask, wait);
  const { askAgain } = asked;
  useEffect(() => {
    const refresh = new Refresh(askAgain);
    const leave = live.subscribe((notice) => {
      if (notice === 'everything' || (notice.kind === 'infra-envs' && notice.id === infraEnvId)) {
        refresh.changed();
      }
    });
    return () => {
      leave();
      refresh.stop();
    };
  }, [live, askAgain, infraEnvId]);
  return asked;
};
