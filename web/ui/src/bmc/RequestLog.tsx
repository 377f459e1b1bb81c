import {
  Alert,
  Bullseye,
  Button,
  EmptyState,
  ExpandableSection,
  Label,
  Modal,
  ModalBody,
  ModalFooter,
  ModalHeader,
  Spinner,
} from '@patternfly/react-core';
import { useCallback, useState } from 'react';
import { sentenceOf } from '../shell/request';
import { useAnswer } from '../shell/useAnswer';
import { listSessions, type Session, type Server } from './api';
import { titleOf, transcript } from './words';

const wait = () => 3_000;

/** The requests to a server's BMC with their responses, the newest first; the first one is open. */
export const RequestLog = ({ server, onClose }: { server: Server; onClose: () => void }) => {
  const load = useCallback((signal: AbortSignal) => listSessions(server.id, signal), [server.id]);
  const { answer, error } = useAnswer(load, wait);
  return (
    <Modal isOpen variant="large" onClose={onClose} aria-label="Request log of the BMC">
      <ModalHeader
        title={`Request log of the BMC of ${server.name}`}
        description="The newest first, without secrets."
      />
      <ModalBody>
        {error && <Alert isInline variant="danger" title={sentenceOf(error)} />}
        {!answer && !error && (
          <Bullseye>
            <Spinner aria-label="Loading the request log" />
          </Bullseye>
        )}
        {answer?.length === 0 && <EmptyState titleText="No requests yet" headingLevel="h2" variant="sm" />}
        {answer?.map((session, i) => (
          <SessionLog key={session.id} session={session} open={i === 0} />
        ))}
      </ModalBody>
      <ModalFooter>
        <Button onClick={onClose}>Close</Button>
      </ModalFooter>
    </Modal>
  );
};

const SessionLog = ({ session, open }: { session: Session; open: boolean }) => {
  const [expanded, setExpanded] = useState(open);
  const { start, exchanges, outcome, left_out: left } = session;
  return (
    <ExpandableSection
      isExpanded={expanded}
      onToggle={(_event, now) => {
        setExpanded(now);
      }}
      toggleContent={
        <>
          <span className="landfall-subtle">{new Date(start).toLocaleString()}</span>{' '}
          <Label isCompact color={outcome ? 'red' : 'green'}>
            {outcome ? 'Failed' : 'Succeeded'}
          </Label>{' '}
          {titleOf(session)}
        </>
      }
      data-testid="bmc-session"
    >
      {exchanges.map((exchange, i) => (
        <pre
          key={`${exchange.at} ${String(i)}`}
          className="landfall-exchange"
          data-failed={!exchange.status || exchange.status >= 400}
        >
          {transcript(exchange)}
        </pre>
      ))}
      {left !== undefined && left > 0 && (
        <p className="landfall-subtle">{left} requests in the middle were not stored.</p>
      )}
    </ExpandableSection>
  );
};
