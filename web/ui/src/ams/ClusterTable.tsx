import {
  Button,
  Card,
  CardBody,
  CardTitle,
  EmptyState,
  EmptyStateBody,
  Flex,
  FlexItem,
  Label,
  Pagination,
  SearchInput,
  TextInput,
  ToggleGroup,
  ToggleGroupItem,
} from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useState } from 'react';
import { Link } from 'react-router-dom-v5-compat';
import { useAccess, useMay } from '../access/AccessProvider';
import { ActionButton } from '../shell/ActionButton';
import { Confirm } from '../shell/Confirm';
import { moment } from '../shell/quantities';
import type { Act } from '../shell/useAct';
import { orderCluster, type AmsStatus, type ClusterLine, type LineState, type Order, type Selection } from './api';
import { EditDialog } from './EditDialog';
import { confirmedText, lineStates, pendingText, remedy } from './words';

type Props = {
  status: AmsStatus;
  selection: Selection;
  select: (selection: Selection) => void;
  act: Act;
  changed: () => void;
};

const storageKey = 'landfall-name';

/**
 * All clusters: AMS's data, pending changes with their reasons, and clusters that need attention.
 */
export const ClusterTable = ({ status, selection, select, act, changed }: Props) => {
  const { open } = useAccess();
  const [by, setBy] = useState(() => localStorage.getItem(storageKey) ?? '');
  const [edited, setEdited] = useState<ClusterLine>();
  const [dropped, setDropped] = useState<ClusterLine>();
  const counts: [LineState | '', string][] = [
    ['', 'All'],
    ['attention', `${lineStates.attention.name} (${String(status.attention)})`],
    ['waiting', `${lineStates.waiting.name} (${String(status.waiting)})`],
    ['sent', `${lineStates.sent.name} (${String(status.sent)})`],
    ['left', `${lineStates.left.name} (${String(status.left)})`],
  ];
  // Otherwise the appliance knows who sends the request.
  const user = open ? by.trim() || 'A user of the page' : undefined;
  return (
    <Card>
      <CardTitle>Clusters</CardTitle>
      <CardBody>
        <Flex gap={{ default: 'gapMd' }}>
          <ToggleGroup aria-label="Clusters by state">
            {counts.map(([state, name]) => (
              <ToggleGroupItem
                key={name}
                text={name}
                isSelected={selection.state === state}
                onChange={() => {
                  select({ ...selection, state, offset: 0 });
                }}
              />
            ))}
          </ToggleGroup>
          <FlexItem>
            <SearchInput
              aria-label="Part of the name"
              placeholder="Part of the name"
              value={selection.name}
              onChange={(_event, name) => {
                select({ ...selection, name, offset: 0 });
              }}
              onClear={() => {
                select({ ...selection, name: '', offset: 0 });
              }}
            />
          </FlexItem>
          {open && (
            <FlexItem>
              <TextInput
                aria-label="Your name, for the events"
                placeholder="Your name, for the events"
                style={{ width: '16rem' }}
                value={by}
                onChange={(_event, name) => {
                  setBy(name);
                  localStorage.setItem(storageKey, name);
                }}
              />
            </FlexItem>
          )}
          {status.total > selection.limit && (
            <Pagination
              isCompact
              itemCount={status.total}
              perPage={selection.limit}
              page={selection.offset / selection.limit + 1}
              perPageOptions={[{ title: String(selection.limit), value: selection.limit }]}
              onSetPage={(_event, page) => {
                select({ ...selection, offset: (page - 1) * selection.limit });
              }}
            />
          )}
        </Flex>
        {status.clusters.length === 0 ? (
          <Nothing
            isFiltered={selection.name !== '' || selection.state !== '' || selection.offset > 0}
            clear={() => {
              select({ ...selection, name: '', state: '', offset: 0 });
            }}
          />
        ) : (
          <Table aria-label="Clusters in OpenShift Cluster Manager" variant="compact" gridBreakPoint="grid-lg">
            <Thead>
              <Tr>
                <Th>Cluster</Th>
                <Th width={30}>State</Th>
                <Th modifier="wrap">Confirmed</Th>
                <Th modifier="wrap">Pending</Th>
                <Th screenReaderText="Actions" />
              </Tr>
            </Thead>
            <Tbody>
              {status.clusters.map((line) => (
                <Row
                  key={line.cluster_id}
                  line={line}
                  off={status.state === 'off'}
                  order={(order) => act(() => orderCluster(line.cluster_id, order, user))}
                  edit={() => {
                    setEdited(line);
                  }}
                  drop={() => {
                    setDropped(line);
                  }}
                />
              ))}
            </Tbody>
          </Table>
        )}
        {dropped && (
          <Confirm
            title={`Drop the changes of ${dropped.name}?`}
            action="Drop"
            onClose={() => {
              setDropped(undefined);
            }}
            onConfirm={() => void act(() => orderCluster(dropped.cluster_id, 'leave', user))}
          >
            The pending changes and the edited values are not sent. OpenShift Cluster Manager keeps its state of the
            cluster until the cluster changes again.
          </Confirm>
        )}
        {edited && (
          <EditDialog
            line={edited}
            by={user}
            onClose={() => {
              setEdited(undefined);
              changed();
            }}
          />
        )}
      </CardBody>
    </Card>
  );
};

const Nothing = ({ isFiltered, clear }: { isFiltered: boolean; clear: () => void }) =>
  isFiltered ? (
    <EmptyState titleText="No cluster matches the filters" headingLevel="h2" variant="sm">
      <Button variant="link" onClick={clear}>
        Clear the filters
      </Button>
    </EmptyState>
  ) : (
    <EmptyState titleText="No clusters" headingLevel="h2" variant="sm">
      <EmptyStateBody>This site has no clusters for OpenShift Cluster Manager.</EmptyStateBody>
    </EmptyState>
  );

type RowProps = {
  line: ClusterLine;
  off: boolean;
  order: (order: Order) => Promise<unknown>;
  edit: () => void;
  drop: () => void;
};

const Row = ({ line, off, order, edit, drop }: RowProps) => {
  const { name, color } = lineStates[line.state];
  const todo = remedy(line);
  const stuck = line.state === 'attention';
  const mayRetry = useMay('operator');
  const administers = useMay('admin');
  return (
    <Tr data-testid="ams-cluster">
      <Td dataLabel="Cluster">
        {line.deleted ? line.name : <Link to={`/assisted-installer/clusters/${line.cluster_id}`}>{line.name}</Link>}
        <div className="landfall-subtle">{line.subscription_id}</div>
      </Td>
      <Td dataLabel="State">
        <Label color={color}>{name}</Label>
        {line.since && <div className="landfall-subtle">since {moment(line.since)}</div>}
        {line.reason && <div>{line.reason}</div>}
        {line.code && (
          <div className="landfall-subtle">
            {line.http} {line.code}, operation {line.operation_id}
          </div>
        )}
        {todo && <div data-testid="ams-todo">{todo}</div>}
        {line.note && <div className="landfall-subtle">{line.note}</div>}
      </Td>
      <Td dataLabel="Confirmed">{confirmedText(line)}</Td>
      <Td dataLabel="Pending">{pendingText(line)}</Td>
      <Td dataLabel="Actions" isActionCell>
        {!off && line.state !== 'left' && (
          <Flex gap={{ default: 'gapSm' }} flexWrap={{ default: 'nowrap' }}>
            {mayRetry && (stuck || line.state === 'waiting') && (
              <ActionButton variant="secondary" size="sm" onAct={() => order('retry')}>
                Try again
              </ActionButton>
            )}
            {administers && stuck && line.kind === 'attention' && (
              <ActionButton variant="secondary" size="sm" onAct={() => order('create-again')}>
                Create again
              </ActionButton>
            )}
            {administers && (
              <Button variant="link" size="sm" onClick={edit}>
                Edit
              </Button>
            )}
            {administers && line.state !== 'sent' && (
              <Button variant="link" size="sm" isDanger onClick={drop}>
                Drop
              </Button>
            )}
          </Flex>
        )}
      </Td>
    </Tr>
  );
};
