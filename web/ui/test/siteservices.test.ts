import { describe, expect, it } from 'vitest';
import type { Lease, Services, Status, Zone } from '../src/siteservices/api';
import {
  clockOf,
  endOf,
  kindOf,
  lineOf,
  lossOf,
  modeOf,
  notesOf,
  othersOf,
  placesOf,
  stateOf,
  whyFixed,
  zoneFileOf,
  zoneStateOf,
} from '../src/siteservices/words';

const dns: Status = {
  service: 'dns',
  interface: 'eth1',
  source: 'administrator',
  state: 'serving',
  since: '2026-11-01T10:00:00Z',
};
const site: Services = {
  services: [dns, { ...dns, interface: 'usb0', state: 'failed' }],
  interfaces: [
    { name: 'eth0', addresses: ['192.0.2.2/24'] },
    { name: 'eth1', addresses: [] },
  ],
  dns: { zones: [], own_names: [], forward: [], counts: { own: 0, forwarded: 0, refused: 0 } },
  clock: { synchronized: true, max_error: '12ms' },
  departure: [],
};

describe('a service', () => {
  it('has a place on each interface, and on those that are gone', () => {
    expect(placesOf('dns', site).map(({ on, status }) => [on, status?.state])).toEqual([
      ['eth0', undefined],
      ['eth1', 'serving'],
      ['usb0', 'failed'],
    ]);
    expect(placesOf('ntp', site).map(({ on }) => on)).toEqual(['eth0', 'eth1']);
  });

  it('can only be switched off where it was switched on', () => {
    const tftp: Status = { ...dns, service: 'tftp' };
    expect(whyFixed(dns, [dns])).toBe('');
    expect(whyFixed({ ...dns, source: 'configuration' }, [dns])).toContain('site.dns.interfaces');
    expect(whyFixed(tftp, [tftp, { ...dns, service: 'dhcp' }])).toBe('It belongs to DHCP on this interface.');
    expect(whyFixed(tftp, [tftp, { ...dns, service: 'dhcp', interface: 'eth2' }])).toBe('');
  });

  it.each([
    ['serving', 'success'],
    ['looking', 'info'],
    ['another-server', 'warning'],
    ['failed', 'danger'],
  ] as const)('in the state %s has the colour %s', (state, tone) => {
    expect(stateOf({ ...dns, state }).tone).toBe(tone);
  });

  it('says how it runs, and who else answers', () => {
    expect(modeOf({})).toBe('');
    expect(modeOf({ mode: 'proxy' })).toContain('beside another DHCP server');
    expect(modeOf({ mode: 'reservations' })).toContain('reserved');
    expect(modeOf({ mode: 'range', range: 'a-b' })).toContain('a-b');
    expect(modeOf({ local_clock: true })).toContain('declared');
    const others = [{ address: '192.0.2.1', mac: '52:54:00:00:00:01' }, { address: '192.0.2.9' }];
    expect(othersOf({ ...dns, others })).toBe('192.0.2.1, MAC address 52:54:00:00:00:01; 192.0.2.9');
    expect(othersOf(dns)).toBe('');
  });
});

it('says what leaves with the appliance', () => {
  expect(lossOf('dns', 'proxy')).toContain('names no longer resolve');
  expect(lossOf('dhcp', 'range')).toContain('lose their addresses');
  expect(lossOf('dhcp', 'proxy')).toContain('no longer boot');
});

it('tells whether the clock is synchronised', () => {
  expect(clockOf(site.clock)).toEqual({ tone: 'success', text: 'Synchronised, wrong by 12ms at most' });
  expect(clockOf({ synchronized: false }).tone).toBe('warning');
});

describe('a zone', () => {
  const zone: Zone = {
    name: 'east.site.test',
    cluster: 'east',
    cluster_id: 'c',
    records: [
      { name: 'api.east.site.test', type: 'A', value: '192.0.2.5' },
      { name: '5.2.0.192.in-addr.arpa', type: 'PTR', value: 'api.east.site.test' },
    ],
    served_by_site: false,
    answered: true,
  };

  it('is copied as lines of a zone file', () => {
    expect(zone.records.map(lineOf)).toEqual([
      'api.east.site.test. 60 IN A 192.0.2.5',
      '5.2.0.192.in-addr.arpa. 60 IN PTR api.east.site.test.',
    ]);
    expect(zoneFileOf(zone.records)).toMatch(/192\.0\.2\.5\n5\..*\n$/);
  });

  it('says who answers for it', () => {
    expect(zoneStateOf(zone).text).toBe('Answered');
    expect(zoneStateOf({ ...zone, answered: false }).tone).toBe('warning');
    expect(zoneStateOf({ ...zone, answered: false, served_by_site: true }).tone).toBe('info');
  });

  it('has notes about differences and unknown addresses', () => {
    expect(notesOf(zone)).toEqual([]);
    const difference = { name: 'api.east.site.test', type: 'A', ours: ['a'], site: ['b', 'c'], server: 's' };
    const failures = [{ name: 'x', type: 'A', server: 's', code: 'SERVFAIL' }];
    const missing = ['apps'];
    expect(notesOf({ ...zone, message: 'the records differ', differences: [difference], failures, missing })).toEqual([
      'The records differ.',
      'api.east.site.test A: a here, b, c at the DNS server s.',
      'x A: the DNS server s failed (SERVFAIL); it may have another record.',
      'The addresses of these names of east.site.test are not known yet: apps.',
    ]);
  });
});

it('says when a lease ends', () => {
  const lease: Lease = {
    address: '192.0.2.100',
    mac: '52:54:00:00:00:01',
    interface: 'eth1',
    duration: 3_600e9,
    granted: '2026-11-01T10:00:00Z',
    until: '2027-11-01T10:00:00Z',
  };
  expect(endOf(lease)).toMatch(/2027/);
  expect(endOf({ ...lease, duration: 0xffffffff * 1e9 })).toBe('never');
});

it('names what happened to a machine', () => {
  expect(kindOf('boot')).toEqual({ tone: 'success', text: 'Booted' });
  expect(kindOf('another')).toEqual({ tone: undefined, text: 'another' });
});
