import {
  Content,
  EmptyState,
  EmptyStateActions,
  EmptyStateBody,
  EmptyStateFooter,
  Flex,
  PageSection,
  Stack,
  StackItem,
} from '@patternfly/react-core';
import { useFeedState } from '../live/LiveProvider';
import { useRows, type Source } from '../live/useRows';
import { LinkButton } from '../shell/LinkButton';
import { PageStatus } from '../shell/PageStatus';
import { usePageTitle } from '../shell/usePageTitle';
import { ClusterTable } from './ClusterTable';
import { listClusters, type ClusterRow } from './list';
import { useMayCreate } from './useMayCreate';

const source: Source<ClusterRow> = {
  list: listClusters,
  keyOf: ({ id }) => id,
  concerned: ({ kind, id, cluster_id: cluster }, rows) => {
    switch (kind) {
      case 'clusters':
        return id;
      case 'hosts':
        // The row has the number of the cluster's hosts.
        return cluster === '' || !rows.some((row) => row.id === cluster) ? undefined : cluster;
      default:
        return undefined;
    }
  },
};

/** All clusters of the site. */
const ClustersPage = () => {
  const { rows, error, refetch } = useRows(source);
  const isAway = useFeedState() === 'away' || error !== undefined;
  const mayCreate = useMayCreate();
  usePageTitle('Clusters');
  return (
    <>
      <PageSection hasBodyWrapper={false}>
        <Flex
          justifyContent={{ default: 'justifyContentSpaceBetween' }}
          alignItems={{ default: 'alignItemsCenter' }}
        >
          <Content component="h1">Clusters</Content>
          {mayCreate && rows && rows.length > 0 && (
            <LinkButton to="/assisted-installer/clusters/~new" variant="primary">
              Create cluster
            </LinkButton>
          )}
        </Flex>
      </PageSection>
      <PageSection hasBodyWrapper={false} isFilled>
        <Stack hasGutter>
          <PageStatus failure="" error={error} hasAnswer={rows !== undefined} waiting="Reading the clusters" />
          {rows && (
            <StackItem>
              {rows.length === 0 && !isAway && <NoClusters mayCreate={mayCreate} />}
              {rows.length > 0 && <ClusterTable rows={rows} refetch={refetch} />}
            </StackItem>
          )}
        </Stack>
      </PageSection>
    </>
  );
};

const NoClusters = ({ mayCreate }: { mayCreate: boolean }) => (
  <EmptyState titleText="No cluster yet" headingLevel="h2" data-testid="no-clusters">
    <EmptyStateBody>
      {mayCreate
        ? 'A wizard guides you through the installation of a cluster.'
        : 'There is no cluster that your account may use.'}
    </EmptyStateBody>
    {mayCreate && (
      <EmptyStateFooter>
        <EmptyStateActions>
          <LinkButton to="/assisted-installer/clusters/~new" variant="primary">
            Create cluster
          </LinkButton>
        </EmptyStateActions>
      </EmptyStateFooter>
    )}
  </EmptyState>
);

export default ClustersPage;
