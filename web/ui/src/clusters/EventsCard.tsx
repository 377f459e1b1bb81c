import { Card, CardBody, CardTitle, Content, ExpandableSection, Label } from '@patternfly/react-core';
import { useCallback, useState } from 'react';
import { JournalLink } from '../journal/JournalLink';
import { useRefetchOn } from '../live/useRefetchOn';
import { asSentence, moment } from '../shell/quantities';
import { useAnswer } from '../shell/useAnswer';
import { listEvents } from './api';

const seldom = () => 60_000;

const severities = {
  info: undefined,
  warning: { name: 'Warning', color: 'orange' },
  error: { name: 'Error', color: 'red' },
  critical: { name: 'Critical', color: 'red' },
} as const;

/** The events of a cluster, when a person wants to see them. */
export const EventsCard = ({ clusterId }: { clusterId: string }) => {
  const [expanded, setExpanded] = useState(false);
  return (
    <Card component="section" aria-labelledby="cluster-events">
      <CardTitle>
        <h2 id="cluster-events" className="landfall-card-title">
          Events
        </h2>
      </CardTitle>
      <CardBody>
        {/* Above the events: a new one would move the link away from a click. */}
        <JournalLink clusterId={clusterId} />
        <ExpandableSection
          toggleText={expanded ? 'Hide the events' : 'Show the events'}
          isExpanded={expanded}
          onToggle={(_event, now) => {
            setExpanded(now);
          }}
        >
          {expanded && <Events clusterId={clusterId} />}
        </ExpandableSection>
      </CardBody>
    </Card>
  );
};

const Events = ({ clusterId }: { clusterId: string }) => {
  const load = useCallback((signal: AbortSignal) => listEvents(clusterId, signal), [clusterId]);
  const { answer, error, refetch } = useAnswer(load, seldom);
  useRefetchOn(['events'], refetch, { cluster: clusterId });
  if (!answer) {
    return <Content component="p">{error ? error.message : 'Reading the events.'}</Content>;
  }
  return (
    <ol className="landfall-events" aria-label="Events, the newest first" data-testid="cluster-events">
      {answer.map(({ event_time: at, severity, message }, i) => {
        const shown = severities[severity];
        return (
          <li key={`${at} ${String(answer.length - i)}`}>
            <span className="landfall-subtle">{moment(at)}</span>{' '}
            {shown && (
              <Label isCompact color={shown.color}>
                {shown.name}
              </Label>
            )}{' '}
            {asSentence(message)}
          </li>
        );
      })}
    </ol>
  );
};
