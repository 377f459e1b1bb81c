import { describe, expect, it } from 'vitest';
import type { Fleet, Member, Server } from '../src/fleet/api';
import { lacks, leads, roleOf, sizeOf, stateOf, versionsDiffer } from '../src/fleet/words';

const member: Member = {
  name: 'b',
  url: 'https://b:8090',
  version: 'v1',
  role: 'follower',
  records: 7,
  behind: 0,
  lag_seconds: 0,
  missing_contents: 0,
  missing_live_isos: 0,
  missing_blobs: 0,
  clock_seconds: 0,
};
const server: Server = {
  url: 'http://x',
  leader: false,
  latency_seconds: 0.001,
  bytes: 1024,
  no_space: false,
  damaged: false,
};
const fleet: Fleet = {
  fleet: 'id',
  member: 'a',
  leading: 'a',
  records: 7,
  members: [member],
  loss: '',
  safe: true,
};

describe('a member', () => {
  it.each([
    [{}, 'Follows', 'success'],
    [{ role: 'leader' }, 'Leads', 'success'],
    [{ role: 'leader', problem: 'No answer.' }, 'Leads', 'warning'],
    [{ problem: 'No answer.' }, 'Follows', 'warning'],
    [{ role: 'restoring' }, 'Takes a snapshot', 'warning'],
    [{ role: 'away' }, 'Away', 'danger'],
  ] as const)('with %j: %s', (change, text, tone) => {
    expect(roleOf({ ...member, ...change })).toEqual({ text, tone });
  });

  it('says what it lacks', () => {
    expect(lacks(member)).toBe('Nothing');
    expect(lacks({ ...member, behind: 1, lag_seconds: 90, missing_contents: 1, missing_blobs: 1 })).toBe(
      '1 record behind, 1 min 30 s; 2 files not copied yet',
    );
    expect(lacks({ ...member, role: 'away', seen: '2026-01-02T03:04:05Z' })).toMatch(/^Last seen .*2026/);
  });
});

describe('a server of etcd', () => {
  it.each([
    [{}, 'Answers', 'success'],
    [{ leader: true }, 'Answers, leads etcd', 'success'],
    [{ problem: 'No answer.', leader: true }, 'Does not answer', 'danger'],
    [{ no_space: true }, 'No space', 'danger'],
    [{ damaged: true, no_space: true }, 'Databases differ', 'danger'],
  ] as const)('with %j: %s', (change, text, tone) => {
    expect(stateOf({ ...server, ...change })).toEqual({ text, tone });
  });

  it('has a size and may have a limit', () => {
    expect(sizeOf(server)).toBe('1.0 KiB');
    expect(sizeOf({ ...server, quota_bytes: 2048 })).toBe('1.0 KiB of 2.0 KiB');
    expect(sizeOf({ ...server, problem: 'No answer.' })).toBe('');
  });
});

describe('a fleet', () => {
  it('names its leader', () => {
    expect(leads(fleet)).toBe('a leads.');
    expect(leads({ ...fleet, since: '2026-01-02T03:04:05Z' })).toMatch(/^a leads since .*2026/);
    expect(leads({ ...fleet, leading: '' })).toBe('No member leads.');
  });

  it('compares the versions', () => {
    expect(versionsDiffer(fleet)).toBe(false);
    expect(versionsDiffer({ ...fleet, members: [member, { ...member, version: 'v2' }] })).toBe(true);
  });
});
