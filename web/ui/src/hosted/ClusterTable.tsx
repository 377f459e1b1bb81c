import { Card, CardBody, EmptyState, EmptyStateBody } from '@patternfly/react-core';
import { ActionsColumn, ExpandableRowContent, Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useState } from 'react';
import { useMay } from '../access/AccessProvider';
import { moment } from '../shell/quantities';
import type { Act } from '../shell/useAct';
import type { Cluster } from './api';
import { ClusterDetail } from './ClusterDetail';
import { DeleteDialog } from './DeleteDialog';
import { StateLabel } from './StateLabel';

type Props = { clusters: Cluster[]; act: Act; refetch: () => void };

/** All hosted clusters with their states, and what each waits for. */
export const ClusterTable = ({ clusters, act, refetch }: Props) => {
  const [open, setOpen] = useState<string>();
  const [removed, setRemoved] = useState<Cluster>();
  const mayRemove = useMay('operator');
  if (clusters.length === 0) {
    return (
      <EmptyState titleText="No hosted clusters" headingLevel="h2" variant="sm">
        <EmptyStateBody>A hosted cluster can be created before a management cluster is connected.</EmptyStateBody>
      </EmptyState>
    );
  }
  return (
    <Card>
      <CardBody>
        <Table aria-label="Hosted clusters" variant="compact">
          <Thead>
            <Tr>
              <Th screenReaderText="Details" />
              <Th>Name</Th>
              <Th width={40}>State</Th>
              <Th>Version</Th>
              <Th>Nodes</Th>
              <Th modifier="wrap">Management cluster</Th>
              <Th screenReaderText="Actions" />
            </Tr>
          </Thead>
          {clusters.map((cluster, index) => (
            <Tbody key={cluster.cid} isExpanded={open === cluster.cid}>
              <Tr>
                <Td
                  expand={{
                    rowIndex: index,
                    isExpanded: open === cluster.cid,
                    onToggle: () => {
                      setOpen(open === cluster.cid ? undefined : cluster.cid);
                    },
                  }}
                />
                <Td dataLabel="Name">{cluster.name}</Td>
                <Td dataLabel="State">
                  {/* In a narrow window, each child of a cell gets a column of its own. */}
                  <div>
                    <StateLabel state={cluster.state} /> {cluster.reason}
                    <div className="pf-v6-u-font-size-sm pf-v6-u-text-color-subtle">
                      {cluster.as_of ? `As of ${moment(cluster.as_of)}` : 'No report yet'}
                    </div>
                  </div>
                </Td>
                <Td dataLabel="Version">{cluster.version ?? cluster.wanted_version}</Td>
                <Td dataLabel="Nodes">{nodesOf(cluster)}</Td>
                <Td dataLabel="Management cluster">{cluster.management_cluster ?? ''}</Td>
                <Td isActionCell>
                  {mayRemove && cluster.state !== 'Deleting' && (
                    <ActionsColumn
                      items={[
                        {
                          title: 'Delete',
                          onClick: () => {
                            setRemoved(cluster);
                          },
                        },
                      ]}
                    />
                  )}
                </Td>
              </Tr>
              {open === cluster.cid && (
                <Tr isExpanded>
                  <Td colSpan={7}>
                    <ExpandableRowContent>
                      <ClusterDetail cluster={cluster} act={act} />
                    </ExpandableRowContent>
                  </Td>
                </Tr>
              )}
            </Tbody>
          ))}
        </Table>
        {removed && (
          <DeleteDialog
            cluster={removed}
            onSettled={refetch}
            onClose={() => {
              setRemoved(undefined);
            }}
          />
        )}
      </CardBody>
    </Card>
  );
};

const nodesOf = ({ node_pools }: Cluster): string => {
  const ready = node_pools.reduce((sum, pool) => sum + pool.ready, 0);
  const wanted = node_pools.reduce((sum, pool) => sum + pool.wanted, 0);
  return `${String(ready)} of ${String(wanted)}`;
};
