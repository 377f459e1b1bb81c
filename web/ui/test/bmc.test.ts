import { describe, expect, it } from 'vitest';
import { hostEndedBy, type Session, type Exchange, type Server } from '../src/bmc/api';
import { activityOf, factsOf, isMoving, mediaOf, modelOf, powerOf, titleOf, transcript } from '../src/bmc/words';
import { ApplianceError } from '../src/shell/request';

const server = (alter: Partial<Server>): Server => ({
  id: 's',
  name: 'node-1',
  address: 'redfish-virtualmedia://192.0.2.7',
  state: 'available',
  power: 'off',
  ...alter,
});

const exchange: Exchange = {
  at: '2026-01-01T00:00:00Z',
  took_ns: 12_400_000,
  method: 'GET',
  path: '/redfish/v1',
  status: 200,
};

const session = (alter: Partial<Session>): Session => ({
  id: 'c',
  about: 'boot',
  start: '2026-01-01T00:00:00Z',
  exchanges: [exchange],
  ...alter,
});

describe('texts about a server', () => {
  it.each<[Partial<Server>, string]>([
    [{}, ''],
    [{ doing: 'waits for the power' }, 'waits for the power'],
    [{ pending: { kind: 'soft', at: '' } }, 'Pending: shut down.'],
    [{ pending: { kind: 'new', at: '' } }, 'Pending: new.'],
  ])('activity of %j', (alter, words) => {
    expect(activityOf(server(alter))).toBe(words);
  });

  it.each<[Partial<Server>, string]>([
    [{}, 'Empty'],
    [{ media: { slot: '/1', inserted: false, image: 'http://a/i/x.iso' } }, 'Empty'],
    [{ media: { slot: '/1', inserted: true } }, 'Inserted'],
    [{ media: { slot: '/1', inserted: true, image: 'http://a/i/x.iso' } }, 'x.iso'],
    [{ infra_env_id: 'e', media: { slot: '/1', inserted: true, image: 'http://a/i/x.iso' } }, 'Image of site'],
  ])('drive of %j', (alter, words) => {
    expect(mediaOf(server(alter), [{ id: 'e', name: 'site' }])).toBe(words);
  });

  it('names the manufacturer once', () => {
    expect(modelOf(server({ system: { manufacturer: 'HPE', model: 'ProLiant' } }))).toBe('HPE ProLiant');
    expect(modelOf(server({ system: { manufacturer: 'Dell', model: 'Dell R650' } }))).toBe('Dell R650');
    expect(modelOf(server({}))).toBe('');
  });

  it('power state and pending changes', () => {
    expect(powerOf(server({ power: '' }))).toBe('Unknown');
    expect(isMoving(server({}))).toBe(false);
    expect(isMoving(server({ power: 'powering-on' }))).toBe(true);
    expect(isMoving(server({ state: 'provisioning' }))).toBe(true);
    expect(isMoving(server({ pending: { kind: 'on', at: '' } }))).toBe(true);
  });

  it('code and count of an error', () => {
    expect(factsOf({ type: 't', message: 'm', count: 1 })).toBe('');
    expect(factsOf({ type: 't', message: 'm', count: 3, code: 'RAC0904' })).toBe('RAC0904, 3 times');
  });
});

it('names the host that a refused boot would end', () => {
  expect(hostEndedBy(new ApplianceError(409, 'It is being installed.', { host: 'edge-0' }))).toBe('edge-0');
  expect(hostEndedBy(new ApplianceError(409, 'It is detached.'))).toBeUndefined();
  expect(hostEndedBy(new Error('host'))).toBeUndefined();
});

describe('texts about a session', () => {
  it.each<[Partial<Session>, string]>([
    [{}, 'boot: 1 request'],
    [{ left_out: 2, repeated: 1, outcome: 'The BMC refuses.' }, 'boot: 3 requests, 2 times. The BMC refuses.'],
  ])('summary of %j', (alter, words) => {
    expect(titleOf(session(alter))).toBe(words);
  });

  it('transcript of a request', () => {
    expect(transcript(exchange)).toBe('GET /redfish/v1\n\nResponse 200 after 12 ms');
    expect(
      transcript({
        ...exchange,
        headers: ['If-Match: "1"'],
        request: '{}',
        answer_headers: ['Location: /x'],
        answer: '{"a":1}',
      }),
    ).toBe('GET /redfish/v1\nIf-Match: "1"\n\n{}\n\nResponse 200 after 12 ms\nLocation: /x\n\n{"a":1}');
    expect(transcript({ at: '', took_ns: 0, method: 'GET', path: '/redfish/v1', error: 'connection refused' })).toBe(
      'GET /redfish/v1\n\nNo response: connection refused',
    );
  });
});
