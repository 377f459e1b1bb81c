import { getJSON } from '../shell/request';

export type LineState = 'done' | 'missing' | 'failed' | 'checking' | 'optional';

/** One line of the checklist of a new site. */
export type Line = {
  id: string;
  state: LineState;
  result: string;
  advice?: string;
  /** The key in the configuration file that the advice is about, if no setting helps. */
  key?: string;
};

/** The states in words, here and on the overview. The command line has the same. */
export const words: Record<LineState, string> = {
  done: 'Done',
  missing: 'To do',
  failed: 'Failed',
  checking: 'Checking',
  optional: 'Optional',
};

/** The response of `GET /api/landfall/v1/setup`. */
export type Setup = { complete: boolean; lines: Line[] };

export const readSetup = (signal?: AbortSignal) => getJSON<Setup>('/api/landfall/v1/setup', signal);

/** What a line is about, and the page where it is set. */
export type Subject = { title: string; path: string; action: string };

const subjects: Record<string, Subject> = {
  url: { title: 'Address for hosts', path: '/settings#url', action: 'Set the address' },
  mirror: { title: 'Mirror', path: '/mirror', action: 'Import mirror rules' },
  'pull-secret': { title: 'Pull secret', path: '/settings#pull-secret', action: 'Set the pull secret' },
  release: { title: 'Release', path: '/settings#releases', action: 'Add a release' },
  'os-image': { title: 'Live ISO', path: '/os-images', action: 'Add a live ISO' },
  'ssh-key': { title: 'SSH key', path: '/settings#ssh-key', action: 'Set the SSH key' },
  time: { title: 'Time servers', path: '/settings#time-servers', action: 'Set the time servers' },
  doctor: { title: 'Doctor', path: '/doctor', action: 'Open the doctor' },
};

/** The subject of a line; undefined if this version of the page does not know it. */
export const subjectOf = ({ id, key }: Line): Subject | undefined => {
  const subject = subjects[id];
  return subject && key ? { ...subject, action: 'Show what to change' } : subject;
};

/** The number of lines that are needed before an installation and done. */
export const progressOf = ({ lines }: Setup): { done: number; needed: number } => {
  const needed = lines.filter(({ state }) => state !== 'optional');
  return { done: needed.filter(({ state }) => state === 'done').length, needed: needed.length };
};

/** The first line that a person must work on; undefined if there is none. */
export const nextLine = ({ lines }: Setup): Line | undefined =>
  lines.find(({ state }) => state === 'failed' || state === 'missing');
