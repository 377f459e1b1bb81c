import {
  Alert,
  Button,
  Flex,
  Label,
  List,
  ListItem,
  Progress,
  ProgressSize,
  Stack,
  StackItem,
} from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useState } from 'react';
import { Requires, useMay } from '../access/AccessProvider';
import { Confirm } from '../shell/Confirm';
import { moment } from '../shell/quantities';
import { SectionCard } from '../shell/SectionCard';
import type { Act } from '../shell/useAct';
import { cancelCopy, removeMedium, type Medium, type Registry, type Staging } from './api';
import { canCancel, canCopy, canRemove, contentOf, copyOf, formOf, noticesOf, releaseName, writtenOf } from './words';

type Props = {
  registry: Registry;
  act: Act;
  onAdd: () => void;
  onCopy: (medium: string) => void;
};

/** The media with what they hold, their copies on the disk, and what is wrong with them. */
export const MediaCard = ({ registry, act, onAdd, onCopy }: Props) => {
  const [cancelled, setCancelled] = useState<Medium>();
  const [removed, setRemoved] = useState<Medium>();
  const [removedPath, setRemovedPath] = useState<string>();
  const { media, added = [] } = registry;
  const notices = noticesOf(registry);
  if (media.length === 0 && notices.length === 0) {
    return null;
  }
  return (
    <SectionCard id="registry-media" title="Media">
      <Stack hasGutter>
        {media.length > 0 && (
          <StackItem>
            <Table aria-label="Media" variant="compact">
              <Thead>
                <Tr>
                  <Th width={30}>Medium</Th>
                  <Th width={15}>State</Th>
                  <Th width={20}>Content</Th>
                  <Th width={20}>Copy on the disk</Th>
                  <Th screenReaderText="Actions" />
                </Tr>
              </Thead>
              <Tbody>
                {media.map((medium) => (
                  <Row
                    key={`${medium.path} ${medium.label}`}
                    medium={medium}
                    onCopy={onCopy}
                    onCancel={() => {
                      setCancelled(medium);
                    }}
                    onRemove={() => {
                      setRemoved(medium);
                    }}
                  />
                ))}
              </Tbody>
            </Table>
          </StackItem>
        )}
        {notices.length > 0 && (
          <StackItem>
            <Stack hasGutter>
              {notices.map(({ tone, text }) => (
                <Alert key={text} isInline isPlain variant={tone} title={text} className="landfall-address" />
              ))}
            </Stack>
          </StackItem>
        )}
        {added.length > 0 && (
          <Requires role="admin">
            <StackItem>
              <List isPlain aria-label="Added paths">
                {added.map((path) => (
                  <ListItem key={path}>
                    Added path: <span className="landfall-address">{path}</span>{' '}
                    <Button
                      variant="link"
                      isInline
                      aria-label={`Remove the path ${path}`}
                      onClick={() => {
                        setRemovedPath(path);
                      }}
                    >
                      Remove the path
                    </Button>
                  </ListItem>
                ))}
              </List>
            </StackItem>
          </Requires>
        )}
        {media.length > 0 && (
          <Requires role="admin">
            <StackItem>
              <Flex gap={{ default: 'gapSm' }}>
                <Button variant="secondary" onClick={onAdd}>
                  Add media
                </Button>
                {media.filter(canCopy).length > 1 && (
                  <Button
                    variant="secondary"
                    onClick={() => {
                      onCopy('all');
                    }}
                  >
                    Copy all to the disk
                  </Button>
                )}
              </Flex>
            </StackItem>
          </Requires>
        )}
      </Stack>
      {cancelled && (
        <Confirm
          title={`Give up the copy of ${cancelled.label}?`}
          action="Give up the copy"
          dismiss="Keep the copy"
          onConfirm={() => void act(() => cancelCopy(cancelled.label))}
          onClose={() => {
            setCancelled(undefined);
          }}
        >
          What was copied is served until the storage is cleaned up. The medium must then stay plugged in.
        </Confirm>
      )}
      {removed && (
        <Confirm
          title={`Give up ${removed.label}?`}
          action="Give up the medium"
          dismiss="Keep the medium"
          onConfirm={() => void act(() => removeMedium(removed.label))}
          onClose={() => {
            setRemoved(undefined);
          }}
        >
          Images that only this medium has are no longer waited for. If it is plugged in again, it is served again.
        </Confirm>
      )}
      {removedPath !== undefined && (
        <Confirm
          title={`Remove the path ${removedPath}?`}
          action="Remove the path"
          dismiss="Keep the path"
          onConfirm={() => void act(() => removeMedium(removedPath))}
          onClose={() => {
            setRemovedPath(undefined);
          }}
        >
          The registry no longer serves the media at this path. The media are not changed, and their releases may still
          be used.
        </Confirm>
      )}
    </SectionCard>
  );
};

type RowProps = { medium: Medium; onCopy: (medium: string) => void; onCancel: () => void; onRemove: () => void };

const Row = ({ medium, onCopy, onCancel, onRemove }: RowProps) => {
  const mayCopy = useMay('admin');
  const { label, path, present, since, releases, staging } = medium;
  const written = writtenOf(medium);
  return (
    <Tr data-testid="medium">
      <Td dataLabel="Medium">
        <div className="landfall-address">{label}</div>
        <div className="landfall-subtle">{formOf(medium)}</div>
        <div className="landfall-subtle landfall-address">at {path}</div>
        {written && <div className="landfall-subtle">{written}</div>}
      </Td>
      <Td dataLabel="State">
        <Label isCompact status={present ? 'success' : 'warning'}>
          {present ? 'Present' : 'Missing'}
        </Label>
        <div className="landfall-subtle">since {moment(since)}</div>
      </Td>
      <Td dataLabel="Content">
        {releases.map((release) => (
          <div key={release.digest}>{releaseName(release)}</div>
        ))}
        <div className={releases.length > 0 ? 'landfall-subtle' : ''}>{contentOf(medium)}</div>
      </Td>
      <Td dataLabel="Copy on the disk">
        <Copy label={label} staging={staging} />
      </Td>
      <Td isActionCell>
        {mayCopy && (
          <Flex gap={{ default: 'gapSm' }} flexWrap={{ default: 'nowrap' }} className="landfall-nowrap">
            {canCopy(medium) && (
              <Button
                variant="link"
                isInline
                aria-label={`Copy to the disk: ${label}`}
                onClick={() => {
                  onCopy(label);
                }}
              >
                Copy to the disk
              </Button>
            )}
            {canCancel(medium) && (
              <Button variant="link" isInline aria-label={`Give up the copy of ${label}`} onClick={onCancel}>
                Give up the copy
              </Button>
            )}
            {canRemove(medium) && (
              <Button variant="link" isInline aria-label={`Give up ${label}`} onClick={onRemove}>
                Give up the medium
              </Button>
            )}
          </Flex>
        )}
      </Td>
    </Tr>
  );
};

/** How far a copy is. */
const Copy = ({ label, staging }: { label: string; staging: Staging }) => {
  const text = copyOf(staging);
  if (staging.state === 'whole') {
    return (
      <Label isCompact status="success">
        {text}
      </Label>
    );
  }
  if (staging.state === 'copying') {
    return (
      <Progress
        size={ProgressSize.sm}
        title={text}
        aria-label={`Copy of ${label}`}
        value={staging.done_bytes}
        max={Math.max(staging.total_bytes, 1)}
        measureLocation="none"
      />
    );
  }
  return <>{text || 'None'}</>;
};
