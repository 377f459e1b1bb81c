import { Alert, Button, Card, CardBody, CardTitle, Content, Stack, StackItem } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useCallback, useState } from 'react';
import { Requires } from '../access/AccessProvider';
import { stateOf } from '../hosts/states';
import { moment } from '../shell/quantities';
import { sentenceOf } from '../shell/request';
import { useAnswer } from '../shell/useAnswer';
import { listInfraEnvs, readWorkers, type InfraEnv, type WorkerHost, type WorkerSource } from './api';
import { WorkersDialog } from './WorkersDialog';

const often = () => 10_000;

const none: InfraEnv[] = [];

/** The hosts of this appliance that are offered as workers to a management cluster. */
export const WorkersCard = ({ consumer }: { consumer: string }) => {
  const load = useCallback((signal: AbortSignal) => readWorkers(consumer, signal), [consumer]);
  const { answer, error, refetch } = useAnswer(load, often);
  const { answer: known, error: listError } = useAnswer(listInfraEnvs, often);
  const infraEnvs = known ?? none;
  const [isOpen, setOpen] = useState(false);
  if (answer === undefined) {
    return error === undefined ? null : <Alert isInline variant="warning" title={sentenceOf(error)} />;
  }
  const { workers, hosts, problem, problem_since: since } = answer;
  return (
    <Card data-testid={`workers-${consumer}`}>
      <CardTitle component="h2">{`Workers on ${consumer}`}</CardTitle>
      <CardBody>
        <Stack hasGutter>
          {problem && (
            <StackItem>
              <Alert isInline variant="warning" title={problem} component="h3">
                {since && `Since ${moment(since)}`}
              </Alert>
            </StackItem>
          )}
          <StackItem>
            <Content component="p">{sourceOf(workers, infraEnvs)}</Content>
          </StackItem>
          {hosts.length > 0 && (
            <StackItem>
              <Hosts consumer={consumer} hosts={hosts} />
            </StackItem>
          )}
          <StackItem>
            <Requires role="admin">
              {/* A choice among infra-envs that are not known would end all offers. */}
              {listError && <Alert isInline isPlain variant="warning" title={sentenceOf(listError)} component="h3" />}
              <Button
                variant="secondary"
                isDisabled={known === undefined}
                onClick={() => {
                  setOpen(true);
                }}
              >
                {workers.length === 0 ? 'Offer hosts of this appliance' : 'Change the offered hosts'}
              </Button>
            </Requires>
          </StackItem>
        </Stack>
        {isOpen && (
          <WorkersDialog
            consumer={consumer}
            infraEnvs={infraEnvs}
            chosen={workers}
            onClose={() => {
              setOpen(false);
              refetch();
            }}
          />
        )}
      </CardBody>
    </Card>
  );
};

const sourceOf = (workers: WorkerSource[], infraEnvs: InfraEnv[]): string => {
  if (workers.length === 0) {
    return 'The hosts of its node pools come from its own assisted service.';
  }
  const names = workers.map(({ infra_env_id: id, profile }) => {
    const name = infraEnvs.find((env) => env.id === id)?.name ?? id;
    return `${name} with the profile ${profile}`;
  });
  return `Hosts of this appliance are offered from ${names.join(', ')}.`;
};

const Hosts = ({ consumer, hosts }: { consumer: string; hosts: WorkerHost[] }) => (
  <Table aria-label={`Workers on ${consumer}`} variant="compact">
    <Thead>
      <Tr>
        <Th>Host</Th>
        <Th>State</Th>
        <Th>Chosen for</Th>
        <Th width={40}>Problem</Th>
      </Tr>
    </Thead>
    <Tbody>
      {hosts.map((host) => (
        <Tr key={host.id}>
          <Td dataLabel="Host">{host.name ?? host.id}</Td>
          <Td dataLabel="State">{host.status ? stateOf(host.status).name : 'Unknown here'}</Td>
          <Td dataLabel="Chosen for">{host.cluster_deployment ?? 'No node pool'}</Td>
          <Td dataLabel="Problem">{host.problem ?? 'None'}</Td>
        </Tr>
      ))}
    </Tbody>
  </Table>
);
