import { Content, Switch } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useState } from 'react';
import { useMay } from '../access/AccessProvider';
import { Confirm } from '../shell/Confirm';
import { asSentence, moment } from '../shell/quantities';
import { SectionCard } from '../shell/SectionCard';
import { Toned } from '../shell/Toned';
import type { Act } from '../shell/useAct';
import { disable, type ServiceName, type Services, type Status } from './api';
import { clockOf, modeOf, othersOf, placesOf, services, stateOf, whyFixed, type Place } from './words';

type Props = { service: ServiceName; site: Services; act: Act; onEnable: (on: string) => void };

/** A service with its switch and its state on each interface. */
export const ServiceCard = ({ service, site, act, onEnable }: Props) => {
  const [off, setOff] = useState<string>();
  const { name, purpose } = services.find(({ id }) => id === service) ?? { name: service, purpose: '' };
  const places = placesOf(service, site);
  return (
    <SectionCard id={`service-${service}`} title={name}>
      <Content component="p">{purpose}</Content>
      {service === 'ntp' && (
        <Content component="p">
          This machine&apos;s clock: <Toned {...clockOf(site.clock)} />
        </Content>
      )}
      {places.length === 0 ? (
        <Content component="p">This machine has no network interface with an address.</Content>
      ) : (
        <Table aria-label={name} variant="compact">
          <Thead>
            <Tr>
              <Th width={10}>On</Th>
              <Th width={30}>Interface</Th>
              <Th>State</Th>
            </Tr>
          </Thead>
          <Tbody>
            {places.map((place) => (
              <Row
                key={place.on}
                name={name}
                place={place}
                all={site.services}
                onEnable={onEnable}
                onDisable={setOff}
              />
            ))}
          </Tbody>
        </Table>
      )}
      {off !== undefined && (
        <Confirm
          title={`Switch off ${name} on ${off}?`}
          action="Switch off"
          dismiss="Leave on"
          onConfirm={() => void act(() => disable(service, off))}
          onClose={() => {
            setOff(undefined);
          }}
        >
          Hosts that use this service on {off} lose it.
        </Confirm>
      )}
    </SectionCard>
  );
};

type RowProps = {
  name: string;
  place: Place;
  all: Status[];
  onEnable: (on: string) => void;
  onDisable: (on: string) => void;
};

const Row = ({ name, place: { on, addresses, status }, all, onEnable, onDisable }: RowProps) => {
  const maySwitch = useMay('admin');
  const fixed = status ? whyFixed(status, all) : '';
  return (
    <Tr data-testid="service-place">
      <Td dataLabel="On">
        {maySwitch ? (
          <Switch
            aria-label={`${name} on ${on}`}
            isChecked={status !== undefined}
            isDisabled={fixed !== ''}
            onChange={(_event, isOn) => {
              if (isOn) {
                onEnable(on);
              } else {
                onDisable(on);
              }
            }}
          />
        ) : (
          <>{status ? 'On' : 'Off'}</>
        )}
      </Td>
      <Td dataLabel="Interface">
        {on}
        <div className="landfall-subtle landfall-address">{addresses.join(', ')}</div>
      </Td>
      <Td dataLabel="State">{status ? <State status={status} fixed={fixed} /> : 'Off'}</Td>
    </Tr>
  );
};

const State = ({ status, fixed }: { status: Status; fixed: string }) => {
  const details = [
    modeOf(status),
    status.addresses?.length ? `Answers at ${status.addresses.join(', ')}.` : '',
    status.message ? asSentence(status.message) : '',
    othersOf(status) && !status.message ? `Answered by ${othersOf(status)}.` : '',
    fixed,
    `Since ${moment(status.since)}.`,
  ].filter(Boolean);
  return (
    <>
      <Toned {...stateOf(status)} />
      {details.map((text) => (
        <div key={text} className="landfall-subtle landfall-address">
          {text}
        </div>
      ))}
    </>
  );
};
