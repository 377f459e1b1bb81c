import { Button, Content, StackItem } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useState } from 'react';
import { Requires, useMay } from '../access/AccessProvider';
import { Confirm } from '../shell/Confirm';
import { FormDialog } from '../shell/FormDialog';
import { PageStatus } from '../shell/PageStatus';
import { moment } from '../shell/quantities';
import { SectionCard } from '../shell/SectionCard';
import { TableCard } from '../shell/TableCard';
import { TextField } from '../shell/TextField';
import { Toned } from '../shell/Toned';
import type { Act } from '../shell/useAct';
import { useAnswer } from '../shell/useAnswer';
import { readAddresses, reserve, unreserve, type AddressEvent, type Lease, type Reservation } from './api';
import { endOf, kindOf } from './words';

const seldom = () => 4_000;

/**
 * The leases and reservations of DHCP, and the machines that booted from the network. They are
 * shown when the cards above them are, which would else move them.
 */
export const AddressCards = ({ act, isShown }: { act: Act; isShown: boolean }) => {
  const { answer, error, refetch } = useAnswer(readAddresses, seldom);
  if (!isShown) {
    return null;
  }
  return (
    <>
      <PageStatus failure="" error={error} hasAnswer={answer !== undefined} waiting="Reading the addresses" />
      {answer && (
        <>
          <StackItem>
            <Leases leases={answer.leases ?? []} />
          </StackItem>
          <StackItem>
            <Reservations reservations={answer.reservations ?? []} act={act} refetch={refetch} />
          </StackItem>
          <StackItem>
            <Events events={answer.events ?? []} />
          </StackItem>
        </>
      )}
    </>
  );
};

const Leases = ({ leases }: { leases: Lease[] }) => (
  <TableCard
    id="service-leases"
    title="Leases"
    empty="No machine has an address from the appliance."
    pages="Pages of leases"
    heads={
      <>
        <Th>Address</Th>
        <Th>MAC address</Th>
        <Th>Host name</Th>
        <Th>Interface</Th>
        <Th>Ends</Th>
      </>
    }
    rows={leases}
    row={(lease) => (
      <Tr key={lease.mac} data-testid="lease">
        <Td dataLabel="Address">{lease.address}</Td>
        <Td dataLabel="MAC address">{lease.mac}</Td>
        <Td dataLabel="Host name">{lease.hostname ?? ''}</Td>
        <Td dataLabel="Interface">{lease.interface}</Td>
        <Td dataLabel="Ends">{endOf(lease)}</Td>
      </Tr>
    )}
  />
);

type ReservationsProps = { reservations: Reservation[]; act: Act; refetch: () => void };

const Reservations = ({ reservations, act, refetch }: ReservationsProps) => {
  const [isAdding, setAdding] = useState(false);
  const [removed, setRemoved] = useState<Reservation>();
  const mayChange = useMay('operator');
  return (
    <SectionCard id="service-reservations" title="Reservations">
      {reservations.length === 0 ? (
        <Content component="p">No address is reserved for a machine.</Content>
      ) : (
        <Table aria-label="Reservations" variant="compact">
          <Thead>
            <Tr>
              <Th>MAC address</Th>
              <Th>Address</Th>
              <Th>Host name</Th>
              <Th screenReaderText="Actions" />
            </Tr>
          </Thead>
          <Tbody>
            {reservations.map((reservation) => (
              <Tr key={reservation.mac} data-testid="reservation">
                <Td dataLabel="MAC address">{reservation.mac}</Td>
                <Td dataLabel="Address">{reservation.address}</Td>
                <Td dataLabel="Host name">{reservation.hostname ?? ''}</Td>
                <Td isActionCell>
                  {mayChange && (
                    <Button
                      variant="link"
                      isInline
                      aria-label={`Remove the reservation of ${reservation.mac}`}
                      onClick={() => {
                        setRemoved(reservation);
                      }}
                    >
                      Remove
                    </Button>
                  )}
                </Td>
              </Tr>
            ))}
          </Tbody>
        </Table>
      )}
      <Requires role="operator">
        <Button
          variant="secondary"
          className="pf-v6-u-mt-md"
          onClick={() => {
            setAdding(true);
          }}
        >
          Reserve an address
        </Button>
      </Requires>
      {isAdding && (
        <ReserveDialog
          onClose={() => {
            setAdding(false);
            refetch();
          }}
        />
      )}
      {removed && (
        <Confirm
          title={`Remove the reservation of ${removed.mac}?`}
          action="Remove"
          onConfirm={() => void act(() => unreserve(removed.mac)).finally(refetch)}
          onClose={() => {
            setRemoved(undefined);
          }}
        >
          The machine can get another address than {removed.address} at its next boot. Its lease stays.
        </Confirm>
      )}
    </SectionCard>
  );
};

const ReserveDialog = ({ onClose }: { onClose: () => void }) => {
  const [mac, setMac] = useState('');
  const [address, setAddress] = useState('');
  const [hostname, setHostname] = useState('');
  return (
    <FormDialog
      title="Reserve an address"
      action="Reserve"
      isComplete={mac.trim() !== '' && address.trim() !== ''}
      onSend={() => reserve({ mac: mac.trim(), address: address.trim(), hostname: hostname.trim() })}
      onClose={onClose}
    >
      <TextField id="reserve-mac" label="MAC address" isRequired value={mac} onChange={setMac} />
      <TextField id="reserve-address" label="Address" isRequired value={address} onChange={setAddress} />
      <TextField
        id="reserve-hostname"
        label="Host name"
        help="The machine gets this name with its address."
        value={hostname}
        onChange={setHostname}
      />
    </FormDialog>
  );
};

const Events = ({ events }: { events: AddressEvent[] }) => (
  <TableCard
    id="service-events"
    title="Machines that asked for an address or a boot file"
    empty="No machine has asked since the appliance started."
    pages="Pages of machines"
    heads={
      <>
        <Th>Time</Th>
        <Th>MAC address</Th>
        <Th>Interface</Th>
        <Th width={40}>What happened</Th>
      </>
    }
    rows={events}
    row={(event) => (
      <Tr key={`${event.at} ${event.mac} ${event.kind}`}>
        <Td dataLabel="Time">{moment(event.at)}</Td>
        <Td dataLabel="MAC address">{event.mac}</Td>
        <Td dataLabel="Interface">{event.interface}</Td>
        <Td dataLabel="What happened">
          <Toned {...kindOf(event.kind)} /> <span className="landfall-address">{event.message}</span>
        </Td>
      </Tr>
    )}
  />
);
