import { Alert, Card, CardBody, ExpandableSection, Flex, PageSection } from '@patternfly/react-core';
import { useState } from 'react';
import { BlockerList, Warnings } from './BlockerList';
import { blockersOf, verdictOf } from './blockers';
import { FencingPanel } from './FencingPanel';
import { useReviewShown } from './reviewShown';
import { Trials } from './Trials';
import { useReadiness } from './useReadiness';

/**
 * What blocks the installation of a cluster, and ways to try it, on each step of the wizard. The
 * last step has both of its own.
 */
export const ReadinessCard = ({ id, status }: { id: string; status: string }) => {
  const { answer, refetch } = useReadiness(id);
  const [expanded, setExpanded] = useState(false);
  const [isReviewShown] = useReviewShown();
  if (!answer || isReviewShown) {
    return null;
  }
  const blockers = blockersOf(answer);
  const isReady = status === 'ready';
  return (
    <PageSection hasBodyWrapper={false} className="landfall-readiness">
      <Card isCompact component="section" aria-label="Readiness of the cluster" data-testid="readiness">
        <CardBody>
          <Flex gap={{ default: 'gapMd' }} alignItems={{ default: 'alignItemsCenter' }}>
            <Alert
              isInline
              isPlain
              variant={isReady ? 'success' : 'info'}
              title={<span role="status">{verdictOf(isReady, blockers)}</span>}
              component="h2"
            />
            <Trials id={id} />
          </Flex>
          <Warnings readiness={answer} />
          <FencingPanel readiness={answer} onSet={refetch} />
          {!isReady && blockers.length > 0 && (
            <ExpandableSection
              toggleText={expanded ? 'Hide what blocks the installation' : 'Show what blocks the installation'}
              isExpanded={expanded}
              onToggle={(_event, now) => {
                setExpanded(now);
              }}
            >
              <BlockerList blockers={blockers} />
            </ExpandableSection>
          )}
        </CardBody>
      </Card>
    </PageSection>
  );
};
