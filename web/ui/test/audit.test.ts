import { describe, expect, it } from 'vitest';
import { actorOf, exportURL, outcomeOf, queryOf, reasonOf, subjectOf, unreadOf, type Item } from '../src/access/audit';

const item = (part: Partial<Item>): Item => ({ seq: 1, time: '2026-03-01T12:00:00Z', kind: 'end', ...part });

describe('queryOf', () => {
  const none = { member: '', person: '', operation: '', since: '', until: '' };
  it.each([
    ['the newest page', none, 0, 'limit=50'],
    ['an older page', none, 120, 'limit=50&before=120'],
    ['a person', { ...none, person: ' anna ' }, 0, 'limit=50&person=anna'],
    ['a member', { ...none, member: 'two' }, 0, 'limit=50&member=two'],
    ['a time', { ...none, since: '2026-03-01T12:00:00Z' }, 0, 'limit=50&since=2026-03-01T12%3A00%3A00.000Z'],
    ['a text that is not a time', { ...none, until: 'soon' }, 0, 'limit=50'],
  ])('%s', (_case, filter, before, want) => {
    expect(queryOf(filter, before, 50)).toBe(want);
  });
});

describe('the trail of a member', () => {
  it('is that of the leader unless one is chosen', () => {
    expect(exportURL('')).toBe('/api/landfall/v1/audit/export');
    expect(exportURL('a b')).toBe('/api/landfall/v1/audit/export?member=a+b');
  });
});

it('names what can not be read', () => {
  expect(unreadOf({ file: '1.jsonl', from: 4096, to: 8192, reason: 'input/output error' })).toBe(
    "The bytes 4096 to 8191 of 1.jsonl can't be read (input/output error).",
  );
});

describe('a record', () => {
  it.each([
    ['a refusal', item({ kind: 'refused', status: 403 }), 'refused (403)', true],
    ['repeated refusals', item({ kind: 'refused', status: 401, repeated: 9 }), 'refused (401), and 9 more', true],
    ['a failure', item({ status: 409 }), 'failed (409)', true],
    ['a success', item({ status: 201 }), 'done (201)', false],
    ['a running operation', item({ outcome: 'running' }), 'running', false],
  ])('shows the outcome of %s', (_case, record, text, isBad) => {
    expect(outcomeOf(record)).toEqual({ text, isBad });
  });

  it('shows who did what', () => {
    const record = item({ actor: { name: 'anna', role: 'admin' }, operation: 'createUser', path: '/x' });
    expect(actorOf(record)).toBe('anna');
    expect(subjectOf(record)).toBe('createUser');
    expect(actorOf(item({ kind: 'opened' }))).toBe('the appliance');
    expect(subjectOf(item({ kind: 'opened' }))).toBe('The appliance started');
  });

  it.each([
    ['a refused operation', { operation: 'listHosts', method: 'GET', path: '/x' }, 'listHosts', 'It has expired.'],
    ['another refused request', { method: 'GET', path: '/x' }, 'GET /x', 'It has expired.'],
    ['an event', {}, 'it has expired', ''],
  ])('shows the reason of %s beside its subject', (_case, part, subject, reason) => {
    const record = item({ kind: 'refused', status: 401, text: 'it has expired', ...part });
    expect(subjectOf(record)).toBe(subject);
    expect(reasonOf(record)).toBe(reason);
  });

  it('has no reason without a text', () => {
    expect(reasonOf(item({ operation: 'createUser' }))).toBe('');
  });
});
