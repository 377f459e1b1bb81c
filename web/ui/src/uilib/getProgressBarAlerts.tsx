import { Alert, Stack, StackItem } from '@patternfly/react-core';
import { getClusterProgressAlerts as libraryAlerts } from 'ui-lib/ocm/components/clusterDetail/getProgressBarAlerts';

/** What the library says of an installation, and why it failed, which it leaves to the logs. */
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
