import { Bullseye, Spinner } from '@patternfly/react-core';
import { Navigate } from 'react-router-dom-v5-compat';
import { useIsLimited } from '../access/AccessProvider';
import { useRefetchOn } from '../live/useRefetchOn';
import { lazyAgain } from '../shell/lazyAgain';
import { useAnswer } from '../shell/useAnswer';
import { readOverview } from './api';
import { Checklist } from './Checklist';
import { useSetup } from './useSetup';
import { hasInstalled } from './words';

const OverviewPage = lazyAgain(() => import('./OverviewPage'));

// Percentages of installations and clocks change without notices.
const wait = () => 30_000;
const atMostEvery = 2_000;

/**
 * The home page: the checklist until the site is set up or its first installation has started, then
 * the overview.
 */
const HomePage = () => (useIsLimited() ? <Navigate to="/assisted-installer/clusters" replace /> : <Home />);

export default HomePage;

const Home = () => {
  const { answer: setup, error } = useSetup();
  const { answer: site, error: siteError, refetch } = useAnswer(readOverview, wait);
  useRefetchOn(['clusters', 'hosts', 'bmcs'], refetch, { interval: atMostEvery });
  const isKnown = error !== undefined || setup?.complete === true || (setup && (site ?? siteError));
  if (!isKnown) {
    return (
      <Bullseye>
        <Spinner aria-label="Reading the state of the site" />
      </Bullseye>
    );
  }
  const isNew = setup?.complete === false && !(site && hasInstalled(site.clusters));
  return isNew ? <Checklist setup={setup} /> : <OverviewPage setup={setup} site={site} error={siteError ?? error} />;
};
