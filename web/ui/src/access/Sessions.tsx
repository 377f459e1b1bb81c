import { Button, Card, CardBody, CardTitle, List, ListItem } from '@patternfly/react-core';
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
            <Button variant="link" isInline onClick={() => void act(() => endSession(session.id))}>
              End
            </Button>
          </ListItem>
        ))}
      </List>
    </CardBody>
  </Card>
);
