import { Td, Th, Tr } from '@patternfly/react-table';
import { TableCard } from '../shell/TableCard';
import type { Gap } from './api';
import { counted } from './words';

/** The images that nobody can pull completely, with the parts that lie on none of the media. */
export const GapsCard = ({ gaps }: { gaps: Gap[] }) => (
  <TableCard
    id="registry-gaps"
    title="Incomplete images"
    empty="Every image on the media is complete."
    about={
      <>
        Parts of {counted(gaps.length, 'image')} lie on none of the known media. Plug in the archives with the rest;
        until then, pulls of these images fail.
      </>
    }
    pages="Pages of incomplete images"
    heads={
      <>
        <Th width={50}>Image</Th>
        <Th width={50}>Missing parts</Th>
      </>
    }
    rows={gaps}
    row={({ image, missing }) => (
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
    )}
  />
);
