import { Card, CardBody, CardTitle, EmptyState, EmptyStateBody } from '@patternfly/react-core';
import { ActionsColumn, Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useState } from 'react';
import { useMay } from '../access/AccessProvider';
import { Confirm } from '../shell/Confirm';
import { save } from '../shell/download';
import { moment } from '../shell/quantities';
import type { Act } from '../shell/useAct';
import { useAction } from '../shell/useAction';
import { applyAgent, issueAgent, removeManagement, type ManagementCluster } from './api';

/** The management clusters, and when each was seen last. */
export const ManagementTable = ({ clusters, act }: { clusters: ManagementCluster[]; act: Act }) => {
  const [removed, setRemoved] = useState<string>();
  const { isRunning, run } = useAction();
  const mayChange = useMay('admin');
  if (clusters.length === 0) {
    return (
      <EmptyState titleText="No management clusters" headingLevel="h2" variant="sm">
        <EmptyStateBody>Hosted clusters wait until a cluster is used for their control planes.</EmptyStateBody>
      </EmptyState>
    );
  }
  return (
    <Card>
      <CardTitle component="h2">Management clusters</CardTitle>
      <CardBody>
        <Table aria-label="Management clusters" variant="compact">
          <Thead>
            <Tr>
              <Th>Name</Th>
              <Th>Connection</Th>
              <Th modifier="wrap">Hosted clusters</Th>
              <Th>Base domain</Th>
              <Th>Published by</Th>
              <Th>Layout</Th>
              <Th screenReaderText="Actions" />
            </Tr>
          </Thead>
          <Tbody>
            {clusters.map((cluster) => (
              <Tr key={cluster.consumer}>
                <Td dataLabel="Name">{cluster.consumer}</Td>
                <Td dataLabel="Connection">{connectionOf(cluster)}</Td>
                <Td dataLabel="Hosted clusters">{cluster.clusters}</Td>
                <Td dataLabel="Base domain">{cluster.base_domain}</Td>
                <Td dataLabel="Published by">
                  {cluster.publish} {cluster.address}
                </Td>
                <Td dataLabel="Layout">{cluster.layout}</Td>
                <Td isActionCell>
                  {mayChange && (
                    <ActionsColumn
                      items={[
                        ...(cluster.cluster_id
                          ? [
                              {
                                title: 'Apply the manifests of its agent',
                                isDisabled: isRunning,
                                onClick: () => void run(() => act(() => applyAgent(cluster.consumer))),
                              },
                            ]
                          : []),
                        {
                          title: 'Download the manifests of its agent',
                          isDisabled: isRunning,
                          onClick: () =>
                            void run(() =>
                              act(async () => {
                                save(`agent-${cluster.consumer}.yaml`, await issueAgent(cluster.consumer));
                              }),
                            ),
                        },
                        {
                          title: 'Stop using it',
                          onClick: () => {
                            setRemoved(cluster.consumer);
                          },
                        },
                      ]}
                    />
                  )}
                </Td>
              </Tr>
            ))}
          </Tbody>
        </Table>
        {removed !== undefined && (
          <Confirm
            title={`Stop using ${removed} for control planes?`}
            action="Stop using it"
            onConfirm={() => void act(() => removeManagement(removed))}
            onClose={() => {
              setRemoved(undefined);
            }}
          >
            Its agent is refused from then on. To use the cluster again, add it and apply new manifests of the agent.
          </Confirm>
        )}
      </CardBody>
    </Card>
  );
};

const connectionOf = ({ connected_since, seen_at, held, problems = [] }: ManagementCluster): string => {
  const connection = connected_since
    ? `connected since ${moment(connected_since)}`
    : `not connected, last seen: ${seen_at ? moment(seen_at) : 'never'}`;
  return [connection, ...(held ? [`Nothing is delivered: ${held}`] : []), ...problems]
    .map((sentence) => sentence.replace(/\.$/, ''))
    .join('. ');
};
