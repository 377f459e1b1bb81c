import { useEffect, useRef, type ComponentProps } from 'react';
import LibraryClusterWizard from 'ui-lib/ocm/components/clusterWizard/ClusterWizard';
import { useClusterWizardContext } from 'ui-lib/ocm/components/clusterWizard/ClusterWizardContext';

/**
 * The wizard of a cluster. Each step replaces all elements of the one before, and with them the
 * focus of the keyboard. So another step gets the focus at its heading.
 */
const ClusterWizard = (props: ComponentProps<typeof LibraryClusterWizard>) => {
  const { currentStepId } = useClusterWizardContext();
  const last = useRef(currentStepId);
  useEffect(() => {
    if (last.current === currentStepId) {
      return undefined;
    }
    last.current = currentStepId;
    return focusHeading();
  }, [currentStepId]);
  return <LibraryClusterWizard {...props} />;
};

export default ClusterWizard;

/** Focuses the heading of the step as soon as the step shows it. The result cancels that. */
const focusHeading = (): (() => void) => {
  const observer = new MutationObserver(() => {
    attempt();
  });
  const attempt = () => {
    const heading = document.querySelector<HTMLElement>('.cluster-wizard h2');
    if (heading) {
      observer.disconnect();
      heading.tabIndex = -1;
      heading.focus();
    }
  };
  observer.observe(document.body, { childList: true, subtree: true });
  attempt();
  return () => {
    observer.disconnect();
  };
};
