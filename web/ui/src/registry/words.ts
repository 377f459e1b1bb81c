import type { Proof } from '../mirror/api';
import { asSentence, bytes, moment, percentOf } from '../shell/quantities';
import type { OsImage } from '../shell/appliance';
import type { Tone } from '../shell/Toned';
import type { Medium, Plan, Registry, Release, Staging, Verify } from './api';

const forms: Record<string, string> = {
  'oc-mirror': 'Archive of oc-mirror',
  registry: 'Data of a registry',
  'oci-layout': 'OCI layout',
  courier: 'Folder of a courier',
  'oc-image-mirror': 'Folder of oc image mirror',
};

const containers: Record<Medium['container'], string> = { tar: 'tar file', folder: 'folder', iso: 'ISO file' };

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
export const contentOf = ({ images, bytes: size }: Medium): string => `${counted(images, 'image')}, ${bytes(size)}`;

/** The time of writing, which some media do not have. */
export const writtenOf = ({ written }: Medium): string =>
  written.startsWith('0001-') ? '' : `Written ${moment(written)}`;

export const isMoving = (registry: Registry | null | undefined): boolean =>
  !!registry &&
  (registry.verify.running ||
    registry.media.some(({ staging }) => staging.state === 'copying') ||
    registry.unusable.some(({ problem }) => problem === reading));

/** The problem of a path whose media are being read. */
const reading = 'is being read';

/** The notices about paths without usable media. */
export const noticesOf = ({ unusable, media, notes }: Registry): { tone: 'info' | 'warning'; text: string }[] => [
  ...unusable.map(({ path, problem }) => ({
    tone: problem === reading || problem.startsWith('has no media') ? ('info' as const) : ('warning' as const),
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

/** Above this number of bytes there is no limit: the appliance does not know one. */
const unlimited = 2 ** 62;

export const roomOf = (room: number): string => (room >= unlimited ? 'no limit is known' : bytes(room));

/** What a copy needs, and whether there is room. */
export const planText = ({ media, needed_bytes: needed, room_bytes: room, limited_by: limit, fits }: Plan): string => {
  const need = `The copy of ${media.join(', ')} needs ${bytes(needed)}.`;
  if (room >= unlimited) {
    return need;
  }
  return `${need} There is room for ${bytes(room)}, limited by ${limit}.${fits ? '' : ' That is not enough.'}`;
};

/** The result of the last comparison of the media with their digests. */
export const verdictOf = (verify: Verify): { tone: Tone; text: string } => {
  const { done_bytes: done, total_bytes: total, damaged, message } = verify;
  if (message) {
    return { tone: 'danger', text: asSentence(`The media could not be verified: ${message}`) };
  }
  if (damaged.length > 0) {
    return {
      tone: 'danger',
      text: `${counted(damaged.length, 'blob')} ${damaged.length === 1 ? 'is' : 'are'} damaged. Copy the media again.`,
    };
  }
  if (total === 0) {
    return { tone: undefined, text: 'The media were not verified since the appliance started.' };
  }
  return { tone: 'success', text: `${bytes(done)} on the media match their digests.` };
};

/** Whether the images of a cluster are complete, by the newest proof of it. */
export const completenessOf = (cluster: string, proofs: readonly Proof[]): { tone: Tone; text: string } => {
  const proof = proofs.find(({ cluster_id: id }) => id === cluster);
  if (!proof) {
    return { tone: undefined, text: 'Not checked' };
  }
  if (proof.state === 'running') {
    return { tone: 'info', text: `Checking, ${String(proof.images)} of ${String(proof.total)} images` };
  }
  if (proof.state === 'failed') {
    return { tone: 'warning', text: proof.message ?? 'The check failed.' };
  }
  return proof.complete
    ? { tone: 'success', text: `All ${counted(proof.images, 'image')} are available` }
    : { tone: 'danger', text: proof.message ?? `${counted(proof.gaps, 'image')} missing` };
};

/** How the appliance names an architecture that a payload calls aarch64. */
const architectureOf = (name: string): string => (name === 'aarch64' ? 'arm64' : name);

/** The state of the live ISO of a release: a word, and details for a person. */
export const liveISOOf = (
  { version, architecture }: Release,
  images: readonly OsImage[] | null | undefined,
): { tone: Tone; text: string; details: string } => {
  const image = images?.find(
    (one) =>
      one.openshift_version === version &&
      (architecture === 'multi' || architectureOf(one.cpu_architecture) === architectureOf(architecture)),
  );
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
