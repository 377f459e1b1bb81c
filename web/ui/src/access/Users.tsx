import { Button, Card, CardBody, CardTitle, Content, Flex, FlexItem, TextInput } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useState } from 'react';
import { ActionButton } from '../shell/ActionButton';
import { Confirm } from '../shell/Confirm';
import { LoadError } from '../shell/LoadError';
import { moment } from '../shell/quantities';
import type { Act } from '../shell/useAct';
import { useAction } from '../shell/useAction';
import { useAnswer } from '../shell/useAnswer';
import { useAccess } from './AccessProvider';
import { createUser, deleteUser, listUsers, updateUser, type Role } from './api';
import { RoleSelect } from './RoleSelect';
import { Scope } from './Scope';

const seldom = () => 30_000;
const nouns: Record<Role, string> = { viewer: 'a viewer', operator: 'an operator', admin: 'an administrator' };

/** The accounts of people. */
export const Users = ({ act }: { act: Act }) => {
  const { caller } = useAccess();
  const { answer: users, error, refetch } = useAnswer(listUsers, seldom);
  const [name, setName] = useState('');
  const [password, setPassword] = useState('');
  const [role, setRole] = useState<Role>('operator');
  const [disabling, setDisabling] = useState<string>();
  const [deleting, setDeleting] = useState<string>();
  const [assigned, setAssigned] = useState<{ name: string; role: Role }>();
  const { isRunning, run } = useAction();
  const change = (work: () => Promise<unknown>) => act(work).finally(refetch);
  const add = async () => {
    if (await change(() => createUser({ name, password, role }))) {
      setName('');
      setPassword('');
    }
  };
  return (
    <Card>
      <CardTitle>People</CardTitle>
      <CardBody>
        <LoadError error={error} />
        {users?.length === 0 && <Content component="p">No account yet.</Content>}
        {users && users.length > 0 && (
          <Table aria-label="People" variant="compact">
            <Thead>
              <Tr>
                <Th>Name</Th>
                <Th>Role</Th>
                <Th>May use</Th>
                <Th>Last login</Th>
                <Th screenReaderText="Actions" />
              </Tr>
            </Thead>
            <Tbody>
              {users.map((user) => (
                <Tr key={user.name}>
                  <Td dataLabel="Name">
                    {user.name}
                    {user.disabled && ' (disabled)'}
                    {user.issuer && ` (${user.issuer})`}
                  </Td>
                  <Td dataLabel="Role">
                    <RoleSelect
                      label={`Role of ${user.name}`}
                      value={user.role}
                      isDisabled={user.name === caller.name}
                      onChange={(chosen) => {
                        setAssigned({ name: user.name, role: chosen });
                      }}
                    />
                  </Td>
                  <Td dataLabel="May use">
                    <Scope of={user} />
                  </Td>
                  <Td dataLabel="Last login">{user.last_login ? moment(user.last_login) : 'never'}</Td>
                  <Td isActionCell modifier="nowrap">
                    {user.name !== caller.name && (
                      <>
                        {user.disabled ? (
                          <ActionButton
                            variant="link"
                            isInline
                            onAct={() => change(() => updateUser(user.name, { disabled: false }))}
                          >
                            Enable
                          </ActionButton>
                        ) : (
                          <Button
                            variant="link"
                            isInline
                            onClick={() => {
                              setDisabling(user.name);
                            }}
                          >
                            Disable
                          </Button>
                        )}{' '}
                        <Button
                          variant="link"
                          isInline
                          isDanger
                          onClick={() => {
                            setDeleting(user.name);
                          }}
                        >
                          Delete
                        </Button>
                      </>
                    )}
                  </Td>
                </Tr>
              ))}
            </Tbody>
          </Table>
        )}
        <form
          onSubmit={(event) => {
            event.preventDefault();
            void run(add);
          }}
        >
          <Flex className="landfall-row">
            <FlexItem>
              <TextInput
                aria-label="Name of the new account"
                placeholder="Name"
                value={name}
                autoComplete="username"
                onChange={(_event, value) => {
                  setName(value);
                }}
              />
            </FlexItem>
            <FlexItem>
              <TextInput
                aria-label="Password of the new account"
                placeholder="Password"
                type="password"
                autoComplete="new-password"
                value={password}
                onChange={(_event, value) => {
                  setPassword(value);
                }}
              />
            </FlexItem>
            <FlexItem>
              <RoleSelect label="Role of the new account" value={role} onChange={setRole} />
            </FlexItem>
            <FlexItem>
              <Button
                variant="secondary"
                type="submit"
                isDisabled={name === '' || password === ''}
                isAriaDisabled={isRunning}
                isLoading={isRunning}
              >
                Create an account
              </Button>
            </FlexItem>
          </Flex>
        </form>
      </CardBody>
      {assigned && (
        <Confirm
          title={`Make ${assigned.name} ${nouns[assigned.role]}?`}
          action="Change the role"
          onClose={() => {
            setAssigned(undefined);
          }}
          onConfirm={() => void change(() => updateUser(assigned.name, { role: assigned.role }))}
        >
          The sessions of the account end, and the person logs in again with the new role.
        </Confirm>
      )}
      {disabling !== undefined && (
        <Confirm
          title={`Disable the account ${disabling}?`}
          action="Disable"
          onClose={() => {
            setDisabling(undefined);
          }}
          onConfirm={() => void change(() => updateUser(disabling, { disabled: true }))}
        >
          The sessions of the account end, and the person cannot log in until the account is enabled again.
        </Confirm>
      )}
      {deleting !== undefined && (
        <Confirm
          title={`Delete the account ${deleting}?`}
          action="Delete"
          onClose={() => {
            setDeleting(undefined);
          }}
          onConfirm={() => void change(() => deleteUser(deleting))}
        >
          The sessions of the account end. Tokens that the person created stay valid.
        </Confirm>
      )}
    </Card>
  );
};
