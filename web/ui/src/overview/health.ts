import type { AmsStatus } from '../ams/api';
import type { Proof } from '../mirror/api';
import { asSentence } from '../shell/quantities';
import type { Overview } from './api';
import { subjectOf, words, type Setup } from './setup';
import { counted, type Tone } from './words';

/** One line about a part of the site. */
export type HealthLine = { id: string; title: string; path: string; tone: Tone; word: string; text: string };

const tones = {
  done: 'success',
  missing: 'warning',
  failed: 'danger',
  checking: 'info',
  optional: undefined,
} as const;

/** The parts of the site that the checklist knows. */
export const ofSetup = (setup: Setup): HealthLine[] =>
  setup.lines.flatMap((line) => {
    const subject = subjectOf(line);
    const [tone, word] = [tones[line.state], words[line.state]];
    const text = line.state === 'done' ? line.result : `${line.result} ${line.advice ?? ''}`.trim();
    return subject ? [{ id: line.id, title: subject.title, path: subject.path, tone, word, text }] : [];
  });

/** The newest check of the mirror. */
export const ofProof = (proof: Proof | undefined): HealthLine => {
  const line = { id: 'proof', title: 'Content of the mirror', path: '/mirror' };
  if (!proof) {
    return { ...line, tone: undefined, word: 'Not checked', text: 'Check the mirror before you install.' };
  }
  if (proof.state === 'running') {
    const text = `${String(proof.images)} of ${String(proof.total)} images of ${proof.release} are checked.`;
    return { ...line, tone: 'info', word: 'Checking', text };
  }
  const text = asSentence(proof.message ?? '');
  return proof.complete
    ? { ...line, tone: 'success', word: 'Complete', text }
    : { ...line, tone: 'danger', word: proof.state === 'failed' ? 'Failed' : 'Incomplete', text };
};

/** The servers that are controlled by their BMCs. */
export const ofServers = ({ servers, failed_servers: failed }: Overview): HealthLine => {
  const line = { id: 'servers', title: 'Servers', path: '/servers' };
  if (servers === 0) {
    return { ...line, tone: undefined, word: 'None', text: 'No server is controlled by its BMC.' };
  }
  const all = counted(servers, 'server');
  return failed === 0
    ? { ...line, tone: 'success', word: 'Good', text: `${all}, no errors.` }
    : { ...line, tone: 'danger', word: 'Errors', text: `${String(failed)} of ${all} with errors.` };
};

/** The queue of changes for OpenShift Cluster Manager. */
export const ofAms = (status: AmsStatus): HealthLine | undefined => {
  const line = { id: 'ams', title: 'OpenShift Cluster Manager', path: '/ams' };
  if (status.state === 'off') {
    return undefined;
  }
  if (status.attention > 0) {
    const text = `${counted(status.attention, 'cluster')} cannot be reported without a person.`;
    return { ...line, tone: 'warning', word: 'Needs a person', text };
  }
  if (status.waiting > 0) {
    const text = `${counted(status.waiting, 'cluster')} waiting to be sent.`;
    return { ...line, tone: 'info', word: 'Pending', text };
  }
  return { ...line, tone: 'success', word: 'Sent', text: 'Nothing is waiting to be sent.' };
};

/** Whether the disk is nearly full. */
export const toneOfDisk = (free: number, total: number): Tone => {
  if (total === 0 || free / total > 0.15) {
    return undefined;
  }
  return free / total > 0.05 ? 'warning' : 'danger';
};
