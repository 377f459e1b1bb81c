import { EmptyState, EmptyStateBody, PageSection } from '@patternfly/react-core';
import LockIcon from '@patternfly/react-icons/dist/esm/icons/lock-icon';
import { Link } from 'react-router-dom-v5-compat';
import { useIsLimited } from './AccessProvider';

/** The page of a new cluster for people who may not create one. */
export const NotPermitted = () => {
  const isLimited = useIsLimited();
  return (
    <PageSection hasBodyWrapper={false} isFilled>
      <EmptyState
        icon={LockIcon}
        titleText={isLimited ? 'Your account may use only some clusters' : 'Viewers cannot create clusters'}
        headingLevel="h1"
      >
        <EmptyStateBody>
          {isLimited
            ? 'It cannot create another one. Ask an administrator for more rights, or return to the '
            : 'Ask an administrator for the role operator, or return to the '}
          <Link to="/assisted-installer/clusters">clusters</Link>.
        </EmptyStateBody>
      </EmptyState>
    </PageSection>
  );
};
