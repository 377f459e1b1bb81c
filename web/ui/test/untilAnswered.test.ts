import { AxiosError, CanceledError, type AxiosResponse } from 'axios';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { untilAnswered } from '../src/live/untilAnswered';

const noAnswer = () => new AxiosError('Network Error', 'ERR_NETWORK');

describe('untilAnswered', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('repeats once a second until a response', async () => {
    const load = vi
      .fn<() => Promise<string>>()
      .mockRejectedValueOnce(noAnswer())
      .mockRejectedValueOnce(noAnswer())
      .mockResolvedValue('here');
    const answer = untilAnswered(load);
    await vi.advanceTimersByTimeAsync(1_999);
    expect(load).toHaveBeenCalledTimes(2);
    await vi.advanceTimersByTimeAsync(1);
    await expect(answer).resolves.toBe('here');
  });

  it.each([
    ['a refusal', new AxiosError('no', 'ERR_BAD_REQUEST', undefined, undefined, { status: 404 } as AxiosResponse)],
    ['a cancelled request', new CanceledError()],
    ['an error of the page', new TypeError('undefined')],
  ])('passes on %s', async (_, error) => {
    const load = vi.fn<() => Promise<string>>().mockRejectedValue(error);
    await expect(untilAnswered(load)).rejects.toBe(error);
    expect(load).toHaveBeenCalledTimes(1);
  });
});
