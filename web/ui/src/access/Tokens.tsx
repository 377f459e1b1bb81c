import {
  Alert,
  Button,
  Card,
  CardBody,
  CardTitle,
  ClipboardCopy,
  Content,
  Flex,
  FlexItem,
  List,
  ListItem,
  TextInput,
} from '@patternfly/react-core';
import { useState } from 'react';
import { moment } from '../shell/quantities';
import type { Act } from '../shell/useAct';
import { useAnswer } from '../shell/useAnswer';
import { createToken, listTokens, revokeToken, type Role } from './api';
import { RoleSelect } from './RoleSelect';

const seldom = () => 30_000;

/** The tokens of programs. */
export const Tokens = ({ act }: { act: Act }) => {
  const { answer: tokens = [], refetch } = useAnswer(listTokens, seldom);
  const [name, setName] = useState('');
  const [role, setRole] = useState<Role>('operator');
  const [made, setMade] = useState('');
  const make = async () => {
    await act(async () => {
      setMade((await createToken({ name, role })).token ?? '');
      setName('');
    });
    refetch();
  };
  return (
    <Card>
      <CardTitle>Programs</CardTitle>
      <CardBody>
        <Content component="p">
          A program sends its token in the header Authorization: Bearer, or in the variable LANDFALL_TOKEN of the
          landfall command.
        </Content>
        {made !== '' && (
          <Alert isInline variant="info" title="This token is shown once; the appliance stores only its digest.">
            <ClipboardCopy isReadOnly data-testid="new-token">
              {made}
            </ClipboardCopy>
          </Alert>
        )}
        <List isPlain aria-label="Tokens of programs">
          {tokens.map((token) => (
            <ListItem key={token.id}>
              {token.name}: {token.role}, made {moment(token.created_at)}
              {token.created_by && ` by ${token.created_by}`}, valid{' '}
              {token.expires_at ? `until ${moment(token.expires_at)}` : 'until it is revoked'},{' '}
              {token.last_use ? `last used ${moment(token.last_use)}` : 'never used'}{' '}
              <Button variant="link" isInline onClick={() => void act(() => revokeToken(token.id)).then(refetch)}>
                Revoke
              </Button>
            </ListItem>
          ))}
        </List>
        <Flex className="landfall-row">
          <FlexItem>
            <TextInput
              aria-label="Name of the new token"
              placeholder="Name"
              value={name}
              onChange={(_event, value) => {
                setName(value);
              }}
            />
          </FlexItem>
          <FlexItem>
            <RoleSelect label="Role of the new token" value={role} onChange={setRole} />
          </FlexItem>
          <FlexItem>
            <Button variant="secondary" isDisabled={name === ''} onClick={() => void make()}>
              Create a token
            </Button>
          </FlexItem>
        </Flex>
      </CardBody>
    </Card>
  );
};
