import { afterEach, describe, expect, it, vi } from 'vitest';
import { ApplianceError, getJSON, request, sentenceOf } from '../src/shell/request';

const answer = (status: number, body: string) => {
  const fetched = vi.fn<typeof fetch>(() => Promise.resolve(new Response(body, { status })));
  vi.stubGlobal('fetch', fetched);
  return fetched;
};

describe('request', () => {
  afterEach(() => {
    vi.unstubAllGlobals();
  });

  it('returns the response', async () => {
    answer(200, '{"a":1}');
    expect(await getJSON('/x')).toEqual({ a: 1 });
  });

  it('sends JSON', async () => {
    const fetched = answer(200, '');
    await request('POST', '/x', { json: { a: 1 } });
    expect(fetched.mock.calls[0]?.[1]).toMatchObject({
      method: 'POST',
      body: '{"a":1}',
      headers: { 'Content-Type': 'application/json' },
    });
  });

  it.each([
    ['a reason', 409, '{"reason":"two infra-envs use it"}', 'Two infra-envs use it.'],
    ['a message', 404, '{"message":"There is none."}', 'There is none.'],
    ['a message behind an empty reason', 404, '{"reason":"","message":"none"}', 'None.'],
    ['a page of a proxy', 502, '<html>', 'The appliance responded 502 to GET /x.'],
    ['null', 500, 'null', 'The appliance responded 500 to GET /x.'],
  ])('error from %s', async (_, status, body, sentence) => {
    answer(status, body);
    await expect(request('GET', '/x')).rejects.toMatchObject({ status, message: sentence });
  });

  it('error without a response', async () => {
    vi.stubGlobal('fetch', () => Promise.reject(new TypeError('Failed to fetch')));
    await expect(request('GET', '/x')).rejects.toMatchObject({ status: 0, message: 'The appliance does not respond.' });
  });

  it('passes on an abort', async () => {
    const aborted = new AbortController();
    aborted.abort();
    vi.stubGlobal('fetch', () => Promise.reject(new DOMException('aborted', 'AbortError')));
    await expect(request('GET', '/x', { signal: aborted.signal })).rejects.toThrow('aborted');
  });

  it.each([
    [0, true],
    [503, true],
    [429, true],
    [507, false],
    [409, false],
    [500, false],
  ])('isPassing of %d', (status, passes) => {
    expect(new ApplianceError(status, '').isPassing).toBe(passes);
  });

  it('sentenceOf any thrown value', () => {
    expect(sentenceOf('text')).toBe('text');
    expect(sentenceOf(new Error('broken'))).toBe('broken');
  });
});
