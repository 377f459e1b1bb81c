import {
  Alert,
  Button,
  Card,
  CardBody,
  CardTitle,
  Content,
  List,
  ListItem,
} from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useState } from 'react';
import { ActionButton } from '../shell/ActionButton';
import { Confirm } from '../shell/Confirm';
import { LoadError } from '../shell/LoadError';
import { moment } from '../shell/quantities';
import type { Act } from '../shell/useAct';
import { useAnswer } from '../shell/useAnswer';
import { useMay } from './AccessProvider';
import {
  acceptTokenless,
  listAgentTokens,
  renewTokens,
  revokeTokens,
  type AgentTokens,
  type HostOfToken,
} from './hosttokens';

const now = () => 10_000;
const hour = 3_600;

/** The tokens in the images of each infra-env, with which its hosts authenticate. */
export const HostTokens = ({ act }: { act: Act }) => {
  const { answer: all, error, refetch } = useAnswer(listAgentTokens, now);
  const [revoking, setRevoking] = useState<AgentTokens>();
  const [changed, setChanged] = useState<{ title: string; hosts: HostOfToken[] }>();
  const administers = useMay('admin');
  const change = async (title: string, work: () => Promise<HostOfToken[]>) => {
    await act(async () => {
      setChanged({ title, hosts: await work() });
    });
    refetch();
  };
  return (
    <Card>
      <CardTitle>Tokens of hosts</CardTitle>
      <CardBody>
        <Content component="p">
          The image of an infra-env contains a token, with which its hosts authenticate. Revoke the tokens if an image
          was lost or stolen.
        </Content>
        <LoadError error={error} />
        {changed && (
          <Alert isInline variant="info" title={changed.title} data-testid="token-change">
            {changed.hosts.length > 0
              ? `These hosts must boot the new image: ${changed.hosts.map(({ name, id }) => name || id).join(', ')}.`
              : 'No host has to boot again.'}
          </Alert>
        )}
        <Table aria-label="Tokens of hosts" variant="compact">
          <Thead>
            <Tr>
              <Th width={20}>Infra-env</Th>
              <Th width={40}>Token</Th>
              <Th>Hosts without a token</Th>
              <Th screenReaderText="Actions" />
            </Tr>
          </Thead>
          <Tbody>
            {all?.map((tokens) => (
              <Tr key={tokens.infra_env_id}>
                <Td dataLabel="Infra-env">{tokens.name}</Td>
                <Td dataLabel="Token">{validity(tokens)}</Td>
                <Td dataLabel="Hosts without a token">
                  <List isPlain>
                    {tokens.tokenless_hosts?.map(({ id, name }) => (
                      <ListItem key={id}>{name || id}</ListItem>
                    ))}
                  </List>
                  {tokens.tokenless_until && `Accepted until ${moment(tokens.tokenless_until)}. `}
                  {administers && (tokens.tokenless_hosts ?? []).length > 0 && !tokens.tokenless_until && (
                    <ActionButton
                      variant="link"
                      isInline
                      onAct={() =>
                        change('The hosts are accepted for an hour.', () => acceptTokenless(tokens.infra_env_id, hour))
                      }
                    >
                      Accept for an hour
                    </ActionButton>
                  )}
                </Td>
                <Td isActionCell modifier="nowrap">
                  <ActionButton
                    variant="link"
                    isInline
                    onAct={() =>
                      change('The token was renewed. The previous one is valid for a day.', () =>
                        renewTokens(tokens.infra_env_id),
                      )
                    }
                  >
                    Renew
                  </ActionButton>{' '}
                  <Button
                    variant="link"
                    isInline
                    isDanger
                    onClick={() => {
                      setRevoking(tokens);
                    }}
                  >
                    Revoke
                  </Button>
                </Td>
              </Tr>
            ))}
          </Tbody>
        </Table>
        {all?.length === 0 && <Content component="p">There is no infra-env yet.</Content>}
      </CardBody>
      {revoking && (
        <Confirm
          title={`Revoke all tokens of ${revoking.name}?`}
          action="Revoke"
          onClose={() => {
            setRevoking(undefined);
          }}
          onConfirm={() => {
            void change(`The tokens of ${revoking.name} are revoked.`, () => revokeTokens(revoking.infra_env_id));
          }}
        >
          Images that were downloaded before become useless. Hosts that booted from them can no longer report to the
          appliance; the appliance names them.
        </Confirm>
      )}
    </Card>
  );
};

const validity = ({ tokens_since: since, previous_until: until, renewed_at: renewed }: AgentTokens): string => {
  const parts = [
    since ? `Valid since ${moment(since)}` : 'Valid',
    renewed && `renewed ${moment(renewed)}`,
    until && `the previous one valid until ${moment(until)}`,
  ];
  return parts.filter(Boolean).join(', ');
};
