import {
  Button,
  Card,
  CardBody,
  CardExpandableContent,
  CardHeader,
  CardTitle,
  Flex,
  Grid,
  GridItem,
  Label,
} from '@patternfly/react-core';
import { Requires, useMay } from '../access/AccessProvider';
import type { HostPreview } from './api';
import { HostForm } from './HostForm';
import { HostPreviewPanel } from './HostPreviewPanel';
import type { Described } from './hosts';

type Props = {
  number: number;
  described: Described;
  preview: HostPreview | undefined;
  isOpen: boolean;
  onToggle: () => void;
  onChange: (described: Described) => void;
  onRemove: () => void;
};

/** One host. If collapsed: its MAC and IP addresses. If expanded: the form and the preview. */
export const HostCard = ({ number, described, preview, isOpen, onToggle, onChange, onRemove }: Props) => {
  const id = `network-host-${String(number)}`;
  const mayEdit = useMay('operator');
  const title = `Host ${String(number)}`;
  return (
    <Card isCompact isExpanded={isOpen} data-testid="network-host">
      <CardHeader
        onExpand={onToggle}
        toggleButtonProps={{ id: `${id}-toggle`, 'aria-label': title, 'aria-expanded': isOpen }}
        actions={{
          actions: (
            <Requires role="operator">
              <Button variant="link" isInline aria-label={`Remove ${title}`} onClick={onRemove}>
                Remove
              </Button>
            </Requires>
          ),
        }}
      >
        <CardTitle component="h3">
          <Flex gap={{ default: 'gapSm' }}>
            <span>{title}</span>
            <span className="landfall-subtle">{described.host.nics.map(({ mac }) => mac).join(', ')}</span>
            {preview?.fault ? (
              <Label isCompact color="red">
                invalid
              </Label>
            ) : (
              preview?.addresses.map(({ address }) => (
                <Label isCompact key={address}>
                  {address}
                </Label>
              ))
            )}
          </Flex>
        </CardTitle>
      </CardHeader>
      <CardExpandableContent>
        <CardBody>
          {isOpen && (
            <Grid hasGutter>
              <GridItem lg={7}>
                <fieldset className="landfall-fields" disabled={!mayEdit}>
                  <HostForm id={id} described={described} onChange={onChange} />
                </fieldset>
              </GridItem>
              <GridItem lg={5}>
                <HostPreviewPanel preview={preview} />
              </GridItem>
            </Grid>
          )}
        </CardBody>
      </CardExpandableContent>
    </Card>
  );
};
