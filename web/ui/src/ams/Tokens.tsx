import {
  Alert,
  Button,
  Card,
  CardBody,
  CardTitle,
  ClipboardCopy,
  Content,
  List,
  ListItem,
} from '@patternfly/react-core';
import { useState } from 'react';
import { ActionButton } from '../shell/ActionButton';
import { Confirm } from '../shell/Confirm';
import { LoadError } from '../shell/LoadError';
import { moment } from '../shell/quantities';
import { useAnswer } from '../shell/useAnswer';
import type { Act } from '../shell/useAct';
import { listTokens, createToken, revokeToken } from './api';

const seldom = () => 30_000;
const year = 365;

/** The tokens for the ocm command and other programs that use this appliance instead of AMS. */
export const Tokens = ({ act }: { act: Act }) => {
  const { answer: tokens = [], error, refetch } = useAnswer(listTokens, seldom);
  const [made, setMade] = useState('');
  const [revoking, setRevoking] = useState<string>();
  const make = async () => {
    await act(async () => {
      setMade((await createToken(year)).token);
    });
    refetch();
  };
  return (
    <Card>
      <CardTitle>The ocm command at this site</CardTitle>
      <CardBody>
        <Content component="p">
          The appliance serves read requests to OpenShift Cluster Manager, so the ocm command works here without a
          connection. Log in to the appliance with its own tokens, never with a token from Red Hat.
        </Content>
        {made !== '' && (
          <Alert isInline variant="info" title="This token is shown once; the appliance stores only its digest.">
            <ClipboardCopy isReadOnly>{`ocm login --token ${made} --url ${window.location.origin}`}</ClipboardCopy>
          </Alert>
        )}
        <LoadError error={error} />
        <List isPlain aria-label="Tokens">
          {tokens.map(({ id, kind, username, read_only: readOnly, created_at: at, expires_at: until }) => (
            <ListItem key={id}>
              {id}: {kind}, {username}
              {readOnly && ', read-only'}, made {moment(at)}, valid {until ? `until ${moment(until)}` : 'forever'}{' '}
              <Button
                variant="link"
                isInline
                isDanger
                onClick={() => {
                  setRevoking(id);
                }}
              >
                Revoke
              </Button>
            </ListItem>
          ))}
        </List>
        <ActionButton variant="secondary" onAct={make}>
          Create a token
        </ActionButton>
      </CardBody>
      {revoking !== undefined && (
        <Confirm
          title={`Revoke the token ${revoking}?`}
          action="Revoke"
          onClose={() => {
            setRevoking(undefined);
          }}
          onConfirm={() => void act(() => revokeToken(revoking)).then(refetch)}
        >
          Programs that use the token are refused at once.
        </Confirm>
      )}
    </Card>
  );
};
