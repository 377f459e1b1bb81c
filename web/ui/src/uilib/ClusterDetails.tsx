import { Button, Flex } from '@patternfly/react-core';
import type { ComponentProps } from 'react';
import { Link } from 'react-router-dom-v5-compat';
import ErrorState from 'ui-lib/common/components/ui/uiState/ErrorState';
import { ClusterWizardStep } from 'ui-lib/common/components/clusterWizard/ClusterWizardStep';
import LibraryClusterDetails from 'ui-lib/ocm/components/clusterWizard/ClusterDetails';
import ClusterWizardNavigation from 'ui-lib/ocm/components/clusterWizard/ClusterWizardNavigation';
import { useOpenShiftVersionsContext } from 'ui-lib/ocm/components/clusterWizard/OpenShiftVersionsContext';

/**
 * The wizard's first step. Without versions, the library shows "Check your connection"; this
 * component shows the reason.
 */
const ClusterDetails = (props: ComponentProps<typeof LibraryClusterDetails>) => {
  const { error } = useOpenShiftVersionsContext();
  if (props.cluster || !error) {
    return <LibraryClusterDetails {...props} />;
  }
  return (
    <ClusterWizardStep navigation={<ClusterWizardNavigation />}>
      <ErrorState
        title="No cluster can be created yet"
        content={error.message}
        primaryAction={
          <Flex gap={{ default: 'gapSm' }} justifyContent={{ default: 'justifyContentCenter' }}>
            <Button component={(to) => <Link {...to} to="/settings#releases" />}>Open the releases</Button>
            <Button variant="secondary" component={(to) => <Link {...to} to="/os-images" />}>
              Open the live ISOs
            </Button>
            <Button
              variant="secondary"
              onClick={() => {
                window.location.reload();
              }}
            >
              Check again
            </Button>
          </Flex>
        }
      />
    </ClusterWizardStep>
  );
};

export default ClusterDetails;
