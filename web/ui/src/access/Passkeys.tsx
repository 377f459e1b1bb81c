import {
  Button,
  Card,
  CardBody,
  CardTitle,
  Content,
  Flex,
  FlexItem,
  List,
  ListItem,
  TextInput,
} from '@patternfly/react-core';
import { useState } from 'react';
import { ActionButton } from '../shell/ActionButton';
import { Confirm } from '../shell/Confirm';
import { LoadError } from '../shell/LoadError';
import { moment } from '../shell/quantities';
import type { Act } from '../shell/useAct';
import { useAnswer } from '../shell/useAnswer';
import { canUsePasskeys, deletePasskey, listPasskeys, registerPasskey, type Passkey } from './passkey';

const seldom = () => 30_000;
const nameOf = ({ label, host }: Passkey) => `${label || 'passkey'} for ${host}`;

/** The passkeys of the person at the page: a second factor after the password. */
export const Passkeys = ({ act }: { act: Act }) => {
  const { answer: passkeys = [], error, refetch } = useAnswer(listPasskeys, seldom);
  const [label, setLabel] = useState('');
  const [deleting, setDeleting] = useState<Passkey>();
  const change = (work: () => Promise<unknown>) => act(work).finally(refetch);
  return (
    <Card>
      <CardTitle>My passkeys</CardTitle>
      <CardBody>
        <Content component="p">
          With a passkey, a login needs this device or security key in addition to the password. It works without a
          connection.
          {!canUsePasskeys() && ' Passkeys need HTTPS and a DNS name: open the page at a name of the appliance.'}
        </Content>
        <LoadError error={error} />
        <List isPlain aria-label="Passkeys">
          {passkeys.map((passkey) => (
            <ListItem key={passkey.id}>
              {nameOf(passkey)}, made {moment(passkey.registered)}{' '}
              <Button
                variant="link"
                isInline
                isDanger
                onClick={() => {
                  setDeleting(passkey);
                }}
              >
                Delete
              </Button>
            </ListItem>
          ))}
        </List>
        {canUsePasskeys() && (
          <Flex className="landfall-row">
            <FlexItem>
              <TextInput
                aria-label="Label of the new passkey"
                placeholder="Label, such as office key"
                value={label}
                onChange={(_event, value) => {
                  setLabel(value);
                }}
              />
            </FlexItem>
            <FlexItem>
              <ActionButton variant="secondary" onAct={() => change(() => registerPasskey(label))}>
                Add a passkey
              </ActionButton>
            </FlexItem>
          </Flex>
        )}
      </CardBody>
      {deleting && (
        <Confirm
          title={`Delete ${nameOf(deleting)}?`}
          action="Delete"
          onClose={() => {
            setDeleting(undefined);
          }}
          onConfirm={() => void change(() => deletePasskey(deleting.id))}
        >
          Logins no longer need its device or security key. To use that again, add a passkey with it.
        </Confirm>
      )}
    </Card>
  );
};
