import { Card, CardBody, CardTitle, List, ListItem } from '@patternfly/react-core';
import { ActionButton } from '../shell/ActionButton';
import { moment } from '../shell/quantities';
import type { Act } from '../shell/useAct';
import { endSession, type Session } from './api';

/** The open sessions. */
export const Sessions = ({ sessions, act }: { sessions: Session[]; act: Act }) => (
  <Card>
    <CardTitle>Sessions</CardTitle>
    <CardBody>
      <List isPlain aria-label="Sessions">
        {sessions.map((session) => (
          <ListItem key={session.id}>
            {session.name} from {session.address}
            {session.current && ' (this one)'}, last used {moment(session.last_use)}{' '}
            <ActionButton variant="link" isInline onAct={() => act(() => endSession(session.id))}>
              End
            </ActionButton>
          </ListItem>
        ))}
      </List>
    </CardBody>
  </Card>
);
