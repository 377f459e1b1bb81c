import { useCallback, useEffect } from 'react';
import { useLive } from '../live/LiveProvider';
import { Refresh } from '../live/refresh';
import { useAnswer, type AnswerState } from '../shell/useAnswer';
import { getImageFacts, type ImageFacts } from './api';
import { isBeingComputed } from './facts';

const whileComputing = 1_000;
const otherwise = 10_000;
const wait = (facts: ImageFacts | undefined) => (isBeingComputed(facts) ? whileComputing : otherwise);

/**
 * The facts about an infra-env's image. They are fetched again when the feed reports a change of
 * the infra-env.
 */
export const useImageFacts = (infraEnvId: string): AnswerState<ImageFacts> => {
  const live = useLive();
  const load = useCallback((signal: AbortSignal) => getImageFacts(infraEnvId, signal), [infraEnvId]);
  const result = useAnswer(load, wait);
  const { refetch } = result;
  useEffect(() => {
    const refresh = new Refresh(refetch);
    const leave = live.subscribe((notice) => {
      if (notice === 'everything' || (notice.kind === 'infra-envs' && notice.id === infraEnvId)) {
        refresh.changed();
      }
    });
    return () => {
      leave();
      refresh.stop();
    };
  }, [live, refetch, infraEnvId]);
  return result;
};
