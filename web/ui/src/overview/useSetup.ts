import { useRefetchOn } from '../live/useRefetchOn';
import { useAnswer } from '../shell/useAnswer';
import { readSetup, type Setup } from './setup';

const often = 2_000;
const seldom = 60_000;
const wait = (setup: Setup | undefined) =>
  setup?.lines.some(({ state }) => state === 'checking') ? often : seldom;

/** The state of the checklist; it follows the settings of the site. */
export const useSetup = () => {
  const result = useAnswer(readSetup, wait);
  useRefetchOn(['settings'], result.refetch);
  return result;
};
