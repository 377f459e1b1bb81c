import { Alert, Stack, StackItem } from '@patternfly/react-core';
import { getClusterProgressAlerts as libraryAlerts } from 'ui-lib/ocm/components/clusterDetail/getProgressBarAlerts';

/**
 * The library's alerts about an installation. A failed one also gets its reason, which the library
 * leaves to the logs.
 */
export const getClusterProgressAlerts: typeof libraryAlerts = (hosts, cluster, olmOperators) => {
  const alerts = libraryAlerts(hosts, cluster, olmOperators);
  if (cluster.status !== 'error' || !cluster.statusInfo) {
    return alerts;
  }
  return (
    <Stack hasGutter>
      <StackItem>{alerts}</StackItem>
      <StackItem>
        <Alert isInline variant="danger" title={cluster.statusInfo} data-testid="why-it-failed" />
      </StackItem>
    </Stack>
  );
};
