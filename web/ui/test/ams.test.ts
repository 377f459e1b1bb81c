import { describe, expect, it } from 'vitest';
import type { ClusterLine } from '../src/ams/api';
import {
  describeFields,
  fingerprintIn,
  firstAction,
  confirmedText,
  pendingText,
  remedy,
  relayStatus,
} from '../src/ams/words';

const line = (alter: Partial<ClusterLine>): ClusterLine => ({
  cluster_id: 'c',
  name: 'one',
  subscription_id: 's',
  state: 'waiting',
  told: {},
  to_tell: {},
  edited: {},
  to_become: 'reserved',
  ...alter,
});

describe('texts about a cluster in AMS', () => {
  it('names of the fields', () => {
    expect(describeFields({ display_name: 'one', console_url: 'https://c' })).toBe("name one, console's URL https://c");
    expect(describeFields({})).toBe('');
  });

  it.each<[Partial<ClusterLine>, string]>([
    [{}, 'Nothing'],
    [{ ams_status: 'Reserved', told: { display_name: 'one' } }, 'Reserved: name one'],
  ])('confirmed data of %j', (alter, words) => {
    expect(confirmedText(line(alter))).toBe(words);
  });

  it.each<[Partial<ClusterLine>, string]>([
    [{ state: 'sent' }, ''],
    [{ to_tell: { display_name: 'two' } }, 'name two'],
    [{ to_become: 'absent' }, 'the deletion'],
    [{ to_become: 'active', to_tell: { console_url: 'u' } }, "console's URL u, the end of the installation"],
    [{ to_become: 'active', ams_status: 'Active' }, 'a change that was reverted'],
    [
      { to_become: 'active', deleted: true },
      'the end of the installation, and no later changes, because the cluster was deleted here',
    ],
  ])('pending changes of %j', (alter, words) => {
    expect(pendingText(line(alter))).toBe(words);
  });

  it.each<[Partial<ClusterLine>, RegExp]>([
    [{ state: 'sent' }, /^$/],
    [{ state: 'attention', kind: 'blocked', http: 409 }, /the owner of the cluster/],
    [{ state: 'attention', kind: 'blocked', http: 403 }, /the permission/],
    [{ state: 'attention', kind: 'dead', http: 400 }, /Edit the values to send/],
    [{ state: 'attention', kind: 'blocked' }, /Check the subscription/],
    [{ state: 'attention', kind: 'attention', ams_status: 'Active' }, /^Create it again/],
    [{ state: 'attention', kind: 'attention' }, /^Solve the problem/],
  ])('remedy for %j', (alter, words) => {
    expect(remedy(line(alter))).toMatch(words);
  });

  it('fingerprint in an error', () => {
    const print = `SHA256:${'a'.repeat(43)}`;
    expect(fingerprintIn(`it is ${print}; compare it`)).toBe(print);
    expect(fingerprintIn('no key')).toBe('');
  });
});

describe('relayStatus', () => {
  it('does not warn before the first attempt', () => {
    expect(relayStatus({ state: 'offline' })).toEqual({
      name: 'Not connected: there are no pending changes',
      variant: 'info',
    });
    expect(relayStatus({ state: 'offline', problem: 'api.openshift.com does not answer.' }).variant).toBe('warning');
  });
});

it('the first action depends on the state', () => {
  expect(firstAction('no-credentials')).toBe('login');
  expect(firstAction('paused-person')).toBe('accept');
  expect(firstAction('offline')).toBe('connect');
});
