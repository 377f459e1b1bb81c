import {
  Content,
  EmptyState,
  EmptyStateActions,
  EmptyStateBody,
  EmptyStateFooter,
  PageSection,
  Stack,
  StackItem,
} from '@patternfly/react-core';
import { useEffect } from 'react';
import { Link } from 'react-router-dom-v5-compat';
import { LinkButton } from '../shell/LinkButton';
import { PageStatus } from '../shell/PageStatus';
import { HostTable } from './HostTable';
import { useHosts } from './useHosts';

/** All hosts of the site. */
const HostsPage = () => {
  const { rows, error, refetch } = useHosts();
  useEffect(() => {
    document.title = 'Hosts · Landfall';
  }, []);
  return (
    <>
      <PageSection hasBodyWrapper={false}>
        <Content component="h1">Hosts</Content>
        <Content component="p">
          All machines of this site that have booted a discovery image and registered.{' '}
          <Link to="/hosts/missing">Why is my host not here?</Link>
        </Content>
      </PageSection>
      <PageSection hasBodyWrapper={false} isFilled>
        <Stack hasGutter>
          <PageStatus failure="" error={error} hasAnswer={rows !== undefined} waiting="Reading the hosts" />
          {rows && (
            <StackItem>
              {rows.length === 0 ? <NoHosts /> : <HostTable rows={rows} refetch={refetch} />}
            </StackItem>
          )}
        </Stack>
      </PageSection>
    </>
  );
};

const NoHosts = () => (
  <EmptyState titleText="No hosts yet" headingLevel="h2" data-testid="no-hosts">
    <EmptyStateBody>
      No machine has registered. Boot a machine from the image of a cluster. It appears here some minutes later.
    </EmptyStateBody>
    <EmptyStateFooter>
      <EmptyStateActions>
        <LinkButton to="/hosts/missing">Why is my host not here?</LinkButton>
      </EmptyStateActions>
    </EmptyStateFooter>
  </EmptyState>
);

export default HostsPage;
