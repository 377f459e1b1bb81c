import { EmptyState, EmptyStateActions, EmptyStateBody, EmptyStateFooter, PageSection } from '@patternfly/react-core';
import SearchIcon from '@patternfly/react-icons/dist/esm/icons/search-icon';
import { Link } from 'react-router-dom-v5-compat';

/** In place of a cluster's page: the appliance has no cluster of that id. */
export const NoCluster = () => (
  <PageSection hasBodyWrapper={false} isFilled>
    <EmptyState icon={SearchIcon} titleText="There is no such cluster" headingLevel="h1" data-testid="no-cluster">
      <EmptyStateBody>It was deleted, or the address of this page is not right.</EmptyStateBody>
      <EmptyStateFooter>
        <EmptyStateActions>
          <Link to="/assisted-installer/clusters">All clusters</Link>
        </EmptyStateActions>
      </EmptyStateFooter>
    </EmptyState>
  </PageSection>
);
