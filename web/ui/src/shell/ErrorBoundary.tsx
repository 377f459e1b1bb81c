import {
  Button,
  EmptyState,
  EmptyStateActions,
  EmptyStateBody,
  EmptyStateFooter,
  PageSection,
} from '@patternfly/react-core';
import { Component, type ReactNode } from 'react';

type Props = { pathname: string; children: ReactNode };
type State = { pathname: string; hasFailed: boolean };

/**
 * Shows its children, or what to do after one of them failed, until the address changes. After an
 * upgrade, the appliance no longer has the files that the open page still has to load.
 */
export class ErrorBoundary extends Component<Props, State> {
  override state: State = { pathname: this.props.pathname, hasFailed: false };

  static getDerivedStateFromError(): Partial<State> {
    return { hasFailed: true };
  }

  static getDerivedStateFromProps({ pathname }: Props, last: State): State | null {
    return pathname === last.pathname ? null : { pathname, hasFailed: false };
  }

  override render() {
    if (!this.state.hasFailed) {
      return this.props.children;
    }
    return (
      <PageSection hasBodyWrapper={false} isFilled>
        <EmptyState titleText="This page cannot be shown" headingLevel="h1" data-testid="page-failed">
          <EmptyStateBody>
            The appliance was upgraded after you opened the page, or a part of the page did not load.
          </EmptyStateBody>
          <EmptyStateFooter>
            <EmptyStateActions>
              <Button
                onClick={() => {
                  window.location.reload();
                }}
              >
                Reload the page
              </Button>
            </EmptyStateActions>
          </EmptyStateFooter>
        </EmptyState>
      </PageSection>
    );
  }
}
