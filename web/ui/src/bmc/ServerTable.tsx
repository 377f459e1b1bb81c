import {
  Button,
  Card,
  CardBody,
  EmptyState,
  EmptyStateBody,
  Flex,
  FlexItem,
  Label,
  MenuToggle,
  SearchInput,
  ToggleGroup,
  ToggleGroupItem,
} from '@patternfly/react-core';
import EllipsisVIcon from '@patternfly/react-icons/dist/esm/icons/ellipsis-v-icon';
import { ActionsColumn, Table, Tbody, Td, Th, Thead, Tr, type IAction } from '@patternfly/react-table';
import { useState } from 'react';
import { useMay } from '../access/AccessProvider';
import { asSentence, moment } from '../shell/quantities';
import { usePages } from '../shell/table';
import { eject, inspect, switchPower, type InfraEnv, type Server } from './api';
import type { Act } from '../shell/useAct';
import { useAction } from '../shell/useAction';
import { BootDialog } from './BootDialog';
import { RequestLog } from './RequestLog';
import { HostLink } from './HostLink';
import { RemoveDialog } from './RemoveDialog';
import { stopNames, StopDialog, type Stop } from './StopDialog';
import { activityOf, factsOf, mediaOf, modelOf, powerOf, states } from './words';

type Props = { servers: Server[]; infraEnvs: InfraEnv[]; act: Act };
type Dialog = { kind: 'boot' | 'remove' | 'request-log' | Stop; server: Server };

const pageSize = 50;

/** All servers with their models, activities and errors. */
export const ServerTable = ({ servers, infraEnvs, act }: Props) => {
  const [part, setPart] = useState('');
  const [wrong, setWrong] = useState(false);
  const [dialog, setDialog] = useState<Dialog>();
  const failing = servers.filter((server) => server.error);
  const wanted = part.trim().toLowerCase();
  const chosen = (wrong ? failing : servers).filter(({ name, address }) =>
    `${name} ${address}`.toLowerCase().includes(wanted),
  );
  const { shown, first, control } = usePages(chosen, pageSize, 'Pages of servers');
  const choose = (onlyWrong: boolean) => {
    setWrong(onlyWrong);
    first();
  };
  const find = (value: string) => {
    setPart(value);
    first();
  };
  const close = () => {
    setDialog(undefined);
  };
  if (servers.length === 0) {
    return (
      <EmptyState titleText="No servers" headingLevel="h2" variant="sm">
        <EmptyStateBody>Add servers by the addresses of their BMCs, or boot hosts manually.</EmptyStateBody>
      </EmptyState>
    );
  }
  return (
    <Card>
      <CardBody>
        <Flex gap={{ default: 'gapMd' }}>
          <ToggleGroup aria-label="Servers by state">
            <ToggleGroupItem
              text={`All (${String(servers.length)})`}
              isSelected={!wrong}
              onChange={() => {
                choose(false);
              }}
            />
            <ToggleGroupItem
              text={`With an error (${String(failing.length)})`}
              isSelected={wrong}
              onChange={() => {
                choose(true);
              }}
            />
          </ToggleGroup>
          <FlexItem>
            <SearchInput
              aria-label="Part of the name or address"
              placeholder="Part of the name or address"
              value={part}
              onChange={(_event, value) => {
                find(value);
              }}
              onClear={() => {
                find('');
              }}
            />
          </FlexItem>
          {chosen.length > pageSize && control}
        </Flex>
        <Table aria-label="Servers" variant="compact" gridBreakPoint="grid-lg">
          <Thead>
            <Tr>
              <Th width={20}>Server</Th>
              <Th width={25}>State</Th>
              <Th>Power</Th>
              <Th width={15}>Drive</Th>
              <Th width={15}>Model</Th>
              <Th>Host</Th>
              <Th screenReaderText="Actions" />
            </Tr>
          </Thead>
          <Tbody>
            {shown.map((server) => (
              <Row key={server.id} server={server} infraEnvs={infraEnvs} act={act} open={setDialog} />
            ))}
            {shown.length === 0 && (
              <Tr>
                <Td colSpan={7}>
                  No server matches the filters.{' '}
                  <Button
                    variant="link"
                    isInline
                    onClick={() => {
                      choose(false);
                      find('');
                    }}
                  >
                    Clear the filters
                  </Button>
                </Td>
              </Tr>
            )}
          </Tbody>
        </Table>
        {dialog?.kind === 'boot' && (
          <BootDialog server={dialog.server} infraEnvs={infraEnvs} onClose={close} />
        )}
        {(dialog?.kind === 'soft' || dialog?.kind === 'off' || dialog?.kind === 'reset') && (
          <StopDialog stop={dialog.kind} server={dialog.server} act={act} onClose={close} />
        )}
        {dialog?.kind === 'remove' && <RemoveDialog server={dialog.server} onClose={close} />}
        {dialog?.kind === 'request-log' && <RequestLog server={dialog.server} onClose={close} />}
      </CardBody>
    </Card>
  );
};

type RowProps = { server: Server; infraEnvs: InfraEnv[]; act: Act; open: (dialog: Dialog) => void };

const Row = ({ server, infraEnvs, act, open }: RowProps) => {
  const { name, color } = states[server.state];
  const { isRunning, run } = useAction();
  const mayBoot = useMay('operator');
  const mayRemove = useMay('admin');
  const { error, owner, detached, system, booted, last_seen: seen } = server;
  const order = (title: string, work: () => Promise<unknown>, isDisabled = false): IAction => ({
    title,
    isDisabled: isDisabled || isRunning,
    onClick: () => void run(() => act(work)),
  });
  const stop = (kind: Stop): IAction => ({
    title: stopNames[kind],
    isDisabled: server.power === 'off',
    onClick: () => {
      open({ kind, server });
    },
  });
  const actions: IAction[] = [
    order('Power on', () => switchPower(server.id, 'on'), server.power === 'on'),
    stop('soft'),
    stop('off'),
    stop('reset'),
    order('Eject the image', () => eject(server.id)),
    order('Query the BMC again', () => inspect(server.id)),
    ...(mayRemove
      ? [
          { isSeparator: true },
          {
            title: 'Remove',
            isDisabled: owner !== undefined,
            onClick: () => {
              open({ kind: 'remove', server });
            },
          },
        ]
      : []),
  ];
  return (
    <Tr data-testid="bmc-server">
      <Td dataLabel="Server">
        <div>{server.name}</div>
        <div className="landfall-subtle landfall-address">{server.address}</div>
        {owner && <div className="landfall-subtle">Managed by {owner}</div>}
      </Td>
      <Td dataLabel="State">
        <Label color={error ? 'red' : color}>{name}</Label> {detached && <Label>Detached</Label>}
        {error && (
          <div data-testid="bmc-error">
            {asSentence(error.message)}
            <div className="landfall-subtle">{factsOf(error)}</div>
            {seen && <div className="landfall-subtle">Last response: {moment(seen)}.</div>}
          </div>
        )}
        <div className="landfall-subtle">{asSentence(activityOf(server))}</div>
      </Td>
      <Td dataLabel="Power">{powerOf(server)}</Td>
      <Td dataLabel="Drive">{mediaOf(server, infraEnvs)}</Td>
      <Td dataLabel="Model">
        {modelOf(server)}
        <div className="landfall-subtle">{system?.serial_number}</div>
      </Td>
      <Td dataLabel="Host">{booted?.host && <HostLink infraEnvId={booted.host.infra_env_id} id={booted.host.id} />}</Td>
      <Td dataLabel="Actions" isActionCell>
        <Flex gap={{ default: 'gapSm' }} flexWrap={{ default: 'nowrap' }}>
          {mayBoot && (
            <Button
              variant="secondary"
              size="sm"
              isDisabled={server.state === 'deleting'}
              onClick={() => {
                open({ kind: 'boot', server });
              }}
            >
              Boot now
            </Button>
          )}
          <Button
            variant="link"
            size="sm"
            onClick={() => {
              open({ kind: 'request-log', server });
            }}
          >
            Request log
          </Button>
          {mayBoot && (
            <ActionsColumn
              items={actions}
              actionsToggle={({ onToggle, isOpen, toggleRef }) => (
                <MenuToggle
                  ref={toggleRef}
                  variant="plain"
                  aria-label={`More for ${server.name}`}
                  isExpanded={isOpen}
                  icon={<EllipsisVIcon />}
                  onClick={onToggle}
                />
              )}
            />
          )}
        </Flex>
      </Td>
    </Tr>
  );
};
