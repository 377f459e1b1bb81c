import { asSentence, moment } from '../shell/quantities';
import type { Tone } from '../shell/Toned';
import type { DNSRecord, Interface, Lease, Mode, ServiceName, Services, Settings, Status, Zone } from './api';

/** The services with their names, what each does, and what hosts lose when it stops. */
export const services: { id: ServiceName; name: string; purpose: string; loss: string }[] = [
  {
    id: 'dns',
    name: 'DNS',
    purpose: 'Answers for the names of the clusters.',
    loss: 'When the appliance leaves, these names no longer resolve for hosts that use this service.',
  },
  {
    id: 'ntp',
    name: 'NTP',
    purpose: "Shows hosts the time of this machine's clock.",
    loss: 'When the appliance leaves, hosts lose their time server, and their clocks drift apart.',
  },
  {
    id: 'dhcp',
    name: 'DHCP and network boot',
    purpose: 'Gives machines addresses, and boots them into discovery images.',
    loss: 'When the appliance leaves, machines lose their addresses at the end of their leases.',
  },
  {
    id: 'tftp',
    name: 'TFTP',
    purpose: "Serves boot loaders for the network boot of the site's own DHCP server.",
    loss: 'When the appliance leaves, new machines can no longer boot from the network.',
  },
];

/** What hosts lose when the appliance leaves. A DHCP proxy gives no addresses. */
export const lossOf = (service: ServiceName, mode: Mode): string => {
  const lost = service === 'dhcp' && mode === 'proxy' ? 'tftp' : service;
  return services.find(({ id }) => id === lost)?.loss ?? '';
};

/** A place where a service can run: an interface, and the service's status if it is switched on. */
export type Place = { on: string; addresses: string[]; status: Status | undefined };

/** The places of a service: the interfaces of the machine, and others for which it is on. */
export const placesOf = (service: ServiceName, { services: statuses, interfaces }: Services): Place[] => {
  const own = statuses.filter((status) => status.service === service);
  const known = new Set(interfaces.map(({ name }) => name));
  return [
    ...interfaces.map(({ name, addresses }: Interface) => ({
      on: name,
      addresses,
      status: own.find((status) => status.interface === name),
    })),
    ...own
      .filter((status) => !known.has(status.interface))
      .map((status) => ({ on: status.interface, addresses: [], status })),
  ];
};

/** Why a person can't switch a service off here; '' if they can. */
export const whyFixed = ({ service, interface: on, source }: Status, all: readonly Status[]): string => {
  if (service === 'tftp' && all.some((one) => one.service === 'dhcp' && one.interface === on)) {
    return 'It belongs to DHCP on this interface.';
  }
  return source === 'configuration' ? `The configuration switches it on (site.${service}.interfaces).` : '';
};

export const stateOf = ({ state }: Status): { tone: Tone; text: string } => {
  switch (state) {
    case 'serving':
      return { tone: 'success', text: 'Serving' };
    case 'looking':
      return { tone: 'info', text: 'Looking for other servers' };
    case 'another-server':
      return { tone: 'warning', text: 'Another server answers' };
    case 'failed':
      return { tone: 'danger', text: 'Failed' };
  }
};

/** How a service runs on an interface: its mode, range or clock. */
export const modeOf = ({ mode, range, local_clock: isLocal }: Settings): string => {
  if (isLocal) {
    return "This machine's clock is declared as the time of the site.";
  }
  switch (mode) {
    case 'proxy':
      return 'Network boot beside another DHCP server.';
    case 'reservations':
      return 'Addresses for reserved machines.';
    case 'range':
      return `Addresses for all machines: ${range ?? ''}.`;
    default:
      return '';
  }
};

/** The servers that answer in place of the appliance's. */
export const othersOf = ({ others }: Status): string =>
  (others ?? [])
    .map(({ address, mac, details }) => [address, mac && `MAC address ${mac}`, details].filter(Boolean).join(', '))
    .join('; ');

/** The clock that the NTP service shows to hosts. */
export const clockOf = ({ synchronized, max_error: error }: Services['clock']): { tone: Tone; text: string } =>
  synchronized
    ? { tone: 'success', text: `Synchronised${error ? `, wrong by ${error} at most` : ''}` }
    : { tone: 'warning', text: 'Not synchronised: hosts ignore it unless it is declared' };

export const zoneStateOf = ({ answered, served_by_site: isServed }: Zone): { tone: Tone; text: string } => {
  if (answered) {
    return { tone: 'success', text: 'Answered' };
  }
  return isServed
    ? { tone: 'info', text: "The site's DNS has all names" }
    : { tone: 'warning', text: 'Not answered' };
};

/** What a person should know of a zone, in sentences. */
export const notesOf = ({ name, message, differences, failures, missing }: Zone): string[] => [
  ...(message ? [asSentence(message)] : []),
  ...(differences ?? []).map(
    (one) =>
      `${one.name} ${one.type}: ${one.ours.join(', ')} here, ${one.site.join(', ')} at the DNS server ${one.server}.`,
  ),
  ...(failures ?? []).map(
    (one) => `${one.name} ${one.type}: the DNS server ${one.server} failed (${one.code}); it may have another record.`,
  ),
  ...(missing?.length ? [`The addresses of these names of ${name} are not known yet: ${missing.join(', ')}.`] : []),
];

const absolute = (name: string): string => (name.endsWith('.') ? name : `${name}.`);

/** A record as a line of a zone file (RFC 1035), with the appliance's time to live. */
export const lineOf = ({ name, type, value }: DNSRecord): string =>
  `${absolute(name)} 60 IN ${type} ${type === 'PTR' ? absolute(value) : value}`;

export const zoneFileOf = (records: readonly DNSRecord[]): string => `${records.map(lineOf).join('\n')}\n`;

/** The longest lease, which has no end (RFC 2131, 3.3). */
const infiniteSeconds = 0xffffffff;

/** When a lease ends. */
export const endOf = ({ duration, until }: Lease): string =>
  duration / 1e9 >= infiniteSeconds ? 'never' : moment(until);

const kinds: Record<string, { tone: Tone; text: string }> = {
  boot: { tone: 'success', text: 'Booted' },
  'no-boot': { tone: 'warning', text: 'No boot file' },
  conflict: { tone: 'danger', text: 'Address in use' },
  'no-lease': { tone: 'warning', text: 'No address' },
  relay: { tone: 'info', text: 'Relay agent' },
};

export const kindOf = (kind: string): { tone: Tone; text: string } => kinds[kind] ?? { tone: undefined, text: kind };
