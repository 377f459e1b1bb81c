import { Alert, GridItem } from '@patternfly/react-core';
import Original from 'ui-lib/common/components/clusterDetail/ClusterCredentials';
import type { ComponentProps } from 'react';
import { useMay } from '../access/AccessProvider';

/** The credentials of a cluster, or who can read them. */
const ClusterCredentials = (props: ComponentProps<typeof Original>) =>
  useMay('admin') ? (
    <Original {...props} />
  ) : (
    <GridItem span={12}>
      <Alert
        isInline
        variant="info"
        title="Only administrators can read the kubeconfig and the password of this cluster."
        data-testid="no-credentials"
      />
    </GridItem>
  );

export default ClusterCredentials;
