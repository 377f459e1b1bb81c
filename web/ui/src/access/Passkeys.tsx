import {
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
import { moment } from '../shell/quantities';
import type { Act } from '../shell/useAct';
import { useAnswer } from '../shell/useAnswer';
import { canUsePasskeys, deletePasskey, listPasskeys, registerPasskey } from './passkey';

const seldom = () => 30_000;

/** The passkeys of the person at the page: a second factor after the password. */
export const Passkeys = ({ act }: { act: Act }) => {
  const { answer: passkeys = [], refetch } = useAnswer(listPasskeys, seldom);
  const [label, setLabel] = useState('');
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
        <List isPlain aria-label="Passkeys">
          {passkeys.map((passkey) => (
            <ListItem key={passkey.id}>
              {passkey.label || 'passkey'} for {passkey.host}, made {moment(passkey.registered)}{' '}
              <ActionButton variant="link" isInline isDanger onAct={() => change(() => deletePasskey(passkey.id))}>
                Delete
              </ActionButton>
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
    </Card>
  );
};
