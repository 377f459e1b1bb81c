import type { Proof } from '../mirror/api';
import { asSentence, bytes, moment, percentOf } from '../shell/quantities';
import type { OsImage } from '../shell/appliance';
import type { Tone } from '../shell/Toned';
import type {
  HandOver,
  HandOverCluster,
  HandOverState,
  Medium,
  Plan,
  Registry,
  Release,
  Staging,
  Verify,
} from './api';

const forms: Record<string, string> = {
  'oc-mirror': 'Archive of oc-mirror',
  registry: 'Data of a registry',
  'oci-layout': 'OCI layout',
  courier: 'Folder of a courier',
  'oc-image-mirror': 'Folder of oc image mirror',
  unknown: 'Archive',
};

const containers: Record<Medium['container'], string> = {
  tar: 'tar file',
  folder: 'folder',
  iso: 'ISO file',
  compressed: 'compressed tar file',
};

/** Describes the form of a medium: "Archive of oc-mirror (tar file), number 2". */
export const formOf = ({ form, container, number }: Medium): string => {
  const kind = form === 'oc-mirror' && container === 'folder' ? 'Cache of oc-mirror' : (forms[form] ?? form);
  return `${kind} (${containers[container]})${number ? `, number ${String(number)}` : ''}`;
};

/** "1 image", "1,200 images". */
export const counted = (count: number, noun: string): string =>
  `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`;

export const releaseName = ({ version, architecture }: Release): string => `OpenShift ${version} (${architecture})`;

/** What a medium holds: its images and their size. */
export const contentOf = ({ container, images, bytes: size }: Medium): string =>
  container === 'compressed' ? bytes(size) : `${counted(images, 'image')}, ${bytes(size)}`;

/** The time of writing, which some media do not have. */
export const writtenOf = ({ written }: Medium): string =>
  written.startsWith('0001-') ? '' : `Written ${moment(written)}`;

export const isMoving = (registry: Registry | null | undefined): boolean =>
  !!registry &&
  (registry.verify.running ||
    registry.media.some(({ staging }) => staging.state === 'copying') ||
    registry.unusable.some(({ state }) => state === 'reading'));

/** The notices about paths without usable media. */
export const noticesOf = ({ unusable, media, notes }: Registry): { tone: 'info' | 'warning'; text: string }[] => [
  ...unusable.map(({ path, problem, state }) => ({
    tone: state ? ('info' as const) : ('warning' as const),
    text: asSentence(`${path} ${problem}`),
  })),
  ...media.flatMap(({ label, problems, damaged }) => [
    ...problems.map((problem) => ({ tone: 'warning' as const, text: `${label}: ${asSentence(problem)}` })),
    ...damaged.map((digest) => ({
      tone: 'warning' as const,
      text: `${label}: ${digest} is damaged. Copy the medium again.`,
    })),
  ]),
  ...notes.map((note) => ({ tone: 'info' as const, text: asSentence(note) })),
];

/** The state of a copy in words; '' if none was ordered. */
export const copyOf = ({ state, done_bytes: done, total_bytes: total, message }: Staging): string => {
  const share = `${String(Math.floor(percentOf(done, total)))} %`;
  switch (state) {
    case '':
      return '';
    case 'whole':
      return 'Copied: the medium is not needed';
    case 'copying':
      return `Copying, ${share}`;
    default:
      return asSentence(`${share} copied${message ? `: ${message}` : ''}`);
  }
};

export const canCopy = ({ present, staging }: Medium): boolean =>
  present && (staging.state === '' || staging.state === 'damaged');

export const canCancel = ({ staging }: Medium): boolean => staging.state !== '';

/** A medium that is plugged in would be found again at once. */
export const canRemove = ({ present, staging }: Medium): boolean => !present && staging.state === '';

/** Above this number of bytes there is no limit: the appliance does not know one. */
const unlimited = 2 ** 62;

export const roomOf = (room: number): string => (room >= unlimited ? 'no limit is known' : bytes(room));

/** What a copy needs, and whether there is room. */
export const planText = (plan: Plan): string => {
  const { media, needed_bytes: needed, room_bytes: room, limited_by: limit, fits, at_least: more } = plan;
  const left = plan.left_out.map((path) => ` ${path} is left out: it is still being copied.`).join('');
  const need = `The copy of ${media.join(', ')} needs ${more ? 'at least ' : ''}${bytes(needed)}.${left}`;
  if (room >= unlimited) {
    return need;
  }
  return `${need} There is room for ${bytes(room)}, limited by ${limit}.${fits ? '' : ' That is not enough.'}`;
};

/** The result of the last comparison of all blobs with their digests. */
export const verdictOf = (verify: Verify): { tone: Tone; text: string } => {
  const { done_bytes: done, total_bytes: total, damaged, message } = verify;
  if (message) {
    return { tone: 'danger', text: asSentence(`Not all blobs could be verified: ${message}`) };
  }
  if (damaged.length > 0) {
    const verb = damaged.length === 1 ? 'is' : 'are';
    const remedy = 'The list says what makes them sound.';
    return { tone: 'danger', text: `${counted(damaged.length, 'blob')} ${verb} damaged. ${remedy}` };
  }
  if (total === 0) {
    return { tone: undefined, text: 'No blob was verified since the appliance started.' };
  }
  return { tone: 'success', text: `${bytes(done)} match their digests.` };
};

/** Whether the images of a cluster are complete, by the newest proof of it. */
export const completenessOf = (
  cluster: string,
  proofs: readonly Proof[],
): { tone: Tone; text: string; details?: string | undefined } => {
  const proof = proofs.find(({ cluster_id: id }) => id === cluster);
  if (!proof) {
    return { tone: undefined, text: 'Not checked' };
  }
  if (proof.state === 'running') {
    return { tone: 'info', text: `Checking, ${String(proof.images)} of ${String(proof.total)} images` };
  }
  if (proof.state === 'failed') {
    return { tone: 'warning', text: 'The check failed', details: proof.message };
  }
  return proof.complete
    ? { tone: 'success', text: `All ${counted(proof.images, 'image')} are available` }
    : { tone: 'danger', text: `${counted(proof.gaps, 'image')} missing`, details: proof.message };
};

/** How the appliance names an architecture that a payload calls aarch64. */
const architectureOf = (name: string): string => (name === 'aarch64' ? 'arm64' : name);

const minorOf = (version: string): string => version.split('.', 2).join('.');

/** The live ISO for a release, as the appliance chooses it: the exact version, then a ready one. */
const imageFor = ({ version, architecture }: Release, images: readonly OsImage[]): OsImage | undefined => {
  const rank = (image: OsImage) => (image.openshift_version === version ? 2 : 0) + (image.state === 'ready' ? 1 : 0);
  return images
    .filter(
      (image) =>
        minorOf(image.openshift_version) === minorOf(version) &&
        (architecture === 'multi' || architectureOf(image.cpu_architecture) === architectureOf(architecture)),
    )
    .sort((a, b) => rank(b) - rank(a))[0];
};

/** The state of the live ISO of a release: a word, and details for a person. */
export const liveISOOf = (
  release: Release,
  images: readonly OsImage[] | null | undefined,
): { tone: Tone; text: string; details: string } => {
  const image = imageFor(release, images ?? []);
  if (!image) {
    return { tone: undefined, text: 'None', details: '' };
  }
  const details = asSentence(image.message || '');
  switch (image.state) {
    case 'ready':
      return { tone: 'success', text: 'Ready', details };
    case 'error':
    case 'failed':
      return { tone: 'danger', text: 'Failed', details };
    default:
      return { tone: 'info', text: 'On its way', details };
  }
};

const handOverStates: Record<HandOverState, { tone: Tone; text: string }> = {
  trying: { tone: 'info', text: 'Trying an upload' },
  copying: { tone: 'info', text: 'Copying' },
  proving: { tone: 'info', text: 'Checking the images' },
  naming: { tone: 'warning', text: 'Waiting for the DNS name' },
  adding: { tone: 'info', text: 'Adding the second mirror' },
  asking: { tone: 'warning', text: 'Waiting for a person' },
  removing: { tone: 'info', text: 'Removing the first mirror' },
  done: { tone: 'success', text: 'Done' },
  refused: { tone: 'danger', text: 'Refused' },
  stopped: { tone: 'warning', text: 'Stopped' },
};

export const handOverStateOf = (state: HandOverState): { tone: Tone; text: string } => handOverStates[state];

/** Whether nothing follows the state of a hand-over. */
export const hasEnded = ({ state }: HandOver): boolean => ['done', 'refused', 'stopped'].includes(state);

/** The command that starts, continues or stops a hand-over; undefined after it is done. */
export const nextOf = (handOver: HandOver | null): { command: string; effect: string } | undefined => {
  switch (handOver?.state) {
    case 'done':
      return undefined;
    case undefined:
    case 'refused':
    case 'stopped':
      return {
        command: 'landfall registry hand-over',
        effect: 'copies the images to another registry and moves the clusters to it, before the appliance leaves.',
      };
    case 'asking':
      return {
        command: 'landfall registry hand-over --remove-first',
        effect: "removes the appliance's registry from the clusters that have both mirrors.",
      };
    default:
      return {
        command: 'landfall registry hand-over --cancel',
        effect: 'stops the hand-over. What was copied and added stays.',
      };
  }
};

/** What a person should know of a hand-over. */
export const notesOf = ({ notes, incomplete }: HandOver): string[] => [
  ...(notes ?? []).map(asSentence),
  ...(incomplete ?? []).map((image) => `${image} is left out, because parts of it lie on no medium.`),
];

const clusterStates: Record<HandOverCluster['state'], { tone: Tone; text: string }> = {
  waiting: { tone: undefined, text: 'Unchanged' },
  'rolling-in': { tone: 'info', text: 'Gets the second mirror' },
  both: { tone: 'info', text: 'Has both mirrors' },
  'to-remove': { tone: 'info', text: 'Will lose the first mirror' },
  'rolling-out': { tone: 'info', text: 'Loses the first mirror' },
  independent: { tone: 'success', text: 'Independent' },
  'not-dependent': { tone: undefined, text: 'Does not depend on the appliance' },
};

export const clusterStateOf = (state: HandOverCluster['state']): { tone: Tone; text: string } => clusterStates[state];

/** How many nodes of each MachineConfigPool have the change: "master 1 of 3". */
export const poolsOf = ({ pools }: HandOverCluster): string =>
  (pools ?? []).map(({ name, machines, updated }) => `${name} ${String(updated)} of ${String(machines)}`).join(', ');

/** What a hand-over would copy. */
export const handOverPlanText = ({ images, bytes: size, to, clusters }: HandOver): string => {
  const depending = (clusters ?? []).map(({ name }) => name);
  const verb = images === 1 ? 'is' : 'are';
  return `${counted(images, 'image')} with ${bytes(size)} ${verb} copied to ${to}. ${
    depending.length === 0 ? 'No cluster depends on this registry.' : `The clusters are ${depending.join(', ')}.`
  }`;
};

/** The full names of the clusters that have both mirrors. */
export const withBoth = ({ clusters }: HandOver): string[] =>
  (clusters ?? []).filter(({ state }) => state === 'both').map(({ name }) => name);
