import { describe, expect, it } from 'vitest';
import type { Progress, Stage } from '../src/clusters/api';
import { blockersOf } from '../src/clusters/blockers';
import { marksOf, segmentsOf, spanOf } from '../src/clusters/chart';
import { filterOf, matches, queryOf, sorted, type ClusterRow } from '../src/clusters/list';
import { pullSecretIn } from '../src/clusters/secrets';
import type { HostRow } from '../src/hosts/api';
import { currentStage, hasFailedPart, hasInstallation, helpPath } from '../src/clusters/words';

const start = '2026-03-01T08:00:00Z';
const at = (seconds: number) => new Date(Date.parse(start) + seconds * 1000).toISOString();

const progress = (parts: Partial<Progress>): Progress => ({
  at: at(100),
  cluster_id: 'c',
  name: 'north',
  openshift_version: '4.20.8',
  status: 'installing',
  status_info: '',
  percent: 40,
  started_at: start,
  phases: [],
  hosts: [],
  finalizing_stages: [],
  operators: [],
  ...parts,
});

describe('the span of the picture', () => {
  const seconds = (milliseconds: number) => (milliseconds - Date.parse(start)) / 1000;

  it('ends at the estimated end of a running installation', () => {
    const estimate = { seconds: 60, installations: 1, shortest_seconds: 1, longest_seconds: 2 };
    const { now, end } = spanOf(progress({ estimate }), 10_000);
    expect([seconds(now), seconds(end)]).toEqual([110, 160]);
  });

  it('ends at present without an estimate, or when it has passed', () => {
    const estimate = { seconds: 5, installations: 1, shortest_seconds: 1, longest_seconds: 2 };
    expect(seconds(spanOf(progress({}), 10_000).end)).toBe(110);
    expect(seconds(spanOf(progress({ estimate }), 10_000).end)).toBe(110);
  });

  it('ends at the end of the installation', () => {
    const { now, end } = spanOf(progress({ ended_at: at(50) }), 10_000);
    expect([seconds(now), seconds(end)]).toEqual([50, 50]);
  });
});

describe('the segments of a lane', () => {
  const span = { start: Date.parse(start), end: Date.parse(at(200)), now: Date.parse(at(100)) };
  const stages: Stage[] = [
    { name: 'a', state: 'done', started_at: start, seconds: 50 },
    { name: 'b', state: 'running', started_at: at(50), seconds: 20 },
    { name: 'c', state: 'waiting' },
  ];

  it('lets a running stage grow until now, and leaves those out that have not begun', () => {
    expect(segmentsOf(stages, span)).toEqual([
      { name: 'a', state: 'done', left: 0, width: 25, seconds: 50 },
      { name: 'b', state: 'running', left: 25, width: 25, seconds: 50 },
    ]);
  });

  it('stays within the lane', () => {
    const [late] = segmentsOf([{ name: 'x', state: 'done', started_at: at(190), seconds: 90 }], span);
    expect(late).toMatchObject({ left: 95, width: 5 });
  });
});

it('the axis has few marks at round times', () => {
  const marks = (seconds: number) =>
    marksOf({ start: 0, end: seconds * 1000, now: 0 }).map(({ seconds: mark }) => mark);
  expect(marks(34)).toEqual([0, 10, 20, 30]);
  expect(marks(2400)).toEqual([0, 600, 1200, 1800, 2400]);
  expect(marks(10)).toEqual([0, 2, 4, 6, 8, 10]);
});

it('the current stage is the one that runs or has failed, or else the last one', () => {
  const stage = (name: string, state: Stage['state']): Stage => ({ name, state });
  expect(currentStage([stage('a', 'done'), stage('b', 'running'), stage('c', 'waiting')])?.name).toBe('b');
  expect(currentStage([stage('a', 'done'), stage('b', 'failed')])?.name).toBe('b');
  expect(currentStage([stage('a', 'done'), stage('b', 'done')])?.name).toBe('b');
  expect(currentStage([])).toBeUndefined();
});

it('the wizard is shown until the installation begins, and for more hosts', () => {
  expect(['insufficient', 'ready', 'pending-for-input', 'adding-hosts'].filter(hasInstallation)).toEqual([]);
  expect(hasInstallation('preparing-for-installation')).toBe(true);
  expect(hasInstallation('error')).toBe(true);
});

it.each<[string, string, boolean, string, boolean]>([
  ['a host that failed', 'error', true, 'available', true],
  ['a failed optional operator', 'installed', false, 'failed', true],
  ['an operator of the platform that reports a failure later', 'installed', true, 'failed', false],
  ['no failed part', 'installed', false, 'available', false],
])('an installed cluster with %s', (_case, host, builtin, operator, want) => {
  const hosts = [{ status: host }] as unknown as Progress['hosts'];
  expect(hasFailedPart({ hosts, operators: [{ name: 'lvm', builtin, status: operator }] })).toBe(want);
});

it('the advice leads to the page of the host that failed', () => {
  const cause = { kind: 'host', id: 'h', infra_env_id: 'e', name: 'host-1' } as const;
  const failure = { title: '', cause, others: [], stopped: [], advice: [] };
  expect(helpPath(failure, 'host')).toBe('/hosts/e/h');
  expect(helpPath(failure, 'mirror')).toBe('/mirror');
  expect(helpPath(failure, undefined)).toBeUndefined();
  expect(helpPath(failure, 'unknown')).toBeUndefined();
});

it('the pull secret of an install-config', () => {
  const secret = '{"auths":{"a":{"auth":"b"}}}';
  expect(pullSecretIn(JSON.stringify({ apiVersion: 'v1', pullSecret: secret }))).toBe(secret);
  expect(() => pullSecretIn('{}')).toThrow('no pull secret');
});

describe('the list of clusters', () => {
  const row = (parts: Partial<ClusterRow>): ClusterRow => ({
    id: 'i',
    name: 'north',
    openshift_version: '4.20.8',
    status: 'ready',
    status_info: '',
    percent: 0,
    control_plane_count: 3,
    hosts: 3,
    created_at: start,
    status_updated_at: start,
    ...parts,
  });

  it('sorts numbers in names and versions as numbers', () => {
    const rows = ['site-10', 'site-2', 'site-1'].map((name) => row({ name, openshift_version: `4.${name.slice(5)}` }));
    const names = (by: 'name' | 'version', direction: 'asc' | 'desc') =>
      sorted(rows, { by, direction }).map(({ name }) => name);
    expect(names('name', 'asc')).toEqual(['site-1', 'site-2', 'site-10']);
    expect(names('version', 'desc')).toEqual(['site-10', 'site-2', 'site-1']);
  });

  it('filters by words, state and version', () => {
    const one = row({ name: 'north', base_dns_domain: 'site.test' });
    const all = { text: '', state: '', version: '' };
    expect(matches(one, all)).toBe(true);
    expect(matches(one, { ...all, text: 'SITE nor' })).toBe(true);
    expect(matches(one, { ...all, text: 'south' })).toBe(false);
    expect(matches(one, { ...all, state: 'Ready to install' })).toBe(true);
    expect(matches(one, { ...all, state: 'Failed' })).toBe(false);
    expect(matches(one, { ...all, version: '4.19.1' })).toBe(false);
  });

  it('keeps the filter in the address', () => {
    const filter = { text: 'a b', state: 'Failed', version: '' };
    expect(queryOf(filter)).toEqual({ q: 'a b', state: 'Failed' });
    expect(filterOf(new URLSearchParams(queryOf(filter)))).toEqual(filter);
  });
});

describe('the blockers of an installation', () => {
  const failed = (...ids: string[]) => JSON.stringify({ x: ids.map((id) => ({ id, status: 'failure', message: id })) });
  const readiness = (info: string, failing: number) => ({
    details: { id: 'c', name: 'north', validations_info: info },
    hosts: [{ id: 'h', infra_env_id: 'e', name: 'host-1', failing, first_failing: 'too small' } as HostRow],
    infraEnvs: [],
  });
  const keys = (info: string, failing: number) => blockersOf(readiness(info, failing)).map(({ key }) => key);

  it('are the failed checks of the hosts and not the check that repeats them', () => {
    expect(keys(failed('api-vips-defined', 'all-hosts-are-ready-to-install'), 2)).toEqual(['api-vips-defined', 'h']);
  });

  it('are not empty when a host is not ready without a failed check', () => {
    expect(keys(failed('all-hosts-are-ready-to-install'), 0)).toEqual(['all-hosts-are-ready-to-install']);
  });
});
