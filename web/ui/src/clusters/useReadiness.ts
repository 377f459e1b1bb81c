import { useCallback } from 'react';
import { useRefetchOn } from '../live/useRefetchOn';
import { useAnswer } from '../shell/useAnswer';
import { readReadiness } from './api';

const seldom = () => 30_000;

/** What decides whether a cluster can be installed; it follows the changes of the cluster. */
export const useReadiness = (id: string) => {
  const load = useCallback((signal: AbortSignal) => readReadiness(id, signal), [id]);
  const result = useAnswer(load, seldom);
  useRefetchOn(['clusters', 'hosts', 'infra-envs'], result.refetch, { cluster: id });
  return result;
};
