import { getJSON, request } from '../shell/request';

export type ServiceName = 'dns' | 'ntp' | 'dhcp' | 'tftp';

export type Mode = 'proxy' | 'reservations' | 'range';

/** A service that is switched on for an interface. */
export type Status = {
  service: ServiceName;
  interface: string;
  /** Who switched it on. What the configuration switches on can only be switched off there. */
  source: 'configuration' | 'administrator';
  local_clock?: boolean;
  mode?: Mode;
  range?: string;
  state: 'looking' | 'serving' | 'another-server' | 'failed';
  since: string;
  addresses?: string[];
  /** The servers that answer in its place. */
  others?: { address: string; mac?: string; details?: string }[];
  message?: string;
};

export type Interface = { name: string; mac?: string; addresses: string[] };

export type DNSRecord = { name: string; type: string; value: string };

/** The names of one cluster, and what the site's DNS has of them. */
export type Zone = {
  name: string;
  cluster: string;
  cluster_id: string;
  records: DNSRecord[];
  missing?: string[];
  served_by_site: boolean;
  differences?: { name: string; type: string; ours: string[]; site: string[]; server: string }[];
  failures?: { name: string; type: string; server: string; code: string }[];
  /** Whether the appliance answers for the zone. */
  answered: boolean;
  message?: string;
};

/** The response of `GET /api/landfall/v1/site-services`. */
export type Services = {
  services: Status[];
  interfaces: Interface[];
  dns: {
    zones: Zone[] | null;
    own_names: string[] | null;
    forward: string[] | null;
    counts: { own: number; forwarded: number; refused: number };
  };
  clock: { synchronized: boolean; max_error?: string };
  /** What stops when the appliance leaves, in sentences. */
  departure: string[];
};

const root = '/api/landfall/v1/site-services';

export const readServices = (signal?: AbortSignal): Promise<Services> => getJSON<Services>(root, signal);

export type Settings = { local_clock?: boolean; mode?: Mode; range?: string };

const pathOf = (service: ServiceName, on: string) => `${root}/${service}/${encodeURIComponent(on)}`;

export const enable = (service: ServiceName, on: string, settings: Settings) =>
  request('PUT', pathOf(service, on), { json: settings });

export const disable = (service: ServiceName, on: string) => request('DELETE', pathOf(service, on));

export type Lease = {
  address: string;
  mac: string;
  hostname?: string;
  interface: string;
  /** In nanoseconds. */
  duration: number;
  granted: string;
  /** When the lease ends. A restart of the appliance prolongs it. */
  until: string;
};

export type Reservation = { mac: string; address: string; hostname?: string };

/** A machine that booted from the network, or that got no address or no boot file. */
export type AddressEvent = {
  at: string;
  kind: string;
  interface: string;
  mac: string;
  address?: string;
  message: string;
};

/** The response of `GET /api/landfall/v1/site-addresses`. */
export type Addresses = {
  leases: Lease[] | null;
  reservations: Reservation[] | null;
  /** The newest first. */
  events: AddressEvent[] | null;
};

const addressRoot = '/api/landfall/v1/site-addresses';

export const readAddresses = (signal?: AbortSignal): Promise<Addresses> => getJSON<Addresses>(addressRoot, signal);

const reservationPath = (mac: string) => `${addressRoot}/reservations/${encodeURIComponent(mac)}`;

export const reserve = ({ mac, address, hostname }: Reservation) =>
  request('PUT', reservationPath(mac), { json: { address, ...(hostname && { hostname }) } });

export const unreserve = (mac: string) => request('DELETE', reservationPath(mac));
