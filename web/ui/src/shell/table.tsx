import { FlexItem, FormSelect, FormSelectOption, Pagination } from '@patternfly/react-core';
import { Th } from '@patternfly/react-table';
import { useState } from 'react';
import type { Choice } from './rows';

/** The column by which a table is sorted. */
export type Order<C extends string> = { by: C; direction: 'asc' | 'desc' };

type HeadsProps<C extends string> = {
  columns: { id: C; name: string }[];
  order: Order<C>;
  onOrder: (order: Order<C>) => void;
};

/** The headings of a table's columns, which sort the table. */
export const SortingHeads = <C extends string>({ columns, order: { by, direction }, onOrder }: HeadsProps<C>) => (
  <>
    {columns.map(({ id, name }, i) => (
      <Th
        key={id}
        sort={{
          columnIndex: i,
          sortBy: { index: columns.findIndex((column) => column.id === by), direction },
          onSort: (_event, _index, wanted) => {
            onOrder({ by: id, direction: wanted });
          },
        }}
      >
        {name}
      </Th>
    ))}
  </>
);

/**
 * The rows of the page that a table shows, the control to choose another page, and a function to
 * return to the first page.
 */
export const usePages = <T,>(rows: T[], perPageAtFirst: number, label: string) => {
  const [wanted, setWanted] = useState(1);
  const [perPage, setPerPage] = useState(perPageAtFirst);
  const page = Math.min(wanted, Math.max(1, Math.ceil(rows.length / perPage)));
  const first = () => {
    setWanted(1);
  };
  const control = (
    <Pagination
      itemCount={rows.length}
      perPage={perPage}
      page={page}
      onSetPage={(_event, next) => {
        setWanted(next);
      }}
      onPerPageSelect={(_event, next) => {
        setPerPage(next);
        first();
      }}
      titles={{ paginationAriaLabel: label }}
      // Without it, PatternFly hides the buttons for other pages in a narrow or magnified window.
      className="pf-m-display-full"
      isCompact
    />
  );
  return { shown: rows.slice((page - 1) * perPage, page * perPage), first, control };
};

type ChoiceProps = {
  label: string;
  /** The name of the choice of all rows, whose value is ''. */
  all: string;
  choices: Choice[];
  value: string;
  onChange: (value: string) => void;
};

/** A filter of a table's rows. A chosen value stays visible when no row has it any more. */
export const ChoiceFilter = ({ label, all, choices, value: chosen, onChange }: ChoiceProps) => (
  <FlexItem>
    <FormSelect
      aria-label={label}
      value={chosen}
      onChange={(_event, value) => {
        onChange(value);
      }}
    >
      <FormSelectOption value="" label={all} />
      {choices.map(({ value, name, count }) => (
        <FormSelectOption key={value} value={value} label={`${name} (${String(count)})`} />
      ))}
      {chosen !== '' && !choices.some(({ value }) => value === chosen) && (
        <FormSelectOption value={chosen} label={`${chosen} (0)`} />
      )}
    </FormSelect>
  </FlexItem>
);
