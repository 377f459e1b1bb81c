import { useState } from 'react';
import { sentenceOf } from './request';

/** Does something and tells whether it could be done; then everything is asked for again. */
export type Act = (work: () => Promise<unknown>) => Promise<boolean>;

/** What a page's person does, and how the last of it failed: '' when it did not. */
export const useAct = (askAgain: () => void): { act: Act; failure: string; setFailure: (failure: string) => void } => {
  const [failure, setFailure] = useState('');
  const act = async (work: () => Promise<unknown>): Promise<boolean> => {
    let done = true;
    try {
      await work();
      setFailure('');
    } catch (thrown) {
      done = false;
      setFailure(sentenceOf(thrown));
    }
    askAgain();
    return done;
  };
  return { act, failure, setFailure };
};
