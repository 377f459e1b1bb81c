import { Bullseye, PageSection, Spinner, Stack } from '@patternfly/react-core';
import { useEffect, useRef, useState } from 'react';
import { lazyAgain } from '../shell/lazyAgain';
import { NoCluster } from '../shell/NoCluster';
import { PageStatus } from '../shell/PageStatus';
import { ApplianceError } from '../shell/request';
import { focusContent } from '../shell/useFocusOnNavigation';
import { FailureCard } from './FailureCard';
import { InstallationPage } from './InstallationPage';
import { ReadinessCard } from './ReadinessCard';
import { ReviewShown } from './reviewShown';
import { useProgress } from './useProgress';
import { hasInstallation } from './words';

const Installer = lazyAgain(() => import('../Installer'));

/** The status codes for an unknown cluster and for an invalid id. */
const missing = [404, 422];

/** The page of a cluster: the wizard before its installation, then the installation. */
const ClusterPage = ({ id }: { id: string }) => {
  const { answer, error, refetch } = useProgress(id);
  const reviewShown = useState(false);
  const isWizard = answer && !hasInstallation(answer.status);
  const wasWizard = useRef(isWizard);
  useEffect(() => {
    // The installation replaces the wizard, and with it the focused button.
    if (wasWizard.current && !isWizard) {
      focusContent();
    }
    wasWizard.current = isWizard;
  }, [isWizard]);
  if (error instanceof ApplianceError && missing.includes(error.status)) {
    return <NoCluster />;
  }
  if (!answer) {
    return error ? (
      <PageSection hasBodyWrapper={false} isFilled>
        <Stack hasGutter>
          <PageStatus failure="" error={error} hasAnswer={false} waiting="Reading the cluster" />
        </Stack>
      </PageSection>
    ) : (
      <Bullseye>
        <Spinner aria-label="Reading the cluster" />
      </Bullseye>
    );
  }
  if (hasInstallation(answer.status)) {
    return <InstallationPage progress={answer} refetch={refetch} />;
  }
  return (
    <ReviewShown.Provider value={reviewShown}>
      {answer.failure && (
        <PageSection hasBodyWrapper={false}>
          <FailureCard failure={answer.failure} />
        </PageSection>
      )}
      {answer.status !== 'adding-hosts' && <ReadinessCard id={id} status={answer.status} />}
      <Installer />
    </ReviewShown.Provider>
  );
};

export default ClusterPage;
