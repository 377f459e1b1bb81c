import { describe, expect, it } from 'vitest';
import type { Proof } from '../src/mirror/api';
import type { HandOver, Medium, Plan, Registry, Staging, Verify } from '../src/registry/api';
import {
  canCancel,
  canCopy,
  canRemove,
  completenessOf,
  contentOf,
  copyOf,
  formOf,
  handOverPlanText,
  isMoving,
  liveISOOf,
  nextOf,
  notesOf,
  noticesOf,
  planText,
  poolsOf,
  verdictOf,
  withBoth,
  writtenOf,
} from '../src/registry/words';

const none: Staging = { state: '', done_bytes: 0, total_bytes: 100 };
const medium: Medium = {
  path: '/media/stick',
  label: 'stick/mirror_000001.tar',
  form: 'oc-mirror',
  container: 'tar',
  present: true,
  since: '2026-11-01T10:00:00Z',
  number: 1,
  written: '0001-01-01T00:00:00Z',
  releases: [],
  images: 1200,
  blobs: 3000,
  bytes: 3 * 1024 ** 3,
  read_bytes: 0,
  damaged: [],
  problems: [],
  staging: none,
};
const still: Verify = { running: false, done_bytes: 0, total_bytes: 0, damaged: [] };
const registry: Registry = {
  host: 'mirror.site.test:5000',
  media: [medium],
  unusable: [],
  added: [],
  releases: [],
  gaps: [],
  notes: [],
  pushed_bytes: 0,
  staged_bytes: 0,
  limit_bytes: 0,
  room_bytes: 0,
  room_limit: 'nothing',
  dependents: [],
  sent_bytes: 0,
  clients: [],
  hand_over: false,
  verify: still,
};

describe('a medium', () => {
  it.each<[Partial<Medium>, string]>([
    [{}, 'Archive of oc-mirror (tar file), number 1'],
    [{ container: 'folder', number: 0 }, 'Cache of oc-mirror (folder)'],
    [{ form: 'oci-layout', container: 'folder', number: 0 }, 'OCI layout (folder)'],
    [{ form: 'another', container: 'iso', number: 0 }, 'another (ISO file)'],
    [{ form: 'unknown', container: 'compressed', number: 0 }, 'Archive (compressed tar file)'],
  ])('with %j is described', (change, words) => {
    expect(formOf({ ...medium, ...change })).toBe(words);
  });

  it('names its images, its size, and a known time of writing', () => {
    expect(contentOf(medium)).toBe('1,200 images, 3.0 GiB');
    expect(contentOf({ ...medium, container: 'compressed' })).toBe('3.0 GiB');
    expect(writtenOf(medium)).toBe('');
    expect(writtenOf({ ...medium, written: '2026-11-01T10:00:00Z' })).toMatch(/^Written .*2026/);
  });

  it.each<[Partial<Staging>, string, boolean, boolean]>([
    [{}, '', true, false],
    [{ state: 'copying', done_bytes: 50 }, 'Copying, 50 %', false, true],
    [{ state: 'waiting', done_bytes: 99, message: 'it is missing' }, '99 % copied: it is missing.', false, true],
    [{ state: 'full', message: 'no room' }, '0 % copied: no room.', false, true],
    [{ state: 'damaged', done_bytes: 90, message: '1 blob is damaged' }, '90 % copied: 1 blob is damaged.', true, true],
    [{ state: 'whole', done_bytes: 100 }, 'Copied: the medium is not needed', false, true],
  ])('with the copy %j says how far it is', (change, words, copies, cancels) => {
    const staging = { ...none, ...change };
    expect(copyOf(staging)).toBe(words);
    expect(canCopy({ ...medium, staging })).toBe(copies);
    expect(canCancel({ ...medium, staging })).toBe(cancels);
  });

  it('cannot be copied while it is missing', () => {
    expect(canCopy({ ...medium, present: false })).toBe(false);
  });
});

describe('a missing medium', () => {
  it('can be given up unless it has a copy', () => {
    expect(canRemove(medium)).toBe(false);
    expect(canRemove({ ...medium, present: false })).toBe(true);
    expect(canRemove({ ...medium, present: false, staging: { ...none, state: 'whole' } })).toBe(false);
  });
});

describe('the registry', () => {
  it('is moving while it reads, copies or verifies', () => {
    expect(isMoving(undefined)).toBe(false);
    expect(isMoving(registry)).toBe(false);
    expect(isMoving({ ...registry, verify: { ...still, running: true } })).toBe(true);
    expect(isMoving({ ...registry, unusable: [{ path: '/a', problem: '', state: 'reading' }] })).toBe(true);
    expect(isMoving({ ...registry, media: [{ ...medium, staging: { ...none, state: 'copying' } }] })).toBe(true);
  });

  it('says what is wrong with media and paths', () => {
    const found = noticesOf({
      ...registry,
      unusable: [
        { path: '/media/empty', problem: 'has no media; plug one in', state: 'empty' },
        { path: '/media/a.tar.gz', problem: 'is compressed with gzip; decompress it first' },
      ],
      media: [{ ...medium, problems: ['the archive ends too early'], damaged: ['sha256:ab'] }],
      notes: ['two media have one tag'],
    });
    expect(found).toEqual([
      { tone: 'info', text: '/media/empty has no media; plug one in.' },
      { tone: 'warning', text: '/media/a.tar.gz is compressed with gzip; decompress it first.' },
      { tone: 'warning', text: 'stick/mirror_000001.tar: The archive ends too early.' },
      { tone: 'warning', text: 'stick/mirror_000001.tar: sha256:ab is damaged. Copy the medium again.' },
      { tone: 'info', text: 'Two media have one tag.' },
    ]);
  });

  const plan: Plan = {
    media: ['a', 'b'],
    needed_bytes: 2048,
    room_bytes: 1024,
    limited_by: 'the disk',
    fits: false,
    at_least: false,
    left_out: [],
  };

  it('says what a copy needs before it starts', () => {
    expect(planText(plan)).toBe(
      'The copy of a, b needs 2.0 KiB. There is room for 1.0 KiB, limited by the disk. That is not enough.',
    );
    expect(planText({ ...plan, room_bytes: 2 ** 63, fits: true })).toBe('The copy of a, b needs 2.0 KiB.');
    expect(planText({ ...plan, room_bytes: 2 ** 63, fits: true, at_least: true })).toBe(
      'The copy of a, b needs at least 2.0 KiB.',
    );
    expect(planText({ ...plan, room_bytes: 2 ** 63, left_out: ['/media/c'] })).toBe(
      'The copy of a, b needs 2.0 KiB. /media/c is left out: it is still being copied.',
    );
  });

  it.each<[Partial<Verify>, string | undefined, string]>([
    [{}, undefined, 'No blob was verified since the appliance started.'],
    [{ done_bytes: 1024, total_bytes: 1024 }, 'success', '1.0 KiB match their digests.'],
    [{ total_bytes: 9, damaged: ['a'] }, 'danger', '1 blob is damaged. The list says what makes them sound.'],
    [{ total_bytes: 9, damaged: ['a', 'b'] }, 'danger', '2 blobs are damaged. The list says what makes them sound.'],
    [{ message: 'the disk hangs' }, 'danger', 'Not all blobs could be verified: the disk hangs.'],
  ])('with the verification %j gives a verdict', (change, tone, text) => {
    expect(verdictOf({ ...still, ...change })).toEqual({ tone, text });
  });
});

describe('a hand-over', () => {
  const handOver: HandOver = {
    way: 'add-mirror',
    needed: false,
    images: 0,
    name: 'mirror.site.test:5000',
    to: 'registry.site.test',
    state: 'copying',
    message: '',
    by: 'anna',
    started: '',
    bytes: 0,
    bytes_done: 0,
    incomplete: null,
    proofs: null,
    clusters: null,
    notes: null,
  };

  it.each<[HandOver | null, string | undefined]>([
    [null, 'landfall registry hand-over'],
    [{ ...handOver, state: 'refused' }, 'landfall registry hand-over'],
    [{ ...handOver, state: 'asking' }, 'landfall registry hand-over --remove-first'],
    [handOver, 'landfall registry hand-over --cancel'],
    [{ ...handOver, state: 'done' }, undefined],
  ])('names the next command %#', (one, command) => {
    expect(nextOf(one)?.command).toBe(command);
  });

  it('says what is left out, and how far the nodes of a cluster are', () => {
    expect(notesOf({ ...handOver, notes: ['a note'], incomplete: ['team/app:1'] })).toEqual([
      'A note.',
      'team/app:1 is left out, because parts of it lie on no medium.',
    ]);
    expect(notesOf(handOver)).toEqual([]);
    const pools = [{ name: 'master', machines: 3, updated: 1 }, { name: 'worker', machines: 2, updated: 2 }];
    expect(poolsOf({ id: '', name: '', state: 'rolling-in', pools })).toBe('master 1 of 3, worker 2 of 2');
    expect(poolsOf({ id: '', name: '', state: 'waiting', pools: null })).toBe('');
  });
});

describe('the plan of a hand-over', () => {
  const plan = {
    ...{ way: 'add-mirror', name: 'a:5000', to: 'b:5000', needed: false, state: 'trying', message: '', by: '' },
    ...{ started: '', images: 3, bytes: 2048, bytes_done: 0, incomplete: null, proofs: null, notes: null },
    clusters: [
      { id: '1', name: 'east.site.test', state: 'both', pools: null },
      { id: '2', name: 'west.site.test', state: 'rolling-in', pools: null },
    ],
  } satisfies HandOver;

  it('says what is copied, and which clusters have both mirrors', () => {
    expect(handOverPlanText(plan)).toBe(
      '3 images with 2.0 KiB are copied to b:5000. The clusters are east.site.test, west.site.test.',
    );
    expect(handOverPlanText({ ...plan, images: 1, clusters: null })).toBe(
      '1 image with 2.0 KiB is copied to b:5000. No cluster depends on this registry.',
    );
    expect(withBoth(plan)).toEqual(['east.site.test']);
  });
});

describe('the images of a cluster', () => {
  const proof: Proof = {
    id: 'p',
    release: 'r',
    cluster_id: 'c',
    why: 'ordered',
    state: 'done',
    started: '',
    complete: true,
    gaps: 0,
    images: 190,
    total: 190,
  };

  it.each<[Proof[], string | undefined, string]>([
    [[], undefined, 'Not checked'],
    [[{ ...proof, cluster_id: 'other' }], undefined, 'Not checked'],
    [[{ ...proof, state: 'running', images: 7 }], 'info', 'Checking, 7 of 190 images'],
    [[proof], 'success', 'All 190 images are available'],
    [[{ ...proof, complete: false, gaps: 1 }, proof], 'danger', '1 image missing'],
    [[{ ...proof, state: 'failed' }], 'warning', 'The check failed'],
  ])('by the proofs %#', (proofs, tone, text) => {
    expect(completenessOf('c', proofs)).toEqual({ tone, text });
  });

  it('with the sentence of a check that found something', () => {
    expect(completenessOf('c', [{ ...proof, state: 'failed', message: 'The registry is away.' }]).details).toBe(
      'The registry is away.',
    );
  });
});

it('finds the live ISO of a release', () => {
  const image = (change: object) => [
    { openshift_version: '4.20.8', cpu_architecture: 'arm64', state: 'ready', message: '', ...change },
  ];
  const release = { version: '4.20.8', architecture: 'aarch64', digest: '', pull_spec: '' };
  expect(liveISOOf(release, image({})).text).toBe('Ready');
  expect(liveISOOf({ ...release, architecture: 'multi' }, image({})).text).toBe('Ready');
  expect(liveISOOf({ ...release, architecture: 'x86_64' }, image({})).text).toBe('None');
  expect(liveISOOf(release, null).text).toBe('None');
  expect(liveISOOf(release, image({ state: 'waiting', message: 'a pull failed' }))).toEqual({
    tone: 'info',
    text: 'On its way',
    details: 'A pull failed.',
  });
  expect(liveISOOf(release, image({ state: 'failed' })).tone).toBe('danger');
  // The appliance uses a live ISO of the same minor version, and prefers the exact one.
  const minor = image({ openshift_version: '4.20' });
  expect(liveISOOf(release, minor).text).toBe('Ready');
  expect(liveISOOf(release, image({ openshift_version: '4.2' })).text).toBe('None');
  expect(liveISOOf(release, [...minor, ...image({ state: 'failed' })]).text).toBe('Failed');
  expect(liveISOOf(release, [...image({ state: 'failed' }), ...image({})]).text).toBe('Ready');
});
