import { stateOf as nameOf, type Color } from '../hosts/states';
import type { Item } from './api';

export type Tone = 'success' | 'info' | 'warning' | 'danger' | undefined;

/** States of clusters in words, in the order in which they are shown. */
const words: [status: string, text: string, tone: Tone][] = [
  ['error', 'Failed', 'danger'],
  ['installing-pending-user-action', 'Needs a person', 'warning'],
  ['preparing-for-installation', 'Preparing', 'info'],
  ['installing', 'Installing', 'info'],
  ['finalizing', 'Finishing', 'info'],
  ['ready', 'Ready to install', 'info'],
  ['pending-for-input', 'Settings missing', 'warning'],
  ['insufficient', 'Not ready', 'warning'],
  ['adding-hosts', 'Installed, open for hosts', 'success'],
  ['installed', 'Installed', 'success'],
  ['cancelled', 'Cancelled', undefined],
];

/** The tones of the states of hosts, in the order in which they are shown. */
const tones: Record<Color, Tone> = {
  red: 'danger',
  orange: 'warning',
  blue: 'info',
  green: 'success',
  grey: undefined,
};

const order = Object.values(tones);

export type State = { text: string; tone: Tone; count: number };

/** The states of a count by status: the same words only once, those that need a person first. */
export const statesOf = (noun: 'cluster' | 'host', counts: Record<string, number>): State[] => {
  const states = new Map<string, State>();
  for (const [status, count] of Object.entries(counts).filter(([, number]) => number > 0)) {
    const { text, tone } = noun === 'host' ? hostStateOf(status) : stateOf(status);
    states.set(text, { text, tone, count: (states.get(text)?.count ?? 0) + count });
  }
  const rank = ({ text, tone }: State): number => {
    const at = noun === 'host' ? order.indexOf(tone) : words.findIndex(([, name]) => name === text);
    return at < 0 ? words.length : at;
  };
  return [...states.values()].sort((a, b) => rank(a) - rank(b) || a.text.localeCompare(b.text));
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
  return kind === 'host' ? hostStateOf(status) : stateOf(status);
};

const hostStateOf = (status: string): { text: string; tone: Tone } => {
  const { name, color } = nameOf(status);
  return { text: name, tone: tones[color] };
};

/** The state of a cluster: a word and how bad it is. */
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
