import { Alert, Button, Card, CardBody, CardTitle, ClipboardCopy, Content, List, ListItem } from '@patternfly/react-core';
import { useState } from 'react';
import { moment } from '../shell/quantities';
import { useAnswer } from '../shell/useAnswer';
import type { Act } from '../shell/useAct';
import { listTokens, makeToken, revokeToken } from './api';

const seldom = () => 30_000;
const year = 365;

/** The tokens by which the ocm command and other programs ask this appliance in AMS's place. */
export const Tokens = ({ act }: { act: Act }) => {
  const { answer: tokens = [], askAgain } = useAnswer(listTokens, seldom);
  const [made, setMade] = useState('');
  const make = async () => {
    await act(async () => {
      setMade((await makeToken(year)).token);
    });
    askAgain();
  };
  return (
    <Card>
      <CardTitle>The ocm command at this site</CardTitle>
      <CardBody>
        <Content component="p">
          The appliance answers what is read of OpenShift Cluster Manager itself, so the ocm command works here without a
          connection. Use tokens of the appliance for that, never one of Red Hat&apos;s.
        </Content>
        {made !== '' && (
          <Alert isInline variant="info" title="This is shown once; the appliance keeps only a digest of the token.">
            <ClipboardCopy isReadOnly>{`ocm login --token ${made} --url ${window.location.origin}`}</ClipboardCopy>
          </Alert>
        )}
        <List isPlain aria-label="Tokens">
          {tokens.map(({ id, kind, username, read_only: readOnly, created_at: at, expires_at: until }) => (
            <ListItem key={id}>
              {id}: {kind}, {username}
              {readOnly && ', may only read'}, made {moment(at)}, good {until ? `until ${moment(until)}` : 'for ever'}{' '}
              <Button
                variant="link"
                isInline
                onClick={() => void act(() => revokeToken(id)).then(askAgain)}
              >
                Revoke
              </Button>
            </ListItem>
          ))}
        </List>
        <Button variant="secondary" onClick={() => void make()}>
          Make a token
        </Button>
      </CardBody>
    </Card>
  );
};
