import { EmptyState, EmptyStateBody, PageSection } from '@patternfly/react-core';
import LockIcon from '@patternfly/react-icons/dist/esm/icons/lock-icon';
import { Link } from 'react-router-dom-v5-compat';

/** The page of a new cluster for people who may not create one. */
export const NotPermitted = () => (
  <PageSection hasBodyWrapper={false} isFilled>
    <EmptyState icon={LockIcon} titleText="Viewers cannot create clusters" headingLevel="h1">
      <EmptyStateBody>
        Ask an administrator for the role operator, or return to the{' '}
        <Link to="/assisted-installer/clusters">clusters</Link>.
      </EmptyStateBody>
    </EmptyState>
  </PageSection>
);
