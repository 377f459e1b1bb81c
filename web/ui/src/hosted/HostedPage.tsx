import { Button, EmptyState, EmptyStateBody, Flex, StackItem } from '@patternfly/react-core';
import { useState } from 'react';
import { Requires } from '../access/AccessProvider';
import { useRefetchOn } from '../live/useRefetchOn';
import { Help } from '../shell/Help';
import { PageFrame } from '../shell/PageFrame';
import { useAct } from '../shell/useAct';
import { useAnswer } from '../shell/useAnswer';
import { usePageTitle } from '../shell/usePageTitle';
import { readOverview, type Overview } from './api';
import { ClusterTable } from './ClusterTable';
import { CreateDialog } from './CreateDialog';
import { HeldCluster } from './HeldCluster';
import { ManagementDialog } from './ManagementDialog';
import { ManagementTable } from './ManagementTable';
import { WorkersCard } from './WorkersCard';

const wait = (answer: Overview | null | undefined) => (answer === null ? undefined : 10_000);

/** The page of hosted clusters and the management clusters that run their control planes. */
const HostedPage = () => {
  const { answer, error, refetch } = useAnswer(readOverview, wait);
  const [dialog, setDialog] = useState<'create' | 'management'>();
  const { act, failure } = useAct(refetch);
  useRefetchOn(['hosted-clusters', 'hosted-node-pools', 'hosted-management'], refetch);
  const close = () => {
    setDialog(undefined);
    refetch();
  };
  if (answer === null) {
    return <Disabled />;
  }
  return (
    <>
      <PageFrame
        title="Hosted clusters"
        about={
          <>
            The control planes of hosted clusters run as pods on a management cluster. What you ask for is stored at
            once, and delivered when the management cluster is connected.{' '}
            <Help to="hosted">About hosted clusters</Help>
          </>
        }
        head={
          <Flex gap={{ default: 'gapSm' }}>
            <Requires role="operator">
              <Button
                onClick={() => {
                  setDialog('create');
                }}
              >
                Create a hosted cluster
              </Button>
            </Requires>
            <Requires role="admin">
              <Button
                variant="secondary"
                onClick={() => {
                  setDialog('management');
                }}
              >
                Use a cluster for control planes
              </Button>
            </Requires>
          </Flex>
        }
        failure={failure}
        error={error}
        hasAnswer={answer !== undefined}
        waiting="Reading the hosted clusters"
      >
        {answer && (
          <>
            {answer.management_clusters
              .filter(({ held }) => held)
              .map(({ consumer }) => (
                <StackItem key={consumer}>
                  <HeldCluster consumer={consumer} />
                </StackItem>
              ))}
            <StackItem>
              <ClusterTable clusters={answer.clusters} act={act} refetch={refetch} />
            </StackItem>
            <StackItem>
              <ManagementTable clusters={answer.management_clusters} act={act} />
            </StackItem>
            {answer.management_clusters
              .filter(({ cluster_id }) => cluster_id)
              .map(({ consumer }) => (
                <StackItem key={consumer}>
                  <WorkersCard consumer={consumer} />
                </StackItem>
              ))}
          </>
        )}
      </PageFrame>
      {answer && dialog === 'create' && <CreateDialog overview={answer} onClose={close} />}
      {dialog === 'management' && <ManagementDialog onClose={close} />}
    </>
  );
};

export default HostedPage;

const Disabled = () => {
  usePageTitle('Hosted clusters');
  return (
    <EmptyState titleText="Hosted clusters are disabled" headingLevel="h1">
      <EmptyStateBody>
        To run control planes on an installed cluster, set hosted.enabled: true in the configuration and restart the
        appliance. <Help to="hosted">About hosted clusters</Help>
      </EmptyStateBody>
    </EmptyState>
  );
};
