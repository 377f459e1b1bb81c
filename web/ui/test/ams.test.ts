import { describe, expect, it } from 'vitest';
import type { ClusterLine } from '../src/ams/api';
import { describeFields, fingerprintIn, knows, waits, whatToDo, standing } from '../src/ams/words';

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

describe('what people read of a cluster in AMS', () => {
  it('names the fields', () => {
    expect(describeFields({ display_name: 'one', console_url: 'https://c' })).toBe("name one, console's URL https://c");
    expect(describeFields({})).toBe('');
  });

  it.each<[Partial<ClusterLine>, string]>([
    [{}, 'Nothing'],
    [{ ams_status: 'Reserved', told: { display_name: 'one' } }, 'Reserved: name one'],
  ])('says what AMS knows of %j', (alter, words) => {
    expect(knows(line(alter))).toBe(words);
  });

  it.each<[Partial<ClusterLine>, string]>([
    [{ state: 'sent' }, ''],
    [{ to_tell: { display_name: 'two' } }, 'name two'],
    [{ to_become: 'absent' }, 'that it is gone'],
    [{ to_become: 'active', to_tell: { console_url: 'u' } }, "console's URL u, that it is installed"],
    [{ to_become: 'active', ams_status: 'Active' }, 'something that changed and changed back'],
    [{ to_become: 'active', deleted: true }, 'that it is installed, and nothing more: it is gone here'],
  ])('says what waits of %j', (alter, words) => {
    expect(waits(line(alter))).toBe(words);
  });

  it.each<[Partial<ClusterLine>, RegExp]>([
    [{ state: 'sent' }, /^$/],
    [{ state: 'attention', kind: 'blocked', http: 409 }, /has the cluster/],
    [{ state: 'attention', kind: 'blocked', http: 403 }, /given the right/],
    [{ state: 'attention', kind: 'dead', http: 400 }, /Edit what is told/],
    [{ state: 'attention', kind: 'blocked' }, /Look at the subscription/],
    [{ state: 'attention', kind: 'attention', ams_status: 'Active' }, /created again/],
    [{ state: 'attention', kind: 'attention' }, /once it is settled/],
  ])('says what to do about %j', (alter, words) => {
    expect(whatToDo(line(alter))).toMatch(words);
  });

  it('finds a fingerprint', () => {
    const print = `SHA256:${'a'.repeat(43)}`;
    expect(fingerprintIn(`it is ${print}; compare it`)).toBe(print);
    expect(fingerprintIn('no key')).toBe('');
  });
});

describe('standing', () => {
  it('is no warning before a connection was tried for', () => {
    expect(standing({ state: 'offline' })).toEqual({ name: 'Not connected: nothing waits to be told', variant: 'info' });
    expect(standing({ state: 'offline', problem: 'api.openshift.com does not answer.' }).variant).toBe('warning');
  });
});
