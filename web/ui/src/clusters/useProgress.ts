import { useCallback, useEffect, useState } from 'react';
import { useRefetchOn } from '../live/useRefetchOn';
import { useAnswer } from '../shell/useAnswer';
import { readProgress, type Progress } from './api';
import { isInstalling } from './words';

const often = 15_000;
const seldom = 60_000;
const wait = (progress: Progress | undefined) => (progress && isInstalling(progress.status) ? often : seldom);

/** The installation of a cluster; it follows the feed. */
export const useProgress = (id: string) => {
  const load = useCallback((signal: AbortSignal) => readProgress(id, signal), [id]);
  const result = useAnswer(load, wait);
  const { refetch } = result;
  useRefetchOn(['clusters', 'hosts'], refetch, { cluster: id });
  return result;
};

/** The milliseconds since a value came, updated each second while `runs`. */
export const useLater = (value: unknown, runs: boolean): number => {
  const [state, setState] = useState({ value, later: 0 });
  useEffect(() => {
    if (!runs) {
      return undefined;
    }
    const since = Date.now();
    const timer = setInterval(() => {
      setState({ value, later: Math.max(0, Date.now() - since) });
    }, 1000);
    return () => {
      clearInterval(timer);
    };
  }, [value, runs]);
  return state.value === value ? state.later : 0;
};
