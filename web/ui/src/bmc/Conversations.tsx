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
import { listConversations, type Conversation, type Server } from './api';
import { titleOf, transcript } from './words';

const wait = () => 3_000;

/** The requests to a server's BMC with their responses, the newest first; the first one is open. */
export const Conversations = ({ server, onClose }: { server: Server; onClose: () => void }) => {
  const ask = useCallback((signal: AbortSignal) => listConversations(server.id, signal), [server.id]);
  const { answer, error } = useAnswer(ask, wait);
  return (
    <Modal isOpen variant="large" onClose={onClose} aria-label="Conversations with the BMC">
      <ModalHeader
        title={`Conversations with the BMC of ${server.name}`}
        description="The newest first, without secrets."
      />
      <ModalBody>
        {error && <Alert isInline variant="danger" title={sentenceOf(error)} />}
        {!answer && !error && (
          <Bullseye>
            <Spinner aria-label="Reading the conversations" />
          </Bullseye>
        )}
        {answer?.length === 0 && <EmptyState titleText="No conversations yet" headingLevel="h2" variant="sm" />}
        {answer?.map((conversation, i) => (
          <Talk key={conversation.id} conversation={conversation} open={i === 0} />
        ))}
      </ModalBody>
      <ModalFooter>
        <Button onClick={onClose}>Close</Button>
      </ModalFooter>
    </Modal>
  );
};

const Talk = ({ conversation, open }: { conversation: Conversation; open: boolean }) => {
  const [expanded, setExpanded] = useState(open);
  const { start, exchanges, outcome, left_out: left } = conversation;
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
          {titleOf(conversation)}
        </>
      }
      data-testid="bmc-conversation"
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
