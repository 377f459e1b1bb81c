import { describe, expect, it } from 'vitest';
import { choicesOf, mergeRows } from '../src/shell/rows';
import type { HostRow } from '../src/hosts/api';
import { checkName, checksOf, inventoryOf, linksOf } from '../src/hosts/details';
import {
  keyOf,
  clockOf,
  filterOf,
  forEachHost,
  matches,
  noCluster,
  noFilter,
  problemOf,
  queryOf,
  roleOf,
  sorted,
  summaryOf,
  waitsForApproval,
} from '../src/hosts/table';
import { stateOf } from '../src/hosts/states';

const host = (alter: Partial<HostRow>): HostRow => ({
  id: 'h',
  infra_env_id: 'e',
  infra_env_name: 'east',
  name: 'node-1',
  role: 'worker',
  status: 'known',
  status_info: 'Host is ready',
  last_contact: '2026-01-01T00:00:00Z',
  registered_at: '2026-01-01T00:00:00Z',
  ...alter,
});

const hardware = (addresses: string[], macs: string[] = []) => ({
  cpus: 4,
  memory_bytes: 1,
  disks: 1,
  disk_bytes: 1,
  serial_number: 'ABC',
  addresses,
  macs,
});

describe('matches', () => {
  const node = host({
    cluster_id: 'c',
    cluster_name: 'berlin',
    hardware: hardware(['192.0.2.7'], ['52:54:00:00:00:01']),
  });
  it.each([
    ['no filter', {}, true],
    ['part of the name', { text: 'ODE-1' }, true],
    ['an address', { text: '192.0.2.7' }, true],
    ['a MAC in upper case', { text: '52:54:00:00:00:01'.toUpperCase() }, true],
    ['a serial number', { text: 'abc' }, true],
    ['several words', { text: 'berlin node' }, true],
    ['words of which one is not found', { text: 'berlin other' }, false],
    ['a state by its name', { status: 'Ready' }, true],
    ['another state', { status: 'Failed' }, false],
    ['the cluster', { cluster: 'c' }, true],
    ['another cluster', { cluster: 'd' }, false],
    ['hosts of no cluster', { cluster: noCluster }, false],
    ['another infra-env', { infraEnv: 'f' }, false],
    ['the role', { role: 'worker' }, true],
    ['another role', { role: 'master' }, false],
    ['hosts with a problem', { problem: true }, false],
  ])('%s', (_name, filter, expected) => {
    expect(matches(node, { ...noFilter, ...filter })).toBe(expected);
  });
});

describe('filterOf', () => {
  it('reads what queryOf writes', () => {
    const filter = { ...noFilter, text: 'a b', cluster: noCluster, problem: true };
    expect(queryOf(filter)).toEqual({ q: 'a b', cluster: 'none', problem: 'true' });
    expect(filterOf(new URLSearchParams(queryOf(filter)))).toEqual(filter);
    expect(queryOf(noFilter)).toEqual({});
  });
});

describe('sorted', () => {
  const names = (hosts: HostRow[]) => hosts.map(({ name }) => name);
  it('counts numbers in names as numbers', () => {
    const hosts = ['node-10', 'node-9', 'Node-2'].map((name) => host({ name, id: name }));
    expect(names(sorted(hosts, { by: 'name', direction: 'asc' }))).toEqual(['Node-2', 'node-9', 'node-10']);
    expect(names(sorted(hosts, { by: 'name', direction: 'desc' }))).toEqual(['node-10', 'node-9', 'Node-2']);
  });
  it('orders equal values by name', () => {
    const hosts = [host({ name: 'b' }), host({ name: 'a' }), host({ name: 'c', clock_offset_seconds: -5 })];
    expect(names(sorted(hosts, { by: 'clock', direction: 'desc' }))).toEqual(['c', 'a', 'b']);
  });
});

describe('merge', () => {
  const rows = [host({ id: 'a' }), host({ id: 'b' }), host({ id: 'c' })];
  it('replaces a changed host and keeps the other rows', () => {
    const next = mergeRows(rows, ['b'], [host({ id: 'b', name: 'new' })], keyOf);
    expect(next.map(({ name }) => name)).toEqual(['node-1', 'new', 'node-1']);
    expect(next[0]).toBe(rows[0]);
  });
  it('removes a changed host that is no longer listed', () => {
    expect(mergeRows(rows, ['b'], [], keyOf).map(({ id }) => id)).toEqual(['a', 'c']);
  });
  it('adds a new host', () => {
    expect(mergeRows(rows, ['d'], [host({ id: 'd' })], keyOf).map(({ id }) => id)).toEqual(['a', 'b', 'c', 'd']);
  });
  it('moves a host to another infra-env', () => {
    const next = mergeRows(rows, ['a'], [host({ id: 'a', infra_env_id: 'f' })], keyOf);
    expect(next.map(({ id, infra_env_id: env }) => id + env)).toEqual(['be', 'ce', 'af']);
  });
});

describe('problemOf', () => {
  it.each([
    ['a ready host', {}, ''],
    ['a failed check', { failing: 1, first_failing: 'No disk.' }, 'No disk.'],
    ['an old failed check of an installed host', { status: 'installed', first_failing: 'No disk.' }, ''],
    ['a host that is disconnected', { status: 'disconnected', status_info: 'Gone' }, 'Gone'],
    ['a BMC with an error', { bmc: { id: 's', name: 's', power: 'on', error: 'No route.' } }, 'No route.'],
  ])('%s', (_name, alter, expected) => {
    expect(problemOf(host(alter))).toBe(expected);
  });
});

describe('words', () => {
  it('names states, roles and clocks', () => {
    expect(stateOf('known-unbound')).toEqual({ name: 'Available', color: 'green' });
    expect(stateOf('unheard-of').name).toBe('unheard-of');
    expect(roleOf(host({ role: 'auto-assign' }))).toBe('Automatic');
    expect(roleOf(host({ role: 'auto-assign', suggested_role: 'master' }))).toBe('Control plane (automatic)');
    expect(roleOf(host({ role: 'master', bootstrap: true }))).toBe('Control plane, bootstrap');
    expect(clockOf(host({}))).toBe('');
    expect(clockOf(host({ clock_offset_seconds: -1 }))).toBe('Same as here');
    expect(clockOf(host({ clock_offset_seconds: -221 }))).toBe('221 s behind');
    expect(clockOf(host({ clock_offset_seconds: 60 }))).toBe('60 s ahead');
  });
  it('counts the choices of a filter in natural order', () => {
    const hosts = ['c-10', 'c-2', 'c-10'].map((name) => host({ cluster_name: name }));
    expect(choicesOf(hosts, ({ cluster_name: name = '' }) => ({ value: name, name }))).toEqual([
      { value: 'c-2', name: 'c-2', count: 1 },
      { value: 'c-10', name: 'c-10', count: 2 },
    ]);
  });
});

describe('forEachHost', () => {
  it('reports the failures and performs the action on the other hosts', async () => {
    const hosts = ['a', 'b', 'c', 'd', 'e', 'f'].map((name) => host({ name }));
    const done: string[] = [];
    const results = await forEachHost(
      hosts,
      ({ name }) => {
        if (name === 'b') {
          return Promise.reject(new Error('Busy.'));
        }
        done.push(name);
        return Promise.resolve();
      },
      (error) => (error as Error).message,
    );
    expect(done.sort()).toEqual(['a', 'c', 'd', 'e', 'f']);
    expect(results.filter(({ error }) => error).map(({ host: { name }, error }) => [name, error])).toEqual([
      ['b', 'Busy.'],
    ]);
    expect(summaryOf('Role set on', results)).toBe('Role set on 5 hosts. 1 host failed.');
    expect(summaryOf('Removed', results.slice(0, 1))).toBe('Removed 1 host.');
    expect(summaryOf('Removed', results.slice(1, 2))).toBe('1 host failed.');
  });
});

describe('details of a host', () => {
  it('lists failed checks first', () => {
    const info = {
      hardware: [
        { id: 'has-inventory', status: 'success', message: 'ok' },
        { id: 'has-min-memory', status: 'failure', message: 'too little' },
      ],
      network: [{ id: 'ntp-synced', status: 'pending', message: 'wait' }],
    };
    const checks = checksOf({ id: 'h', validations_info: JSON.stringify(info) });
    expect(checks.map(({ id }) => id)).toEqual(['has-min-memory', 'ntp-synced', 'has-inventory']);
    expect(checksOf({ id: 'h' })).toEqual([]);
    expect(checkName('has-min-memory')).toBe('Has min memory');
  });
  it('shows interfaces with their speed and addresses', () => {
    expect(inventoryOf({ id: 'h' })).toBeUndefined();
    const links = linksOf({
      interfaces: [
        { name: 'eno1', has_carrier: true, speed_mbps: 25_000, ipv4_addresses: ['192.0.2.7/24'],
          ipv6_addresses: ['fe80::1/64', '2001:db8::7/64'] },
        { name: 'eno2', speed_mbps: 100 },
      ],
    });
    expect(links.map(({ state, speed, addresses }) => [state, speed, addresses])).toEqual([
      ['Up', '25 Gbit/s', ['192.0.2.7/24', '2001:db8::7/64']],
      ['No link', '100 Mbit/s', []],
    ]);
  });
});

describe('waitsForApproval', () => {
  it.each([
    ['a host that needs none', {}, false],
    ['an approved one', { approved: true }, false],
    ['one that is not approved', { approved: false }, true],
    ['one of no cluster', { approved: false, status: 'known-unbound' }, true],
    ['an installed one', { approved: false, status: 'installed' }, false],
  ])('%s', (_name, alter, want) => {
    expect(waitsForApproval(host(alter))).toBe(want);
  });
});
