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
  FormSelect,
  FormSelectOption,
  TextInput,
} from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useState } from 'react';
import { ActionButton } from '../shell/ActionButton';
import { Confirm } from '../shell/Confirm';
import { LoadError } from '../shell/LoadError';
import { moment } from '../shell/quantities';
import type { Act } from '../shell/useAct';
import { useAnswer } from '../shell/useAnswer';
import { createToken, listTokens, revokeToken, roleNames, type Role, type Token } from './api';
import { RoleSelect } from './RoleSelect';
import { Scope } from './Scope';

const seldom = () => 30_000;
const day = 86_400_000;
const validities = [0, 30, 90, 365];

/** The tokens of programs. */
export const Tokens = ({ act }: { act: Act }) => {
  const { answer: tokens = [], error, refetch } = useAnswer(listTokens, seldom);
  const [name, setName] = useState('');
  const [role, setRole] = useState<Role>('operator');
  const [days, setDays] = useState(0);
  const [made, setMade] = useState('');
  const [revoking, setRevoking] = useState<Token>();
  const make = async () => {
    const expiry = days > 0 ? { expires_at: new Date(Date.now() + days * day).toISOString() } : {};
    await act(async () => {
      setMade((await createToken({ name, role, ...expiry })).token ?? '');
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
          <Alert
            isInline
            variant="info"
            className="pf-v6-u-mb-md"
            title="This token is shown once; the appliance stores only its digest."
          >
            <ClipboardCopy isReadOnly data-testid="new-token">
              {made}
            </ClipboardCopy>
          </Alert>
        )}
        <LoadError error={error} />
        {tokens.length > 0 && (
          <Table aria-label="Tokens of programs" variant="compact">
            <Thead>
              <Tr>
                <Th>Name</Th>
                <Th>Role</Th>
                <Th>May use</Th>
                <Th>Created</Th>
                <Th>Valid until</Th>
                <Th>Last use</Th>
                <Th screenReaderText="Actions" />
              </Tr>
            </Thead>
            <Tbody>
              {tokens.map((token) => (
                <Tr key={token.id}>
                  <Td dataLabel="Name">{token.name}</Td>
                  <Td dataLabel="Role">{roleNames[token.role]}</Td>
                  <Td dataLabel="May use">
                    <Scope of={token} />
                  </Td>
                  <Td dataLabel="Created">
                    {moment(token.created_at)}
                    {token.created_by && <div className="landfall-subtle">by {token.created_by}</div>}
                  </Td>
                  <Td dataLabel="Valid until">{token.expires_at ? moment(token.expires_at) : 'it is revoked'}</Td>
                  <Td dataLabel="Last use">{token.last_use ? moment(token.last_use) : 'never'}</Td>
                  <Td isActionCell>
                    <Button
                      variant="link"
                      isInline
                      isDanger
                      onClick={() => {
                        setRevoking(token);
                      }}
                    >
                      Revoke
                    </Button>
                  </Td>
                </Tr>
              ))}
            </Tbody>
          </Table>
        )}
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
            <FormSelect
              aria-label="Validity of the new token"
              value={days}
              onChange={(_event, chosen) => {
                setDays(Number(chosen));
              }}
            >
              {validities.map((one) => (
                <FormSelectOption
                  key={one}
                  value={one}
                  label={one === 0 ? 'valid until it is revoked' : `valid for ${String(one)} days`}
                />
              ))}
            </FormSelect>
          </FlexItem>
          <FlexItem>
            <ActionButton variant="secondary" isDisabled={name === ''} onAct={make}>
              Create a token
            </ActionButton>
          </FlexItem>
        </Flex>
      </CardBody>
      {revoking && (
        <Confirm
          title={`Revoke the token ${revoking.name}?`}
          action="Revoke"
          onClose={() => {
            setRevoking(undefined);
          }}
          onConfirm={() => void act(() => revokeToken(revoking.id)).then(refetch)}
        >
          Programs that use the token are refused at once.
        </Confirm>
      )}
    </Card>
  );
};
