import {
  Breadcrumb,
  BreadcrumbItem,
  Button,
  Content,
  EmptyState,
  EmptyStateActions,
  EmptyStateBody,
  EmptyStateFooter,
  PageSection,
  Stack,
} from '@patternfly/react-core';
import { useCallback } from 'react';
import { Link } from 'react-router-dom-v5-compat';
import { NotPermitted } from '../access/NotPermitted';
import { readSettings } from '../settings/api';
import { getStatus } from '../shell/appliance';
import { LinkButton } from '../shell/LinkButton';
import { PageStatus } from '../shell/PageStatus';
import { useAnswer } from '../shell/useAnswer';
import { usePageTitle } from '../shell/usePageTitle';
import { installable, whyNoVersion } from '../shell/versions';
import { listClusters } from './list';
import { NewClusterForm } from './NewClusterForm';
import { readVersions } from './newCluster';
import { useMayCreate } from './useMayCreate';

const wait = (answer: unknown) => (answer ? undefined : 3_000);

const readSite = async (signal: AbortSignal) => {
  const [versions, status, clusters, settings] = await Promise.all([
    readVersions(signal),
    getStatus(signal),
    listClusters([], signal),
    readSettings(signal),
  ]);
  const usable = installable(versions, status);
  return {
    versions: usable,
    reason: Object.keys(usable).length === 0 ? whyNoVersion(status) : '',
    lacksISO: status.releases.length > 0,
    clusters,
    hasPullSecret: settings.pull_secret.set,
  };
};

/** The first step of a new cluster. The library's wizard has the steps after it. */
const NewClusterPage = () => {
  usePageTitle('New cluster');
  return useMayCreate() ? <NewCluster /> : <NotPermitted />;
};

const NewCluster = () => {
  const load = useCallback((signal: AbortSignal) => readSite(signal), []);
  const { answer, error, refetch } = useAnswer(load, wait);
  return (
    <>
      <PageSection hasBodyWrapper={false}>
        <Breadcrumb aria-label="Path">
          <BreadcrumbItem>
            <Link to="/assisted-installer/clusters">Clusters</Link>
          </BreadcrumbItem>
          <BreadcrumbItem isActive>New cluster</BreadcrumbItem>
        </Breadcrumb>
        <Content component="h1">Install an OpenShift cluster</Content>
        <Content component="p">
          Describe the cluster, boot its hosts from the discovery ISO, and install it from this site&apos;s mirror.
        </Content>
      </PageSection>
      <PageSection hasBodyWrapper={false} isFilled>
        {!answer && (
          <Stack hasGutter>
            <PageStatus failure="" error={error} hasAnswer={false} waiting="Reading the versions" />
          </Stack>
        )}
        {answer && answer.reason !== '' && <NoVersion {...answer} onCheck={refetch} />}
        {answer?.reason === '' && <NewClusterForm {...answer} />}
      </PageSection>
    </>
  );
};

/** What to do before a cluster can be created: add a release, or the live ISO of one. */
const NoVersion = ({ reason, lacksISO, onCheck }: { reason: string; lacksISO: boolean; onCheck: () => void }) => (
  <EmptyState titleText="No cluster can be created yet" headingLevel="h2">
    <EmptyStateBody>{reason}</EmptyStateBody>
    <EmptyStateFooter>
      <EmptyStateActions>
        <LinkButton variant={lacksISO ? 'secondary' : 'primary'} to="/settings#releases">
          Open the releases
        </LinkButton>
        <LinkButton variant={lacksISO ? 'primary' : 'secondary'} to="/os-images">
          Open the live ISOs
        </LinkButton>
        <Button variant="secondary" onClick={onCheck}>
          Check again
        </Button>
      </EmptyStateActions>
    </EmptyStateFooter>
  </EmptyState>
);

export default NewClusterPage;
