import { EmptyState, EmptyStateActions, EmptyStateBody, EmptyStateFooter, PageSection } from '@patternfly/react-core';
import SearchIcon from '@patternfly/react-icons/dist/esm/icons/search-icon';
import { Link, useLocation } from 'react-router-dom-v5-compat';
import { usePageTitle } from './usePageTitle';

/** The page at an unknown address. */
export const NotFound = () => {
  const { pathname } = useLocation();
  usePageTitle('Page not found');
  return (
    <PageSection hasBodyWrapper={false} isFilled>
      <EmptyState icon={SearchIcon} titleText="Page not found" headingLevel="h1" data-testid="not-found">
        <EmptyStateBody>
          Landfall has no page at <code className="landfall-address">{pathname}</code>. Check the address.
        </EmptyStateBody>
        <EmptyStateFooter>
          <EmptyStateActions>
            <Link to="/">Home</Link>
          </EmptyStateActions>
        </EmptyStateFooter>
      </EmptyState>
    </PageSection>
  );
};
