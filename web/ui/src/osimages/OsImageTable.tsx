import {
  Button,
  ClipboardCopy,
  DescriptionList,
  DescriptionListDescription,
  DescriptionListGroup,
  DescriptionListTerm,
  Label,
  MenuToggle,
  Popover,
  Progress,
  ProgressMeasureLocation,
} from '@patternfly/react-core';
import { ActionsColumn, ExpandableRowContent, Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import CheckCircleIcon from '@patternfly/react-icons/dist/esm/icons/check-circle-icon';
import EllipsisVIcon from '@patternfly/react-icons/dist/esm/icons/ellipsis-v-icon';
import ExclamationCircleIcon from '@patternfly/react-icons/dist/esm/icons/exclamation-circle-icon';
import InProgressIcon from '@patternfly/react-icons/dist/esm/icons/in-progress-icon';
import { useState, type ReactNode } from 'react';
import { useMay } from '../access/AccessProvider';
import { asSentence, bytes, exactBytes, percentOf } from '../shell/quantities';
import type { OsImage } from './api';
import { describeBoots, describeSource, whyNotRemovable } from './describe';

type Props = {
  images: OsImage[];
  onVerify: (image: OsImage) => void;
  onRemove: (image: OsImage) => void;
};

/** The table of base ISOs; a row expands to show all details. */
export const OsImageTable = ({ images, onVerify, onRemove }: Props) => {
  const [unfolded, setUnfolded] = useState<ReadonlySet<string>>(new Set());
  const toggle = (id: string) => {
    setUnfolded((last) => {
      const next = new Set(last);
      if (!next.delete(id)) {
        next.add(id);
      }
      return next;
    });
  };
  return (
    <Table aria-label="OS images" data-testid="os-images">
      <Thead>
        <Tr>
          <Th screenReaderText="Details" />
          <Th width={15}>OpenShift</Th>
          <Th width={15}>Architecture</Th>
          <Th width={25}>State</Th>
          <Th>Boots</Th>
          <Th modifier="wrap">Minimal image</Th>
          <Th>Size</Th>
          <Th screenReaderText="Actions" />
        </Tr>
      </Thead>
      {images.map((image, index) => (
        <Rows
          key={image.id}
          image={image}
          index={index}
          isUnfolded={unfolded.has(image.id)}
          onToggle={() => {
            toggle(image.id);
          }}
          onVerify={onVerify}
          onRemove={onRemove}
        />
      ))}
    </Table>
  );
};

type RowProps = Omit<Props, 'images'> & {
  image: OsImage;
  index: number;
  isUnfolded: boolean;
  onToggle: () => void;
};

const Rows = ({ image, index, isUnfolded, onToggle, onVerify, onRemove }: RowProps) => {
  const mayVerify = useMay('operator');
  const mayRemove = useMay('admin');
  return (
    <Tbody isExpanded={isUnfolded}>
      <Tr data-testid="os-image" data-state={image.state}>
        <Td
          expand={{
            rowIndex: index,
            isExpanded: isUnfolded,
            onToggle,
            expandId: 'os-image',
          }}
        />
        <Td dataLabel="OpenShift">{image.openshift_version || 'unknown'}</Td>
        <Td dataLabel="Architecture">{image.cpu_architecture || 'unknown'}</Td>
        <Td dataLabel="State">
          <State image={image} />
        </Td>
        <Td dataLabel="Boots">{describeBoots(image) || '–'}</Td>
        <Td dataLabel="Minimal image">
          <Minimal image={image} />
        </Td>
        <Td dataLabel="Size" modifier="nowrap">
          {image.size_bytes > 0 ? bytes(image.size_bytes) : '–'}
        </Td>
        <Td isActionCell>
          {mayVerify && (
            <ActionsColumn
              actionsToggle={({ onToggle, isOpen, isDisabled, toggleRef }) => (
                <MenuToggle
                  ref={toggleRef}
                  variant="plain"
                  icon={<EllipsisVIcon />}
                  aria-label={`Actions for ${nameOf(image)}`}
                  isExpanded={isOpen}
                  isDisabled={isDisabled}
                  onClick={onToggle}
                />
              )}
              items={[
                {
                  title: 'Verify',
                  description: 'Read the file again and compare its SHA-256',
                  isDisabled: image.state !== 'ready' && image.state !== 'bad',
                  onClick: () => {
                    onVerify(image);
                  },
                },
                ...(mayRemove
                  ? [
                      {
                        title: 'Remove',
                        description: whyNotRemovable(image),
                        isDisabled: !image.removable,
                        onClick: () => {
                          onRemove(image);
                        },
                      },
                    ]
                  : []),
              ]}
            />
          )}
        </Td>
      </Tr>
      <Tr isExpanded={isUnfolded}>
        <Td />
        <Td colSpan={7}>
          <ExpandableRowContent>{isUnfolded && <Details image={image} />}</ExpandableRowContent>
        </Td>
      </Tr>
    </Tbody>
  );
};

/** A name of the image for the user. */
export const nameOf = ({
  openshift_version: version,
  cpu_architecture: architecture,
  volume_id: volume,
}: OsImage): string =>
  [version && `OpenShift ${version}`, architecture].filter(Boolean).join(' ') || volume || 'the image';

const State = ({ image }: { image: OsImage }) => {
  const { state, message, done_bytes: done, total_bytes: total } = image;
  const doing = state === 'verifying' ? 'Verifying' : image.source === 'import' ? 'Uploading' : 'Downloading';
  switch (state) {
    case 'ready':
      return (
        <>
          <Label status="success" icon={<CheckCircleIcon />} variant="outline">
            Ready
          </Label>
          <Message>{message}</Message>
        </>
      );
    case 'bad':
      return (
        <>
          <Label status="danger" icon={<ExclamationCircleIcon />} variant="outline">
            Bad
          </Label>
          <Message>{message}</Message>
        </>
      );
    case 'downloading':
    case 'verifying':
      return total > 0 ? (
        <Progress
          size="sm"
          title={doing}
          value={percentOf(done, total)}
          label={`${bytes(done)} of ${bytes(total)}`}
          measureLocation={ProgressMeasureLocation.top}
          helperText={asSentence(message)}
          aria-label={doing}
        />
      ) : (
        <Activity message={message}>{doing}</Activity>
      );
    case 'waiting':
      return <Activity message={message}>Waiting</Activity>;
  }
};

const Activity = ({ message, children }: { message: string; children: string }) => (
  <>
    <Label icon={<InProgressIcon />} variant="outline">
      {children}
    </Label>
    <Message>{message}</Message>
  </>
);

const Message = ({ children }: { children: string }) =>
  children ? <div className="pf-v6-u-font-size-sm pf-v6-u-mt-xs">{asSentence(children)}</div> : null;

const Minimal = ({ image: { minimal, minimal_reason: reason, state } }: { image: OsImage }) => {
  if (minimal) {
    return <>Possible</>;
  }
  if (state !== 'ready') {
    return <>–</>;
  }
  return (
    <>
      Not possible{' '}
      {reason && (
        <Popover headerContent="Why there is no minimal image" bodyContent={asSentence(reason)}>
          <Button variant="link" isInline>
            Why?
          </Button>
        </Popover>
      )}
    </>
  );
};

const Details = ({ image }: { image: OsImage }) => (
  <DescriptionList isCompact isHorizontal aria-label={`Details of ${nameOf(image)}`}>
    <Fact term="Volume id">{image.volume_id}</Fact>
    <Fact term="CoreOS version">{image.coreos_version}</Fact>
    <Fact term="Source">{describeSource(image)}</Fact>
    <Fact term="Size">{image.size_bytes > 0 && exactBytes(image.size_bytes)}</Fact>
    <Fact term="SHA-256">
      {image.sha256 && (
        <span className="landfall-digest">
          <ClipboardCopy variant="inline-compact" isCode hoverTip="Copy" clickTip="Copied">
            {image.sha256}
          </ClipboardCopy>
        </span>
      )}
    </Fact>
    <Fact term="Minimal image">{asSentence(image.minimal_reason ?? '')}</Fact>
    <Fact term="Network boot">{asSentence(image.network_boot_reason ?? '')}</Fact>
    <Fact term="Used by">{`${String(image.in_use_by)} ${image.in_use_by === 1 ? 'infra-env' : 'infra-envs'}`}</Fact>
  </DescriptionList>
);

const Fact = ({ term, children }: { term: string; children: ReactNode }) =>
  children ? (
    <DescriptionListGroup>
      <DescriptionListTerm>{term}</DescriptionListTerm>
      <DescriptionListDescription>{children}</DescriptionListDescription>
    </DescriptionListGroup>
  ) : null;
