import { EmptyState, EmptyStateBody, PageSection } from '@patternfly/react-core';
import LockIcon from '@patternfly/react-icons/dist/esm/icons/lock-icon';
import type { ReactNode } from 'react';
import { useIsLimited } from './AccessProvider';

/** A page about the whole site. People who may use only some clusters cannot read it. */
export const WholeSite = ({ children }: { children: ReactNode }) =>
  useIsLimited() ? (
    <PageSection hasBodyWrapper={false} isFilled>
      <EmptyState icon={LockIcon} titleText="This page is about the whole site" headingLevel="h1">
        <EmptyStateBody>Your account may use only some clusters. Ask an administrator for more rights.</EmptyStateBody>
      </EmptyState>
    </PageSection>
  ) : (
    <>{children}</>
  );
