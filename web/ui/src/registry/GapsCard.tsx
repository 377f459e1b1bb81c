import { Content } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { SectionCard } from '../shell/SectionCard';
import { usePages } from '../shell/table';
import type { Gap } from './api';
import { counted } from './words';

const perPage = 20;

/** The images that nobody can pull completely, with the parts that lie on none of the media. */
export const GapsCard = ({ gaps }: { gaps: Gap[] }) => {
  const { shown, control } = usePages(gaps, perPage, 'Pages of incomplete images');
  return (
    <SectionCard id="registry-gaps" title="Incomplete images">
      {gaps.length === 0 ? (
        <Content component="p">Every image on the media is complete.</Content>
      ) : (
        <>
          <Content component="p">
            Parts of {counted(gaps.length, 'image')} lie on none of the known media. Plug in the archives with the rest;
            until then, pulls of these images fail.
          </Content>
          <Table aria-label="Incomplete images" variant="compact">
            <Thead>
              <Tr>
                <Th width={50}>Image</Th>
                <Th width={50}>Missing parts</Th>
              </Tr>
            </Thead>
            <Tbody>
              {shown.map(({ image, missing }) => (
                <Tr key={image} data-testid="gap">
                  <Td dataLabel="Image">
                    <div className="landfall-address">{image}</div>
                  </Td>
                  <Td dataLabel="Missing parts">
                    <div className="landfall-address">
                      {missing.length}, the first is {missing[0]}
                    </div>
                  </Td>
                </Tr>
              ))}
            </Tbody>
          </Table>
          {gaps.length > perPage && control}
        </>
      )}
    </SectionCard>
  );
};
