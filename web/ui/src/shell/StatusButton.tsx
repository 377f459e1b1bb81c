import {
  Button,
  DescriptionList,
  DescriptionListDescription,
  DescriptionListGroup,
  DescriptionListTerm,
  List,
  ListItem,
  Popover,
  Spinner,
} from '@patternfly/react-core';
import CheckCircleIcon from '@patternfly/react-icons/dist/esm/icons/check-circle-icon';
import ExclamationCircleIcon from '@patternfly/react-icons/dist/esm/icons/exclamation-circle-icon';
import InProgressIcon from '@patternfly/react-icons/dist/esm/icons/in-progress-icon';
import ServerIcon from '@patternfly/react-icons/dist/esm/icons/server-icon';
import type { ReactNode } from 'react';
import { Authority } from './Authority';
import { QRButton, isURL } from './QRButton';
import { getStatus, type OsImage, type Release, type Status } from './appliance';
import { useAnswer } from './useAnswer';

const always = () => 5_000;

/** Opens the appliance's status: version, addresses, live ISOs and releases. */
export const StatusButton = () => (
  <Popover
    headerContent="This appliance"
    bodyContent={<StatusFacts />}
    minWidth="28rem"
    position="bottom-end"
    aria-label="Status of the appliance"
  >
    <Button variant="plain" icon={<ServerIcon />} data-testid="status" className="landfall-status">
      Status
    </Button>
  </Popover>
);

const StatusFacts = () => {
  const { answer: status } = useAnswer(getStatus, always);
  return status ? <StatusList status={status} /> : <Spinner aria-label="Reading the status" />;
};

const StatusList = ({ status }: { status: Status }) => (
  <DescriptionList isCompact isHorizontal data-testid="status-facts">
    <Fact term="Version">{status.version}</Fact>
    <Fact term="Address for hosts">
      {status.url} {isURL(status.url) && <QRButton label="Address for hosts" url={status.url} />}
    </Fact>
    {status.addresses.length > 0 && <Fact term="Listen addresses">{status.addresses.join(', ')}</Fact>}
    {status.authority_fingerprint && (
      <Fact term="Authority">
        <Authority fingerprint={status.authority_fingerprint} />
      </Fact>
    )}
    <Fact term="Live ISOs">
      <Items items={status.os_images} none="none configured: no host can be discovered" />
    </Fact>
    <Fact term="Releases">
      <Items items={status.releases} none="none configured: no cluster can be installed" />
    </Fact>
  </DescriptionList>
);

const Fact = ({ term, children }: { term: string; children: ReactNode }) => (
  <DescriptionListGroup>
    <DescriptionListTerm>{term}</DescriptionListTerm>
    <DescriptionListDescription>{children}</DescriptionListDescription>
  </DescriptionListGroup>
);

const Items = ({ items, none }: { items: (OsImage | Release)[] | null; none: string }) => {
  if (!items?.length) {
    return <>{none}</>;
  }
  return (
    <List isPlain>
      {items.map((item) => (
        <ListItem
          key={`${item.openshift_version}/${item.cpu_architecture}`}
          icon={<StateIcon state={item.state ?? 'ready'} />}
        >
          {item.openshift_version} {item.cpu_architecture}
          {item.message ? `: ${item.message}` : ''}
        </ListItem>
      ))}
    </List>
  );
};

const StateIcon = ({ state }: { state: string }) => {
  switch (state) {
    case 'ready':
      return <CheckCircleIcon color="var(--pf-t--global--icon--color--status--success--default)" />;
    case 'error':
    case 'failed':
      return (
        <ExclamationCircleIcon color="var(--pf-t--global--icon--color--status--danger--default)" />
      );
    default:
      return <InProgressIcon />;
  }
};
