import { Button } from '@patternfly/react-core';
import type { ComponentProps } from 'react';
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
          <Button
            onClick={() => {
              window.location.reload();
            }}
          >
            Check again
          </Button>
        }
      />
    </ClusterWizardStep>
  );
};

export default ClusterDetails;
