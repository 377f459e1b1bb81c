import { Button, Flex, FlexItem, Label, Progress as Bar, SearchInput } from '@patternfly/react-core';
import { ActionsColumn, Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useState } from 'react';
import { Link, useSearchParams } from 'react-router-dom-v5-compat';
import { useMay } from '../access/AccessProvider';
import { counted, stateOf } from '../overview/words';
import { asSentence, moment } from '../shell/quantities';
import { choicesOf } from '../shell/rows';
import { ChoiceFilter, SortingHeads, usePages, type Order } from '../shell/table';
import { DeleteDialog } from './DeleteDialog';
import {
  columns,
  filterOf,
  matches,
  queryOf,
  sorted,
  type ClusterRow,
  type Column,
  type Filter,
} from './list';
import { isInstalling } from './words';

type Props = { rows: ClusterRow[]; refetch: () => void };

/** The table of clusters with its filters and pages. */
export const ClusterTable = ({ rows, refetch }: Props) => {
  const [query, setQuery] = useSearchParams();
  const filter = filterOf(query);
  const [order, setOrder] = useState<Order<Column>>({ by: 'name', direction: 'asc' });
  const [deleted, setDeleted] = useState<ClusterRow>();
  const mayAct = useMay('operator');
  const found = sorted(
    rows.filter((row) => matches(row, filter)),
    order,
  );
  const { shown, first, control } = usePages(found, 20, 'Pages of the table of clusters');
  const change = (part: Partial<Filter>) => {
    setQuery(queryOf({ ...filter, ...part }), { replace: true });
    first();
  };
  return (
    <>
      <Filters rows={rows} filter={filter} change={change} />
      <Flex
        gap={{ default: 'gapMd' }}
        justifyContent={{ default: 'justifyContentSpaceBetween' }}
        className="landfall-hosts-bar"
      >
        <FlexItem role="status" data-testid="clusters-found">
          {found.length === rows.length
            ? counted(rows.length, 'cluster')
            : `${String(found.length)} of ${counted(rows.length, 'cluster')}`}
        </FlexItem>
        {control}
      </Flex>
      <Table variant="compact" gridBreakPoint="grid-lg" data-testid="clusters">
        <caption className="pf-v6-screen-reader">Clusters of the site. The headings sort the table.</caption>
        <Thead>
          <Tr>
            <SortingHeads columns={columns} order={order} onOrder={setOrder} />
            {mayAct && <Th screenReaderText="Actions" />}
          </Tr>
        </Thead>
        <Tbody>
          {shown.map((row) => (
            <Tr key={row.id} data-testid={`cluster-row-${row.name}`}>
              {columns.map(({ id, name }) => (
                <Td key={id} dataLabel={name} modifier="breakWord">
                  <Cell row={row} column={id} />
                </Td>
              ))}
              {mayAct && (
                <Td isActionCell>
                  <ActionsColumn
                    popperProps={{ position: 'right' }}
                    items={[
                      {
                        title: isInstalling(row.status) ? 'Delete: cancel the installation first' : 'Delete',
                        isAriaDisabled: isInstalling(row.status),
                        onClick: () => {
                          setDeleted(row);
                        },
                      },
                    ]}
                  />
                </Td>
              )}
            </Tr>
          ))}
          {shown.length === 0 && (
            <Tr>
              <Td colSpan={columns.length + 1}>
                No cluster matches the filters.{' '}
                <Button
                  variant="link"
                  isInline
                  onClick={() => {
                    change({ text: '', state: '', version: '' });
                  }}
                >
                  Clear the filters
                </Button>
              </Td>
            </Tr>
          )}
        </Tbody>
      </Table>
      {deleted && (
        <DeleteDialog
          cluster={deleted}
          onDone={refetch}
          onClose={() => {
            setDeleted(undefined);
          }}
        />
      )}
    </>
  );
};

type FilterProps = { rows: ClusterRow[]; filter: Filter; change: (part: Partial<Filter>) => void };

const Filters = ({ rows, filter, change }: FilterProps) => {
  const same = (name: string) => ({ value: name, name });
  return (
    <Flex gap={{ default: 'gapMd' }} role="search" aria-label="Filters of the clusters">
      <FlexItem className="landfall-hosts-search">
        <SearchInput
          aria-label="Name, domain, version or ID"
          placeholder="Name, domain, version"
          value={filter.text}
          onChange={(_event, text) => {
            change({ text });
          }}
          onClear={() => {
            change({ text: '' });
          }}
        />
      </FlexItem>
      <ChoiceFilter
        label="State"
        all="All states"
        choices={choicesOf(rows, ({ status }) => same(stateOf(status).text))}
        value={filter.state}
        onChange={(state) => {
          change({ state });
        }}
      />
      <ChoiceFilter
        label="OpenShift version"
        all="All versions"
        choices={choicesOf(rows, ({ openshift_version: version }) => same(version))}
        value={filter.version}
        onChange={(version) => {
          change({ version });
        }}
      />
    </Flex>
  );
};

const Cell = ({ row, column }: { row: ClusterRow; column: Column }) => {
  switch (column) {
    case 'name':
      return (
        <>
          <Link to={`/assisted-installer/clusters/${row.id}`}>{row.name}</Link>
          <div className="landfall-subtle">{row.base_dns_domain}</div>
        </>
      );
    case 'state':
      return <StateCell row={row} />;
    case 'version':
      return <>{row.openshift_version}</>;
    case 'hosts':
      return <>{row.hosts}</>;
    case 'created':
      return <>{moment(row.created_at)}</>;
  }
};

const StateCell = ({ row: { name, status, status_info: info, percent } }: { row: ClusterRow }) => {
  const { text, tone } = stateOf(status);
  const needsPerson = tone === 'danger' || tone === 'warning';
  return (
    <>
      <Label isCompact {...(tone && { status: tone })}>
        {text}
      </Label>
      {isInstalling(status) && (
        <Bar
          aria-label={`Installation of ${name}`}
          size="sm"
          value={percent}
          valueText={`${String(percent)} percent`}
          label={`${String(percent)} %`}
          measureLocation="outside"
        />
      )}
      {needsPerson && <div className="landfall-problem">{asSentence(info)}</div>}
    </>
  );
};
