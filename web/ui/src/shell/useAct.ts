import { useEffect, useRef, useState } from 'react';
import { reportLateFailure } from './lateFailure';
import { sentenceOf } from './request';

/**
 * Performs an action, then requests the page's data again. Returns whether the action succeeded.
 */
export type Act = (work: () => Promise<unknown>) => Promise<boolean>;

/**
 * Actions of a page's user, and the error of the last one: '' if it succeeded. If another page is
 * open by then, that page shows the error.
 */
export const useAct = (refetch: () => void): { act: Act; failure: string; setFailure: (failure: string) => void } => {
  const [failure, setFailure] = useState('');
  const isShown = useRef(false);
  useEffect(() => {
    isShown.current = true;
    return () => {
      isShown.current = false;
    };
  }, []);
  const act = async (work: () => Promise<unknown>): Promise<boolean> => {
    let done = true;
    setFailure(''); // the same error is shown as a new one
    try {
      await work();
    } catch (thrown) {
      done = false;
      setFailure(sentenceOf(thrown));
      if (!isShown.current) {
        reportLateFailure({ dialog: 'An action on the page before failed', sentence: sentenceOf(thrown) });
      }
    }
    refetch();
    return done;
  };
  return { act, failure, setFailure };
};
