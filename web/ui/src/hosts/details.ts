import type { HostDetails } from './api';

export type Disk = {
  id: string;
  name?: string;
  path?: string;
  model?: string;
  serial?: string;
  drive_type?: string;
  size_bytes?: number;
  installation_eligibility?: { eligible: boolean; not_eligible_reasons?: string[] | null };
};

export type Nic = {
  name: string;
  mac_address?: string;
  speed_mbps?: number;
  has_carrier?: boolean;
  vendor?: string;
  ipv4_addresses?: string[] | null;
  ipv6_addresses?: string[] | null;
};

export type Inventory = {
  hostname?: string;
  disks?: Disk[] | null;
  interfaces?: Nic[] | null;
  cpu?: { model_name?: string; architecture?: string; count?: number };
  boot?: { current_boot_mode?: string; secure_boot_state?: string };
  tpm_version?: string;
};

/** The host's inventory; undefined before the first report. */
export const inventoryOf = ({ inventory }: HostDetails): Inventory | undefined =>
  inventory ? (JSON.parse(inventory) as Inventory) : undefined;

export type CheckStatus = 'success' | 'failure' | 'error' | 'pending' | 'disabled';
export type Check = { id: string; status: CheckStatus; message: string; group: string };

const ranks: Record<CheckStatus, number> = { failure: 0, error: 0, pending: 1, disabled: 2, success: 3 };

/** The host's checks: failed ones first, then pending ones. */
export const checksOf = ({ validations_info: info }: HostDetails): Check[] =>
  Object.entries(info ? (JSON.parse(info) as Record<string, Omit<Check, 'group'>[] | null>) : {})
    .flatMap(([group, checks]) => (checks ?? []).map((check) => ({ ...check, group })))
    .sort((a, b) => ranks[a.status] - ranks[b.status]);

/** The name of a check in words: "has-min-cpu-cores" is "Has min cpu cores". */
export const checkName = (id: string): string => {
  const text = id.replaceAll('-', ' ');
  return text.charAt(0).toUpperCase() + text.slice(1);
};

export type Link = { nic: Nic; state: string; isUp: boolean; speed: string; addresses: string[] };

/** The network interfaces with their addresses; link-local addresses are left out. */
export const linksOf = (inventory: Inventory): Link[] =>
  (inventory.interfaces ?? []).map((nic) => ({
    nic,
    isUp: nic.has_carrier === true,
    state: nic.has_carrier ? 'Up' : 'No link',
    speed: speedOf(nic.speed_mbps),
    addresses: [...(nic.ipv4_addresses ?? []), ...(nic.ipv6_addresses ?? [])].filter(
      (address) => !address.toLowerCase().startsWith('fe80:'),
    ),
  }));

const speedOf = (mbps = 0): string => {
  if (mbps <= 0) {
    return '';
  }
  return mbps >= 1000 ? `${String(mbps / 1000)} Gbit/s` : `${String(mbps)} Mbit/s`;
};
