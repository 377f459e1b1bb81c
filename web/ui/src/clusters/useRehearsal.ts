import { useEffect, useState } from 'react';
import { ApplianceError, sentenceOf } from '../shell/request';
import { readRehearsal, startRehearsal, type Rehearsal } from './api';

export const pauseMilliseconds = 1_000;

/** The rehearsal that the page's user has started, with its last report, until it is done. */
export const useRehearsal = (clusterId: string) => {
  const [rehearsal, setRehearsal] = useState<Rehearsal>();
  const [failure, setFailure] = useState('');
  const runs = rehearsal?.state === 'running';
  const current = rehearsal?.id;
  useEffect(() => {
    if (!runs || !current) {
      return undefined;
    }
    const left = new AbortController();
    const read = async () => {
      try {
        setRehearsal(await readRehearsal(clusterId, current, left.signal));
        setFailure('');
      } catch (error) {
        if (left.signal.aborted) {
          return;
        }
        setFailure(sentenceOf(error));
        if (!(error instanceof ApplianceError && error.isPassing)) {
          // A restarted appliance does not know its former rehearsals.
          setRehearsal(undefined);
        }
      }
    };
    const timer = setInterval(() => void read(), pauseMilliseconds);
    return () => {
      left.abort();
      clearInterval(timer);
    };
  }, [clusterId, current, runs]);
  const start = async () => {
    setFailure('');
    try {
      setRehearsal(await startRehearsal(clusterId));
    } catch (error) {
      setFailure(sentenceOf(error));
    }
  };
  return { rehearsal, runs, failure, start };
};
