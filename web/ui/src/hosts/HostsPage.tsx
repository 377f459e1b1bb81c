import { EmptyState, EmptyStateActions, EmptyStateBody, EmptyStateFooter, StackItem } from '@patternfly/react-core';
import { Link } from 'react-router-dom-v5-compat';
import { useFeedState } from '../live/LiveProvider';
import { LinkButton } from '../shell/LinkButton';
import { PageFrame } from '../shell/PageFrame';
import { HostTable } from './HostTable';
import { useHosts } from './useHosts';

/** All hosts of the site. */
const HostsPage = () => {
  const { rows, error, refetch } = useHosts();
  const isAway = useFeedState() === 'away' || error !== undefined;
  return (
    <PageFrame
      title="Hosts"
      about={
        <>
          All machines of this site that have booted a discovery image and registered.{' '}
          <Link to="/hosts/missing">Why is my host not here?</Link>
        </>
      }
      failure=""
      error={error}
      hasAnswer={rows !== undefined}
      waiting="Reading the hosts"
    >
      {rows && (
        <StackItem>
          {rows.length === 0 && !isAway && <NoHosts />}
          {rows.length > 0 && <HostTable rows={rows} refetch={refetch} />}
        </StackItem>
      )}
    </PageFrame>
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
