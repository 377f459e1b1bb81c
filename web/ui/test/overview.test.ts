import { describe, expect, it } from 'vitest';
import type { AmsStatus } from '../src/ams/api';
import type { Proof } from '../src/mirror/api';
import type { Item, Overview } from '../src/overview/api';
import { asCSV } from '../src/overview/export';
import { ofAms, ofProof, ofServers, ofSetup, toneOfDisk } from '../src/overview/health';
import { installable, whyNoVersion } from '../src/shell/versions';
import { nextLine, progressOf, subjectOf, type LineState, type Setup } from '../src/overview/setup';
import { hasInstalled, partsOf, pathOf, statesOf, wordOf } from '../src/overview/words';

const setupOf = (...states: [id: string, state: LineState][]): Setup => ({
  complete: false,
  lines: states.map(([id, state]) => ({ id, state, result: `About ${id}.`, advice: 'Do it.' })),
});

describe('checklist', () => {
  const setup = setupOf(['url', 'done'], ['ssh-key', 'optional'], ['release', 'failed'], ['pull-secret', 'missing']);

  it('counts steps that are needed', () => {
    expect(progressOf(setup)).toEqual({ done: 1, needed: 3 });
  });

  it('leads to the first step that a person must do', () => {
    expect(nextLine(setup)?.id).toBe('release');
    expect(nextLine(setupOf(['url', 'done'], ['os-image', 'checking']))).toBeUndefined();
  });

  it('gives the advice for what is not done', () => {
    expect(ofSetup(setup).map(({ word, text }) => [word, text])).toEqual([
      ['Done', 'About url.'],
      ['Optional', 'About ssh-key. Do it.'],
      ['Failed', 'About release. Do it.'],
      ['To do', 'About pull-secret. Do it.'],
    ]);
  });

  it('shows what to change where no setting helps', () => {
    const line = { id: 'url', state: 'failed', result: 'It listens on 127.0.0.1.', key: 'listen' } as const;
    expect(subjectOf(line)).toMatchObject({ path: '/settings#url', action: 'Show what to change' });
    expect(subjectOf({ id: 'url', state: 'failed', result: '' })?.action).toBe('Set the address');
  });

  it('leaves out lines that this page does not know', () => {
    expect(ofSetup(setupOf(['moon', 'missing']))).toEqual([]);
  });
});

describe('states', () => {
  it('failures first, the same words once', () => {
    const counts = { installed: 3, 'preparing-for-installation': 1, installing: 1, error: 2, ready: 0 };
    const states = statesOf('cluster', counts);
    expect(states.map(({ text, count }) => [text, count])).toEqual([
      ['Failed', 2],
      ['Preparing', 1],
      ['Installing', 1],
      ['Installed', 3],
    ]);
    expect(statesOf('host', { known: 2, installing: 1, 'installing-in-progress': 4, disconnected: 1 })).toEqual([
      { text: 'Disconnected', tone: 'danger', count: 1 },
      { text: 'Installing', tone: 'info', count: 5 },
      { text: 'Ready', tone: 'success', count: 2 },
    ]);
  });

  it.each([
    [{}, false],
    [{ ready: 1, insufficient: 2, installed: 0 }, false],
    [{ ready: 1, installing: 1 }, true],
    [{ error: 1 }, true],
  ])('an installation has started: %j', (clusters, has) => {
    expect(hasInstalled(clusters)).toBe(has);
  });

  it('keeps a status that has no words', () => {
    const moon = { text: 'on-the-moon', tone: undefined, count: 1 };
    expect(statesOf('cluster', { 'on-the-moon': 1 })).toEqual([moon]);
    expect(statesOf('host', { 'on-the-moon': 1 })).toEqual([moon]);
  });

  const item = (of: Partial<Item>): Item => ({
    kind: 'cluster',
    id: '1',
    name: 'a',
    status: 'error',
    status_info: '',
    ...of,
  });

  it.each([
    ['a cluster', item({}), '/assisted-installer/clusters/1', 'Failed'],
    ['a host', item({ kind: 'host', cluster_id: '2', infra_env_id: '3' }), '/hosts/3/1', 'Failed'],
    [
      'a free host',
      item({ kind: 'host', infra_env_id: '3', status: 'known-unbound' }),
      '/hosts/3/1',
      'Available',
    ],
    ['a server', item({ kind: 'server', status: 'registration error' }), '/servers', 'BMC error'],
    ['a held management cluster', item({ kind: 'management-cluster', status: 'held' }), '/hosted', 'Held'],
    [
      'a management cluster whose workers wait',
      item({ kind: 'management-cluster', status: 'workers-not-followed' }),
      '/hosted',
      'Workers not followed',
    ],
    ['a replica', item({ kind: 'replica', status: 'behind' }), '/doctor', 'Behind'],
    ['backups', item({ kind: 'backups', status: 'failing' }), '/doctor', 'Failing'],
  ])('leads to %s', (_, of, path, word) => {
    expect([pathOf(of), wordOf(of).text]).toEqual([path, word]);
  });
});

describe('health', () => {
  const proof = (of: Partial<Proof>): Proof => ({
    id: '1',
    release: '4.20.8',
    why: 'ordered',
    state: 'done',
    started: '',
    complete: true,
    gaps: 0,
    images: 3,
    total: 9,
    message: 'the mirror holds all 9 images',
    ...of,
  });

  it.each([
    ['none', undefined, 'Not checked', 'Check the mirror before you install.'],
    ['running', proof({ state: 'running' }), 'Checking', '3 of 9 images of 4.20.8 are checked.'],
    ['complete', proof({}), 'Complete', 'The mirror holds all 9 images.'],
    ['incomplete', proof({ complete: false, message: '2 images are missing' }), 'Incomplete', '2 images are missing.'],
    ['failed', proof({ state: 'failed', complete: false, message: 'no route' }), 'Failed', 'No route.'],
  ])('proof: %s', (_, of, word, text) => {
    expect(ofProof(of)).toMatchObject({ word, text });
  });

  it.each([
    [0, 0, 'None', 'No server is controlled by its BMC.'],
    [1, 0, 'Good', '1 server, no errors.'],
    [3, 1, 'Errors', '1 of 3 servers with errors.'],
  ])('%d servers, %d failed', (servers, failed, word, text) => {
    expect(ofServers({ servers, failed_servers: failed } as Overview)).toMatchObject({ word, text });
  });

  it.each([
    ['needs a person', { attention: 1, waiting: 4 }, '1 cluster cannot be reported without a person.'],
    ['pending', { attention: 0, waiting: 4 }, '4 clusters waiting to be sent.'],
    ['sent', { attention: 0, waiting: 0 }, 'Nothing is waiting to be sent.'],
  ])('queue: %s', (_, counts, text) => {
    expect(ofAms({ state: 'online', ...counts } as AmsStatus)?.text).toBe(text);
  });

  it('does not mention a connection that is switched off', () => {
    expect(ofAms({ state: 'off', attention: 0, waiting: 1 } as AmsStatus)).toBeUndefined();
  });

  it.each([
    [50, 100, undefined],
    [10, 100, 'warning'],
    [1, 100, 'danger'],
    [0, 0, undefined],
  ])('%d of %d bytes free', (free, total, tone) => {
    expect(toneOfDisk(free, total)).toBe(tone);
  });

  it('adds the entries with the same content', () => {
    expect(
      partsOf([
        { name: 'os-images', bytes: 5 },
        { name: 'store', bytes: 4 },
        { name: '', bytes: 3 },
        { name: 'other', bytes: 1 },
      ]),
    ).toEqual([
      { name: 'Database', bytes: 7 },
      { name: 'Live ISOs', bytes: 5 },
      { name: 'other', bytes: 1 },
    ]);
  });
});

describe('export', () => {
  it('quotes texts, and defuses formulas', () => {
    const overview: Overview = {
      at: '2026-01-01T00:00:00Z',
      clusters: { installed: 1 },
      hosts: {},
      servers: 0,
      failed_servers: 0,
      installations: [
        { id: '1', name: 'east', openshift_version: '4.20.8', status: 'installing', status_info: '', percent: 40 },
      ],
      attention: [{ kind: 'host', id: '2', name: '=cmd()', status: 'error', status_info: 'It said "no", twice' }],
      attention_total: 1,
      disk: { path: '/data', free_bytes: 1, total_bytes: 2, parts: [] },
      fleet: false,
    };
    expect(asCSV(overview).split('\r\n')).toEqual([
      'section,name,value,details',
      'clusters,Installed,1,',
      'installation,east,40 %,OpenShift 4.20.8',
      `host,'=cmd(),Failed,"It said ""no"", twice"`,
      'disk,free,1,bytes',
      'disk,total,2,bytes',
      '',
    ]);
  });
});

describe('whyNoVersion', () => {
  const release = { openshift_version: '4.20.8', cpu_architecture: 'x86_64' };

  it.each([
    ['no release', [], 'This appliance has no release to install. Add one in the settings.'],
    [
      'no live ISO',
      [{ ...release, state: 'failed', message: 'there is no live ISO for it' }],
      'OpenShift 4.20.8 (x86_64) cannot be installed yet. There is no live ISO for it.',
    ],
    ['no reason yet', [release], 'OpenShift 4.20.8 (x86_64) cannot be installed yet. It is being read.'],
  ])('%s', (_, releases, sentence) => {
    expect(whyNoVersion({ releases })).toBe(sentence);
  });
});

describe('installable', () => {
  const status = {
    releases: [
      { openshift_version: '4.9.1', cpu_architecture: 'x86_64', state: 'failed' },
      { openshift_version: '4.10.2', cpu_architecture: 'x86_64', state: 'failed' },
      { openshift_version: '4.10.2', cpu_architecture: 'arm64' },
      { openshift_version: '4.8.7', cpu_architecture: 'x86_64' },
    ],
  };

  it('leaves out versions without a live ISO', () => {
    const versions = { '4.9.1': { default: true }, '4.10.2': {}, '4.8.7': {} };
    expect(installable(versions, status)).toEqual({ '4.10.2': { default: true }, '4.8.7': { default: false } });
  });

  it('knows short versions, and keeps the default', () => {
    expect(installable({ '4.9': {}, '4.8': { default: true }, '4.10': {} }, status)).toEqual({
      '4.8': { default: true },
      '4.10': {},
    });
  });
});
