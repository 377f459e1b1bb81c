import { Bullseye, Spinner } from '@patternfly/react-core';
import { lazy } from 'react';
import { Navigate } from 'react-router-dom-v5-compat';
import { useIsLimited } from '../access/AccessProvider';
import { useRefetchOn } from '../live/useRefetchOn';
import { useAnswer } from '../shell/useAnswer';
import { Checklist } from './Checklist';
import { readSetup, type Setup } from './setup';

const OverviewPage = lazy(() => import('./OverviewPage'));

const often = 2_000;
const seldom = 60_000;
const wait = (setup: Setup | undefined) =>
  setup?.lines.some(({ state }) => state === 'checking') ? often : seldom;

/** The home page: the checklist until the site is set up, then the overview. */
const HomePage = () => (useIsLimited() ? <Navigate to="/assisted-installer/clusters" replace /> : <Home />);

export default HomePage;

const Home = () => {
  const { answer: setup, error, refetch } = useAnswer(readSetup, wait);
  useRefetchOn(['settings'], refetch);
  if (!setup && !error) {
    return (
      <Bullseye>
        <Spinner aria-label="Reading the state of the site" />
      </Bullseye>
    );
  }
  return setup && !setup.complete ? <Checklist setup={setup} /> : <OverviewPage setup={setup} error={error} />;
};
