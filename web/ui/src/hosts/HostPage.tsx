import {
  Alert,
  Breadcrumb,
  BreadcrumbItem,
  Button,
  Card,
  CardBody,
  CardTitle,
  Content,
  DescriptionList,
  ExpandableSection,
  Label,
  PageSection,
  Stack,
  StackItem,
} from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useCallback, useEffect, useState, type ReactNode } from 'react';
import { Link, useParams } from 'react-router-dom-v5-compat';
import { Requires, useIsLimited } from '../access/AccessProvider';
import { listServers, type Server } from '../bmc/api';
import { RequestLog } from '../bmc/RequestLog';
import { powerOf } from '../bmc/words';
import { Fact } from '../image/Copyable';
import { ImageReads } from '../image/ImageReads';
import { useLive } from '../live/LiveProvider';
import { Refresh } from '../live/refresh';
import { asSentence, bytes, moment } from '../shell/quantities';
import { PageStatus } from '../shell/PageStatus';
import { useAnswer } from '../shell/useAnswer';
import { usePageTitle } from '../shell/usePageTitle';
import { listEvents, listHosts, logsUrl, readDetails, type HostDetails, type HostEvent, type HostRow } from './api';
import { checkName, checksOf, inventoryOf, linksOf, type Check, type Inventory } from './details';
import { HostActions } from './HostActions';
import { hardwareOf, StateCell } from './HostTable';
import { clockOf, problemOf, roleOf } from './table';

type Story = { row: HostRow | undefined; details: HostDetails | undefined; events: HostEvent[] };

const wait = () => 30_000;

const loadStory = async (infraEnvId: string, id: string, signal: AbortSignal): Promise<Story> => {
  const row = (await listHosts([id], signal)).find((host) => host.infra_env_id === infraEnvId);
  if (!row) {
    return { row, details: undefined, events: [] };
  }
  const [details, events] = await Promise.all([
    readDetails(infraEnvId, id, signal),
    listEvents(infraEnvId, id, signal),
  ]);
  return { row, details, events };
};

/** The whole story of one host. */
const HostPage = () => {
  const { infraEnvId = '', id = '' } = useParams();
  const load = useCallback((signal: AbortSignal) => loadStory(infraEnvId, id, signal), [infraEnvId, id]);
  const { answer, error, refetch } = useAnswer(load, wait);
  const live = useLive();
  useEffect(() => {
    const refresh = new Refresh(refetch);
    const leave = live.subscribe((notice) => {
      if (notice === 'everything' || (notice.kind === 'hosts' && notice.id === id)) {
        refresh.changed();
      }
    });
    return () => {
      leave();
      refresh.stop();
    };
  }, [live, refetch, id]);
  const row = answer?.row;
  const name = row?.name ?? id;
  usePageTitle(name);
  return (
    <>
      <PageSection hasBodyWrapper={false}>
        <Breadcrumb aria-label="Path">
          <BreadcrumbItem>
            <Link to="/hosts">Hosts</Link>
          </BreadcrumbItem>
          <BreadcrumbItem isActive>{name}</BreadcrumbItem>
        </Breadcrumb>
        <Content component="h1">{name}</Content>
        {row && (
          <Requires role="operator">
            <HostActions
              hosts={[row]}
              label={`Actions on ${name}`}
              onDone={() => {
                refetch();
              }}
            />
          </Requires>
        )}
      </PageSection>
      <PageSection hasBodyWrapper={false} isFilled>
        <Stack hasGutter>
          <PageStatus failure="" error={error} hasAnswer={answer !== undefined} waiting="Reading the host" />
          {answer && !row && (
            <Alert isInline variant="warning" title="There is no such host any more.">
              It was removed, or it registered again with the image of another infra-env.{' '}
              <Link to="/hosts/missing">Why is my host not here?</Link>
            </Alert>
          )}
          {row && answer.details && <Sections row={row} details={answer.details} events={answer.events} />}
        </Stack>
      </PageSection>
    </>
  );
};

const Section = ({ title, children }: { title: string; children: ReactNode }) => (
  <StackItem>
    <Card component="section" aria-label={title}>
      <CardTitle component="h2">{title}</CardTitle>
      <CardBody>{children}</CardBody>
    </Card>
  </StackItem>
);

const Sections = ({ row, details, events }: { row: HostRow; details: HostDetails; events: HostEvent[] }) => {
  const inventory = inventoryOf(details);
  return (
    <>
      <Section title="State">
        <State row={row} details={details} />
      </Section>
      <Section title="Checks">
        <Checks checks={checksOf(details)} />
      </Section>
      {inventory && (
        <>
          <Section title="Hardware">
            <Hardware row={row} inventory={inventory} />
          </Section>
          <Section title="Disks">
            <Disks inventory={inventory} chosen={details.installation_disk_id ?? ''} />
          </Section>
          <Section title="Networks">
            <Networks name={row.name} inventory={inventory} />
          </Section>
        </>
      )}
      {row.bmc && (
        <Section title="BMC">
          <Bmc bmc={row.bmc} />
        </Section>
      )}
      <Section title="Reads of the image">
        <Content component="p">The machines that read the image of infra-env {row.infra_env_name}.</Content>
        <ImageReads infraEnvId={row.infra_env_id} />
      </Section>
      <Section title="Events">
        <Events events={events} />
        {row.cluster_id && details.logs_collected_at && !details.logs_collected_at.startsWith('0001') && (
          <Button component="a" variant="secondary" href={logsUrl(row.cluster_id, row.id)} download>
            Download the logs
          </Button>
        )}
      </Section>
    </>
  );
};

const State = ({ row, details }: { row: HostRow; details: HostDetails }) => (
  <DescriptionList isHorizontal>
    <Fact term="State">
      <StateCell host={row} />
      {![problemOf(row), row.stage].some((shown) => shown && row.status_info.includes(shown)) && (
        <div className="landfall-subtle">{asSentence(row.status_info)}</div>
      )}
    </Fact>
    <Fact term="Cluster">
      {row.cluster_id ? (
        <Link to={`/assisted-installer/clusters/${row.cluster_id}`}>{row.cluster_name}</Link>
      ) : (
        'None'
      )}
    </Fact>
    <Fact term="Infra-env">{row.infra_env_name}</Fact>
    <Fact term="Role">{roleOf(row)}</Fact>
    <Fact term="Last contact">{moment(row.last_contact)}</Fact>
    <Fact term="Registered">{moment(row.registered_at)}</Fact>
    <Fact term="Clock">{clockOf(row) || 'Not reported yet'}</Fact>
    <Fact term="Installation disk">{details.installation_disk_path ?? 'Not chosen yet'}</Fact>
    <Fact term="ID">
      <code>{row.id}</code>
    </Fact>
  </DescriptionList>
);

const statuses = {
  failure: { name: 'Failed', color: 'red' },
  error: { name: 'Failed', color: 'red' },
  pending: { name: 'Pending', color: 'grey' },
  disabled: { name: 'Disabled', color: 'grey' },
  success: { name: 'Passed', color: 'green' },
} as const;

/** The checks of the host. Passed ones are folded. */
const Checks = ({ checks }: { checks: Check[] }) => {
  const [expanded, setExpanded] = useState(false);
  const passed = checks.filter(({ status }) => status === 'success' || status === 'disabled');
  const open = checks.filter((check) => !passed.includes(check));
  if (checks.length === 0) {
    return <Content component="p">No check has run yet.</Content>;
  }
  return (
    <>
      {open.length === 0 ? (
        <Content component="p">All checks have passed.</Content>
      ) : (
        <CheckList checks={open} label="Failed and pending checks" />
      )}
      <ExpandableSection
        toggleText={expanded ? 'Hide passed checks' : `Show passed checks (${String(passed.length)})`}
        isExpanded={expanded}
        onToggle={(_event, now) => {
          setExpanded(now);
        }}
      >
        <CheckList checks={passed} label="Passed checks" />
      </ExpandableSection>
    </>
  );
};

const CheckList = ({ checks, label }: { checks: Check[]; label: string }) => (
  <ul className="landfall-checks" aria-label={label}>
    {checks.map(({ id, status, message }) => (
      <li key={id} data-testid="host-check" data-status={status}>
        <Label isCompact color={statuses[status].color}>
          {statuses[status].name}
        </Label>{' '}
        <strong>{checkName(id)}</strong>
        <div>{asSentence(message)}</div>
      </li>
    ))}
  </ul>
);

const Hardware = ({ row: { hardware }, inventory }: { row: HostRow; inventory: Inventory }) => (
  <DescriptionList isHorizontal>
    {hardware && (
      <>
        <Fact term="Summary">{hardwareOf(hardware)}</Fact>
        <Fact term="Model">
          {[hardware.manufacturer, hardware.model].filter(Boolean).join(' ')}
          {hardware.virtual ? ' (virtual machine)' : ''}
        </Fact>
        <Fact term="Serial number">{hardware.serial_number ?? ''}</Fact>
        {hardware.bmc_address && <Fact term="BMC address">{hardware.bmc_address}</Fact>}
      </>
    )}
    <Fact term="Processor">
      {[inventory.cpu?.model_name, inventory.cpu?.architecture].filter(Boolean).join(', ')}
    </Fact>
    <Fact term="Boot mode">
      {[inventory.boot?.current_boot_mode?.toUpperCase(), inventory.boot?.secure_boot_state?.toLowerCase()]
        .filter(Boolean)
        .join(', secure boot ')}
    </Fact>
    {inventory.tpm_version && <Fact term="TPM">{inventory.tpm_version}</Fact>}
  </DescriptionList>
);

const Disks = ({ inventory, chosen }: { inventory: Inventory; chosen: string }) => (
  <Table variant="compact" data-testid="host-disks">
    <caption className="pf-v6-screen-reader">Disks of the host</caption>
    <Thead>
      <Tr>
        <Th width={15}>Disk</Th>
        <Th>Size</Th>
        <Th>Type</Th>
        <Th>Model</Th>
        <Th>Installation</Th>
      </Tr>
    </Thead>
    <Tbody>
      {(inventory.disks ?? []).map((disk) => {
        const { eligible = false, not_eligible_reasons: reasons } = disk.installation_eligibility ?? {};
        return (
          <Tr key={disk.id}>
            <Td dataLabel="Disk" modifier="breakWord">
              {disk.name ?? disk.path}
              <div className="landfall-subtle">{disk.path}</div>
            </Td>
            <Td dataLabel="Size" modifier="nowrap">
              {bytes(disk.size_bytes ?? 0)}
            </Td>
            <Td dataLabel="Type">{disk.drive_type}</Td>
            <Td dataLabel="Model" modifier="breakWord">
              {[disk.model, disk.serial].filter(Boolean).join(', ')}
            </Td>
            <Td dataLabel="Installation">
              {disk.id === chosen ? (
                <Label isCompact color="blue">
                  Installation disk
                </Label>
              ) : eligible ? (
                'Possible'
              ) : (
                <>
                  Not possible
                  {(reasons ?? []).map((reason) => (
                    <div key={reason} className="landfall-subtle">
                      {asSentence(reason)}
                    </div>
                  ))}
                </>
              )}
            </Td>
          </Tr>
        );
      })}
    </Tbody>
  </Table>
);

/** The host, its network interfaces, and the addresses behind each one, as a picture of lists. */
const Networks = ({ name, inventory }: { name: string; inventory: Inventory }) => (
  <div className="landfall-net">
    <div className="landfall-net-host" aria-hidden>
      {name}
    </div>
    <ul aria-label={`Network interfaces of ${name}`}>
      {linksOf(inventory).map(({ nic, state, isUp, speed, addresses }) => (
        <li key={nic.name} className="landfall-net-link" data-up={isUp}>
          <div className="landfall-net-nic">
            <strong>{nic.name}</strong>{' '}
            <Label isCompact color={isUp ? 'green' : 'grey'}>
              {state}
            </Label>
            <div className="landfall-subtle">{[nic.mac_address, speed].filter(Boolean).join(', ')}</div>
          </div>
          <div className="landfall-net-line" aria-hidden />
          <div className="landfall-net-addresses">
            {addresses.length === 0 ? (
              <span className="landfall-subtle">No address</span>
            ) : (
              addresses.map((address) => <div key={address}>{address}</div>)
            )}
          </div>
        </li>
      ))}
    </ul>
  </div>
);

const seldom = () => 10_000;

const Bmc = ({ bmc }: { bmc: NonNullable<HostRow['bmc']> }) => {
  const isLimited = useIsLimited();
  return (
    <>
      {bmc.error && <Alert isInline variant="danger" title={asSentence(bmc.error)} />}
      {isLimited ? (
        <Content component="p">The server {bmc.name} is controlled by its BMC.</Content>
      ) : (
        <ServerFacts id={bmc.id} />
      )}
    </>
  );
};

const ServerFacts = ({ id }: { id: string }) => {
  const { answer } = useAnswer(listServers, seldom);
  const [log, setLog] = useState<Server>();
  const server = answer?.find((one) => one.id === id);
  if (!server) {
    return null;
  }
  return (
    <>
      <DescriptionList isHorizontal>
        <Fact term="Server">
          <Link to="/servers">{server.name}</Link>
        </Fact>
        <Fact term="Address">
          <span className="landfall-address">{server.address}</span>
        </Fact>
        <Fact term="Power">{powerOf(server)}</Fact>
        {server.last_seen && <Fact term="Last response">{moment(server.last_seen)}</Fact>}
      </DescriptionList>
      <Button
        variant="link"
        isInline
        onClick={() => {
          setLog(server);
        }}
      >
        Request log of the BMC
      </Button>
      {log && (
        <RequestLog
          server={log}
          onClose={() => {
            setLog(undefined);
          }}
        />
      )}
    </>
  );
};

const severities = {
  info: undefined,
  warning: { name: 'Warning', color: 'orange' },
  error: { name: 'Error', color: 'red' },
  critical: { name: 'Critical', color: 'red' },
} as const;

const Events = ({ events }: { events: HostEvent[] }) =>
  events.length === 0 ? (
    <Content component="p">No events.</Content>
  ) : (
    <ol className="landfall-events" aria-label="Events, the newest first">
      {events.map(({ event_time: at, severity, message }, i) => {
        const shown = severities[severity];
        return (
          <li key={`${at} ${String(i)}`}>
            <span className="landfall-subtle">{moment(at)}</span>{' '}
            {shown && (
              <Label isCompact color={shown.color}>
                {shown.name}
              </Label>
            )}{' '}
            {asSentence(message)}
          </li>
        );
      })}
    </ol>
  );

export default HostPage;
