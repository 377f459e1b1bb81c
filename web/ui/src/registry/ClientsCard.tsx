import { Td, Th, Tr } from '@patternfly/react-table';
import { bytes, moment } from '../shell/quantities';
import { TableCard } from '../shell/TableCard';
import type { Client } from './api';

/** The clients that pull from the registry, or pulled since the appliance started. */
export const ClientsCard = ({ clients, sent }: { clients: Client[]; sent: number }) => (
  <TableCard
    id="registry-clients"
    title="Clients"
    empty="No client has pulled since the appliance started."
    about={<>All clients got {bytes(sent)} since the appliance started.</>}
    pages="Pages of clients"
    heads={
      <>
        <Th width={40}>Client</Th>
        <Th>Pulls now</Th>
        <Th>Rate</Th>
        <Th>Sent</Th>
        <Th>Last sent</Th>
      </>
    }
    rows={clients}
    row={({ address, host, pulls, bytes: size, bytes_per_second: rate, last }) => (
      <Tr key={address} data-testid="client">
        <Td dataLabel="Client">
          <div className="landfall-address">{host ?? address}</div>
          {host && <div className="landfall-subtle landfall-address">{address}</div>}
        </Td>
        <Td dataLabel="Pulls now">{pulls}</Td>
        <Td dataLabel="Rate">{bytes(rate)}/s</Td>
        <Td dataLabel="Sent">{bytes(size)}</Td>
        <Td dataLabel="Last sent">{moment(last)}</Td>
      </Tr>
    )}
  />
);
