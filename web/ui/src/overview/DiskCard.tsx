import { Content, Label } from '@patternfly/react-core';
import { bytes, percentOf } from '../shell/quantities';
import type { Disk } from './api';
import { toneOfDisk } from './health';
import { OverviewCard } from './OverviewCard';
import { partsOf } from './words';

/** The disk with the appliance's data, and what takes its space. */
export const DiskCard = ({ disk: { free_bytes: free, total_bytes: total, path, parts } }: { disk: Disk }) => {
  const tone = toneOfDisk(free, total);
  return (
    <OverviewCard id="disk" title="Disk space">
      <Content component="p">
        {total === 0 ? 'The free space is unknown.' : `${bytes(free)} free of ${bytes(total)}`}{' '}
        {tone && (
          <Label isCompact status={tone}>
            {String(Math.round(percentOf(total - free, total)))} % used
          </Label>
        )}
      </Content>
      <ul className="landfall-lines">
        {partsOf(parts).map(({ name, bytes: size }) => (
          <li key={name} className="landfall-count">
            <span>{name}</span>
            <strong>{bytes(size)}</strong>
          </li>
        ))}
      </ul>
      <Content component="small" className="landfall-address">
        {path}
      </Content>
    </OverviewCard>
  );
};
