import { EmptyState, EmptyStateActions, EmptyStateBody, EmptyStateFooter, PageSection } from '@patternfly/react-core';
import SearchIcon from '@patternfly/react-icons/dist/esm/icons/search-icon';
import { Link } from 'react-router-dom-v5-compat';

/** Replaces a cluster's page if the appliance has no cluster with this id. */
export const NoCluster = () => (
  <PageSection hasBodyWrapper={false} isFilled>
    <EmptyState icon={SearchIcon} titleText="This cluster does not exist" headingLevel="h1" data-testid="no-cluster">
      <EmptyStateBody>The cluster was deleted, or the address of this page is wrong.</EmptyStateBody>
      <EmptyStateFooter>
        <EmptyStateActions>
          <Link to="/assisted-installer/clusters">All clusters</Link>
        </EmptyStateActions>
      </EmptyStateFooter>
    </EmptyState>
  </PageSection>
);
