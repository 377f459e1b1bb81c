import { Content } from '@patternfly/react-core';
import { Table, Tbody, Thead, Tr } from '@patternfly/react-table';
import type { ReactNode } from 'react';
import { SectionCard } from './SectionCard';
import { usePages } from './table';

const perPage = 20;

type Props<T> = {
  id: string;
  /** The name of the card and of its table. */
  title: string;
  /** The sentence without rows. */
  empty: string;
  /** What is above the table. */
  about?: ReactNode;
  /** The headings of the columns. */
  heads: ReactNode;
  rows: T[];
  row: (row: T) => ReactNode;
  /** The name of the control to choose another page of the table. */
  pages: string;
};

/** A card with a table, or a sentence without rows. */
export const TableCard = <T,>({ id, title, empty, about, heads, rows, row, pages }: Props<T>) => {
  const { shown, control } = usePages(rows, perPage, pages);
  return (
    <SectionCard id={id} title={title}>
      {rows.length === 0 ? (
        <Content component="p">{empty}</Content>
      ) : (
        <>
          {about && <Content component="p">{about}</Content>}
          <Table aria-label={title} variant="compact">
            <Thead>
              <Tr>{heads}</Tr>
            </Thead>
            <Tbody>{shown.map(row)}</Tbody>
          </Table>
          {rows.length > perPage && control}
        </>
      )}
    </SectionCard>
  );
};
