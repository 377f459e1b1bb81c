import { Alert, DescriptionList, Progress, Stack, StackItem } from '@patternfly/react-core';
import { useState } from 'react';
import { Requires } from '../access/AccessProvider';
import { Fact } from '../image/Copyable';
import { ActionButton } from '../shell/ActionButton';
import { bytes } from '../shell/quantities';
import { SectionCard } from '../shell/SectionCard';
import type { Act } from '../shell/useAct';
import { collect, type Registry } from './api';
import { counted, roomOf } from './words';

type Props = { registry: Registry; act: Act };

/** What the registry has written to the appliance's disk, its limit, and the way to clean up. */
export const StorageCard = ({ registry, act }: Props) => {
  const { pushed_bytes: pushed, staged_bytes: copied, limit_bytes: limit, room_bytes: room } = registry;
  const [removed, setRemoved] = useState('');
  const used = pushed + copied;
  const clean = async () => {
    setRemoved('');
    await act(async () => {
      const { files, bytes: size } = await collect();
      setRemoved(files === 0 ? 'There was nothing to remove.' : `Removed ${counted(files, 'file')}, ${bytes(size)}.`);
    });
  };
  return (
    <SectionCard id="registry-storage" title="Storage">
      <Stack hasGutter>
        {limit > 0 && (
          <StackItem>
            <Progress
              title="Used of the limit"
              value={used}
              max={limit}
              label={`${bytes(used)} of ${bytes(limit)}`}
              {...(used >= limit && { variant: 'danger' })}
            />
          </StackItem>
        )}
        <StackItem>
          <DescriptionList isCompact isHorizontal aria-label="Storage of the registry">
            <Fact term="Pushed images">{bytes(pushed)}</Fact>
            <Fact term="Copies of media">{bytes(copied)}</Fact>
            <Fact term="Limit">{limit > 0 ? `${bytes(limit)} (registry.bytes)` : 'none'}</Fact>
            <Fact term="Room for copies">
              {roomOf(room)}
              {registry.room_limit && registry.room_limit !== 'nothing' && (
                <div className="landfall-subtle landfall-address">Limited by {registry.room_limit}</div>
              )}
            </Fact>
          </DescriptionList>
        </StackItem>
        <Requires role="admin">
          <StackItem>
            <ActionButton variant="secondary" onAct={clean}>
              Clean up
            </ActionButton>
            <div className="landfall-subtle pf-v6-u-mt-xs">
              Removes pushed blobs that no image needs, uploads that nobody continued for a day, and copies that were
              given up. Media are never changed.
            </div>
          </StackItem>
        </Requires>
        {removed !== '' && (
          <StackItem>
            <Alert isInline variant="success" title={removed} data-testid="removed" />
          </StackItem>
        )}
      </Stack>
    </SectionCard>
  );
};
