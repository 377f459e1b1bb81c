import { Alert, Content, Stack, StackItem } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { SectionCard } from '../shell/SectionCard';
import { Toned } from '../shell/Toned';
import { useAnswer } from '../shell/useAnswer';
import { readFleet, type Member, type Server } from './api';
import { lacks, leads, roleOf, sizeOf, stateOf, versionsDiffer } from './words';

const wait = () => 4_000;

/** The machines that are one appliance, and etcd. */
export const FleetCard = () => {
  const { answer, error } = useAnswer(readFleet, wait);
  if (!answer || answer.fleet === '') {
    return null;
  }
  return (
    <StackItem>
      <SectionCard id="overview-fleet" title="Fleet">
        <Stack hasGutter>
          <StackItem>
            <Content component="p">
              {leads(answer)} {answer.virtual_ip && `The virtual IP is ${answer.virtual_ip.address}. `}
              The log has {answer.records.toLocaleString('en')} records.
            </Content>
            <Alert isInline isPlain variant={answer.safe ? 'success' : 'warning'} title={answer.loss} />
            {answer.virtual_ip?.problem && (
              <Alert isInline isPlain variant="danger" title="Hosts may not reach the fleet at its virtual IP.">
                {answer.virtual_ip.problem}
              </Alert>
            )}
            {versionsDiffer(answer) && (
              <Alert isInline isPlain variant="warning" title="The members have different versions." />
            )}
            {(answer.problem ?? error) && (
              <Alert isInline isPlain variant="danger" title="The members are those that were known last.">
                {answer.problem}
              </Alert>
            )}
          </StackItem>
          <StackItem>
            <Members members={answer.members} />
          </StackItem>
          <StackItem>
            <Servers servers={answer.etcd_servers ?? []} />
          </StackItem>
        </Stack>
      </SectionCard>
    </StackItem>
  );
};

const Members = ({ members }: { members: Member[] }) => (
  <Table aria-label="Members of the fleet" variant="compact">
    <Thead>
      <Tr>
        <Th width={30}>Member</Th>
        <Th>Role</Th>
        <Th width={20}>Version</Th>
        <Th>Records</Th>
        <Th>Lacks</Th>
      </Tr>
    </Thead>
    <Tbody>
      {members.map((member) => (
        <Tr key={member.name}>
          <Td dataLabel="Member" modifier="breakWord">
            {member.name}
            <Content component="small">{member.url}</Content>
          </Td>
          <Td dataLabel="Role" modifier="breakWord">
            <Toned {...roleOf(member)} />
            {member.problem && <Content component="small">{member.problem}</Content>}
          </Td>
          <Td dataLabel="Version" modifier="breakWord">
            {member.version}
          </Td>
          <Td dataLabel="Records">{member.records.toLocaleString('en')}</Td>
          <Td dataLabel="Lacks" modifier="breakWord">
            {lacks(member)}
          </Td>
        </Tr>
      ))}
    </Tbody>
  </Table>
);

const Servers = ({ servers }: { servers: Server[] }) => (
  <Table aria-label="Servers of etcd" variant="compact">
    <Thead>
      <Tr>
        <Th>Server of etcd</Th>
        <Th>State</Th>
        <Th>Version</Th>
        <Th>Latency</Th>
        <Th>Database</Th>
      </Tr>
    </Thead>
    <Tbody>
      {servers.map((server) => (
        <Tr key={server.url}>
          <Td dataLabel="Server of etcd" modifier="breakWord">
            {server.url}
          </Td>
          <Td dataLabel="State" modifier="breakWord">
            <Toned {...stateOf(server)} />
            {server.problem && <Content component="small">{server.problem}</Content>}
          </Td>
          <Td dataLabel="Version">{server.version}</Td>
          <Td dataLabel="Latency">
            {server.problem ? '' : `${String(Math.ceil(server.latency_seconds * 1000))} ms`}
          </Td>
          <Td dataLabel="Database">{sizeOf(server)}</Td>
        </Tr>
      ))}
    </Tbody>
  </Table>
);
