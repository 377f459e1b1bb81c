import {
  Button,
  Checkbox,
  Flex,
  FlexItem,
  Label,
  Modal,
  ModalBody,
  ModalFooter,
  ModalHeader,
  SearchInput,
} from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useState } from 'react';
import { Link, useSearchParams } from 'react-router-dom-v5-compat';
import { useMay } from '../access/AccessProvider';
import { asSentence, bytes, moment } from '../shell/quantities';
import { choicesOf, type Choice } from '../shell/rows';
import { ChoiceFilter, SortingHeads, usePages, type Order } from '../shell/table';
import type { HostRow } from './api';
import { HostActions } from './HostActions';
import { stateOf } from './states';
import {
  clockOf,
  columns,
  count,
  filterOf,
  keyOf,
  matches,
  noCluster,
  noFilter,
  problemOf,
  queryOf,
  roleName,
  roleOf,
  sorted,
  waitsForApproval,
  type Column,
  type Filter,
} from './table';

const storageKey = 'landfall-host-columns';

const storedColumns = (): Column[] => {
  const stored = localStorage.getItem(storageKey)?.split(',');
  return columns.filter(({ id, isDefault }) => (stored ? stored.includes(id) : isDefault)).map(({ id }) => id);
};

/** The table of hosts with its filters, columns, pages and actions. */
export const HostTable = ({ rows, refetch }: { rows: HostRow[]; refetch: () => void }) => {
  const [query, setQuery] = useSearchParams();
  const filter = filterOf(query);
  const [order, setOrder] = useState<Order<Column>>({ by: 'name', direction: 'asc' });
  const [shownColumns, setShownColumns] = useState(storedColumns);
  const [choosing, setChoosing] = useState(false);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const mayAct = useMay('operator');
  const found = sorted(
    rows.filter((host) => matches(host, filter)),
    order,
  );
  const { shown, first, control } = usePages(found, 50, 'Pages of the table of hosts');
  const chosen = found.filter((host) => selected.has(keyOf(host)));
  const heads = columns.filter(({ id }) => id === 'name' || shownColumns.includes(id));
  const change = (part: Partial<Filter>) => {
    setQuery(queryOf({ ...filter, ...part }), { replace: true });
    first();
  };
  const select = (hosts: HostRow[], isSelected: boolean) => {
    const next = new Set(selected);
    for (const host of hosts) {
      if (isSelected) {
        next.add(keyOf(host));
      } else {
        next.delete(keyOf(host));
      }
    }
    setSelected(next);
  };
  return (
    <>
      <Filters rows={rows} filter={filter} change={change} />
      <Flex
        gap={{ default: 'gapMd' }}
        justifyContent={{ default: 'justifyContentSpaceBetween' }}
        className="landfall-hosts-bar"
      >
        <FlexItem role="status" data-testid="hosts-found">
          {found.length === rows.length ? count(rows.length) : `${String(found.length)} of ${count(rows.length)}`}
          {chosen.length > 0 && `, ${String(chosen.length)} selected`}
        </FlexItem>
        <Button
          variant="link"
          isInline
          onClick={() => {
            setChoosing(true);
          }}
        >
          Choose columns
        </Button>
        {control}
      </Flex>
      {mayAct && (
        <HostActions
          hosts={chosen}
          label="Actions on the selected hosts"
          onDone={(removed) => {
            select(removed, false);
            refetch();
          }}
        />
      )}
      <Table variant="compact" gridBreakPoint="grid-lg" data-testid="hosts">
        <caption className="pf-v6-screen-reader">Hosts of the site. The headings sort the table.</caption>
        <Thead>
          <Tr>
            {mayAct && (
              <Th className="pf-v6-c-table__check">
                <Checkbox
                  id="hosts-all"
                  aria-label="Select all hosts of this page"
                  isChecked={shown.length > 0 && shown.every((host) => selected.has(keyOf(host)))}
                  onChange={(_event, isSelected) => {
                    select(shown, isSelected);
                  }}
                />
              </Th>
            )}
            <SortingHeads columns={heads} order={order} onOrder={setOrder} />
          </Tr>
        </Thead>
        <Tbody>
          {shown.map((host) => (
            <Tr key={keyOf(host)} data-testid="host" data-name={host.name}>
              {mayAct && (
                <Td className="pf-v6-c-table__check">
                  <Checkbox
                    id={`host-${keyOf(host)}`}
                    aria-label={`Select ${host.name}`}
                    isChecked={selected.has(keyOf(host))}
                    onChange={(_event, isSelected) => {
                      select([host], isSelected);
                    }}
                  />
                </Td>
              )}
              {heads.map(({ id, name }) => (
                <Td key={id} dataLabel={name} modifier={id === 'addresses' ? 'nowrap' : 'breakWord'}>
                  <Cell host={host} column={id} />
                </Td>
              ))}
            </Tr>
          ))}
          {shown.length === 0 && (
            <Tr>
              <Td colSpan={heads.length + 1}>
                No host matches the filters.{' '}
                <Button
                  variant="link"
                  isInline
                  onClick={() => {
                    change(noFilter);
                  }}
                >
                  Clear the filters
                </Button>{' '}
                <Link to="/hosts/missing">Why is my host not here?</Link>
              </Td>
            </Tr>
          )}
        </Tbody>
      </Table>
      {choosing && (
        <ColumnsDialog
          shown={shownColumns}
          onChange={(next) => {
            localStorage.setItem(storageKey, next.join(','));
            setShownColumns(next);
          }}
          onClose={() => {
            setChoosing(false);
          }}
        />
      )}
    </>
  );
};

const Filters = ({
  rows,
  filter,
  change,
}: {
  rows: HostRow[];
  filter: Filter;
  change: (part: Partial<Filter>) => void;
}) => {
  const states = choicesOf(rows, ({ status }) => ({ value: stateOf(status).name, name: stateOf(status).name }));
  const clusters = choicesOf(rows, (host) => ({
    value: host.cluster_id ?? noCluster,
    name: host.cluster_name ?? 'No cluster',
  }));
  const infraEnvs = choicesOf(rows, (host) => ({ value: host.infra_env_id, name: host.infra_env_name }));
  const roles = choicesOf(rows, ({ role }) => ({ value: role, name: roleName(role) }));
  const choice = (
    key: 'status' | 'cluster' | 'infraEnv' | 'role',
    label: string,
    all: string,
    choices: Choice[],
  ) => (
    <ChoiceFilter
      label={label}
      all={all}
      choices={choices}
      value={filter[key]}
      onChange={(value) => {
        change({ [key]: value });
      }}
    />
  );
  return (
    <Flex gap={{ default: 'gapMd' }} role="search" aria-label="Filters of the hosts">
      <FlexItem className="landfall-hosts-search">
        <SearchInput
          aria-label="Name, address, MAC or serial number"
          placeholder="Name, address, MAC, serial"
          value={filter.text}
          onChange={(_event, text) => {
            change({ text });
          }}
          onClear={() => {
            change({ text: '' });
          }}
        />
      </FlexItem>
      {choice('status', 'State', 'All states', states)}
      {choice('cluster', 'Cluster', 'All clusters', clusters)}
      {choice('infraEnv', 'Infra-env', 'All infra-envs', infraEnvs)}
      {choice('role', 'Role', 'All roles', roles)}
      <FlexItem alignSelf={{ default: 'alignSelfCenter' }}>
        <Checkbox
          id="hosts-problem"
          label="With a problem"
          isChecked={filter.problem}
          onChange={(_event, problem) => {
            change({ problem });
          }}
        />
      </FlexItem>
    </Flex>
  );
};

const Cell = ({ host, column }: { host: HostRow; column: Column }) => {
  const { hardware, bmc } = host;
  switch (column) {
    case 'name':
      return <Link to={`/hosts/${keyOf(host)}`}>{host.name}</Link>;
    case 'status':
      return <StateCell host={host} />;
    case 'role':
      return <>{roleOf(host)}</>;
    case 'cluster':
      return host.cluster_id ? (
        <Link to={`/assisted-installer/clusters/${host.cluster_id}`}>{host.cluster_name}</Link>
      ) : (
        <span className="landfall-subtle">None</span>
      );
    case 'infraEnv':
      return <>{host.infra_env_name}</>;
    case 'hardware':
      return <>{hardware ? hardwareOf(hardware) : 'Not reported yet'}</>;
    case 'addresses':
      return (
        <>
          {hardware?.addresses.slice(0, 3).map((address) => (
            <div key={address}>{address}</div>
          ))}
          {hardware && hardware.addresses.length > 3 && (
            <div className="landfall-subtle">{hardware.addresses.length - 3} more</div>
          )}
        </>
      );
    case 'serial':
      return <>{hardware?.serial_number}</>;
    case 'bmc':
      return <>{bmc?.name}</>;
    case 'contact':
      return <>{moment(host.last_contact)}</>;
    case 'clock':
      return <>{clockOf(host)}</>;
  }
};

export const hardwareOf = ({ cpus, memory_bytes: memory, disks, disk_bytes: size }: NonNullable<HostRow['hardware']>) =>
  `${String(cpus)} CPUs, ${bytes(memory)}, ${String(disks)} ${disks === 1 ? 'disk' : 'disks'} (${bytes(size)})`;

/** The state of a host, with its stage, and the reason if it needs a person. */
export const StateCell = ({ host }: { host: HostRow }) => {
  const { name, color } = stateOf(host.status);
  const problem = problemOf(host);
  const isInstalling = name === 'Installing' && host.stage;
  return (
    <div>
      <Label isCompact color={color}>
        {name}
      </Label>
      {waitsForApproval(host) && <div className="landfall-subtle">Not approved</div>}
      {isInstalling && (
        <div className="landfall-subtle">
          {host.stage}
          {host.installation_percentage ? `, ${String(host.installation_percentage)} %` : ''}
        </div>
      )}
      {problem !== '' && (
        <div className="landfall-problem">
          {asSentence(problem)}
          {(host.failing ?? 0) > 1 && ` ${String(host.failing)} checks have failed.`}
        </div>
      )}
    </div>
  );
};

const ColumnsDialog = ({
  shown,
  onChange,
  onClose,
}: {
  shown: Column[];
  onChange: (shown: Column[]) => void;
  onClose: () => void;
}) => (
  <Modal isOpen variant="small" onClose={onClose} aria-label="Choose columns">
    <ModalHeader title="Choose columns" />
    <ModalBody>
      {columns
        .filter(({ id }) => id !== 'name')
        .map(({ id, name }) => (
          <Checkbox
            key={id}
            id={`column-${id}`}
            label={name}
            isChecked={shown.includes(id)}
            onChange={(_event, isChecked) => {
              onChange(isChecked ? [...shown, id] : shown.filter((other) => other !== id));
            }}
          />
        ))}
    </ModalBody>
    <ModalFooter>
      <Button onClick={onClose}>Close</Button>
    </ModalFooter>
  </Modal>
);
