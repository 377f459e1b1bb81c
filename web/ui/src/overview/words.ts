import type { Item } from './api';

export type Tone = 'success' | 'info' | 'warning' | 'danger' | undefined;

/** States of clusters and hosts in words, in the order in which they are shown. */
const words: [status: string, text: string, tone: Tone][] = [
  ['error', 'Failed', 'danger'],
  ['installing-pending-user-action', 'Needs a person', 'warning'],
  ['disconnected', 'Disconnected', 'warning'],
  ['disconnected-unbound', 'Disconnected, in no cluster', 'warning'],
  ['preparing-for-installation', 'Preparing', 'info'],
  ['preparing-successful', 'Prepared', 'info'],
  ['preparing-failed', 'Preparation failed', 'danger'],
  ['installing', 'Installing', 'info'],
  ['installing-in-progress', 'Installing', 'info'],
  ['finalizing', 'Finishing', 'info'],
  ['resetting', 'Resetting', 'info'],
  ['resetting-pending-user-action', 'Needs a person to boot it', 'warning'],
  ['ready', 'Ready to install', 'info'],
  ['known', 'Ready to install', 'info'],
  ['known-unbound', 'Discovered, in no cluster', 'info'],
  ['pending-for-input', 'Settings missing', 'warning'],
  ['insufficient', 'Not ready', 'warning'],
  ['insufficient-unbound', 'Not suitable, in no cluster', 'warning'],
  ['discovering', 'Being discovered', 'info'],
  ['discovering-unbound', 'Being discovered, in no cluster', 'info'],
  ['disabled', 'Disabled', undefined],
  ['disabled-unbound', 'Disabled, in no cluster', undefined],
  ['binding', 'Joining a cluster', 'info'],
  ['unbinding', 'Leaving a cluster', 'info'],
  ['adding-hosts', 'Installed, open for hosts', 'success'],
  ['added-to-existing-cluster', 'Added to a cluster', 'success'],
  ['installed', 'Installed', 'success'],
  ['cancelled', 'Cancelled', undefined],
];

export type State = { text: string; tone: Tone; count: number };

/** The states of a count by status: the same words only once, those that need a person first. */
export const statesOf = (counts: Record<string, number>): State[] => {
  const states = new Map<string, State>();
  const add = (text: string, tone: Tone, count: number) => {
    if (count > 0) {
      states.set(text, { text, tone, count: (states.get(text)?.count ?? 0) + count });
    }
  };
  const rest = new Map(Object.entries(counts));
  for (const [status, text, tone] of words) {
    add(text, tone, rest.get(status) ?? 0);
    rest.delete(status);
  }
  for (const [status, count] of rest) {
    add(status, undefined, count);
  }
  return [...states.values()];
};

const uninstalled = ['insufficient', 'pending-for-input', 'ready'];

/** Whether the installation of a cluster has started at this site. */
export const hasInstalled = (clusters: Record<string, number>): boolean =>
  Object.entries(clusters).some(([status, count]) => count > 0 && !uninstalled.includes(status));

/** The sum of a count by status. */
export const sum = (counts: Record<string, number>): number =>
  Object.values(counts).reduce((total, count) => total + count, 0);

/** "1 host", "3 hosts". */
export const counted = (count: number, noun: string): string => `${String(count)} ${noun}${count === 1 ? '' : 's'}`;

/** What a status of an item means to a person: a word and how bad it is. */
export const wordOf = ({ kind, status }: Item): { text: string; tone: Tone } => {
  if (kind === 'server') {
    return { text: 'BMC error', tone: 'danger' };
  }
  if (kind === 'management-cluster') {
    return { text: status === 'held' ? 'Held' : 'Workers not followed', tone: 'warning' };
  }
  if (kind === 'replica') {
    return { text: 'Behind', tone: 'warning' };
  }
  if (kind === 'backups') {
    return { text: 'Failing', tone: 'warning' };
  }
  return stateOf(status);
};

/** The state of a cluster or a host: a word and how bad it is. */
export const stateOf = (status: string): { text: string; tone: Tone } => {
  const [, text, tone] = words.find(([name]) => name === status) ?? ['', status, undefined];
  return { text, tone };
};

/** The page on which a person deals with an item. */
export const pathOf = ({ kind, id, infra_env_id: infraEnv }: Item): string => {
  switch (kind) {
    case 'cluster':
      return `/assisted-installer/clusters/${id}`;
    case 'server':
      return '/servers';
    case 'management-cluster':
      return '/hosted';
    case 'replica':
    case 'backups':
      return '/doctor';
    case 'host':
      return infraEnv ? `/hosts/${infraEnv}/${id}` : '/hosts';
  }
};

const partNames: Record<string, string> = {
  '': 'Database',
  store: 'Database',
  blobs: 'Files of clusters and images',
  'os-images': 'Live ISOs',
  installers: 'Installers of releases',
  audit: 'Audit trail',
  rehearsals: 'Rehearsals',
};

type Part = { name: string; bytes: number };

/** The entries of the data directory with the names of their content, the largest first. */
export const partsOf = (entries: readonly Part[]): Part[] => {
  const sizes = new Map<string, number>();
  for (const { name, bytes } of entries) {
    const shown = partNames[name] ?? name;
    sizes.set(shown, (sizes.get(shown) ?? 0) + bytes);
  }
  return [...sizes].map(([name, bytes]) => ({ name, bytes })).sort((a, b) => b.bytes - a.bytes);
};
