import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  Feed,
  feedUrl,
  graceMilliseconds,
  parseChange,
  retryMilliseconds,
  silenceMilliseconds,
  type Notice,
  type Source,
} from '../src/live/feed';

const connecting = 0;
const closed = 2;

/** A server's end of the stream, played by the test. */
class FakeSource extends EventTarget implements Source {
  readyState = connecting;
  close = vi.fn(() => {
    this.readyState = closed;
  });

  send(type: string, data = ''): void {
    this.dispatchEvent(new MessageEvent(type, { data }));
  }

  /** The connection broke and the browser connects again by itself. */
  breaks(): void {
    this.readyState = connecting;
    this.send('error');
  }

  /** The answer was no stream: the browser gives up. */
  fails(): void {
    this.readyState = closed;
    this.send('error');
  }
}

const change = { revision: 7, kind: 'hosts', id: 'h', cluster_id: 'c' };

describe('Feed', () => {
  let sources: FakeSource[];
  let feed: Feed;
  let heard: Notice[];
  const source = (): FakeSource => {
    const last = sources.at(-1);
    if (!last) {
      throw new Error('The feed has not connected.');
    }
    return last;
  };

  beforeEach(() => {
    vi.useFakeTimers();
    sources = [];
    heard = [];
    feed = new Feed((url) => {
      expect(url).toBe(feedUrl);
      sources.push(new FakeSource());
      return source();
    });
    feed.subscribe((notice) => heard.push(notice));
    feed.start();
  });
  afterEach(() => {
    feed.stop();
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
  });

  it('is waiting until it is connected, then live', () => {
    expect(feed.state).toBe('waiting');
    source().send('open');
    expect(feed.state).toBe('live');
  });

  it('tells everything after connecting, then each change', () => {
    source().send('open');
    source().send('change', JSON.stringify(change));
    expect(heard).toEqual(['everything', change]);
  });

  it('takes a change that it does not understand for any change', () => {
    source().send('change', '{"kind":"moons"}');
    expect(heard).toEqual(['everything']);
  });

  it('says nothing about an interruption shorter than the grace', () => {
    source().send('open');
    source().breaks();
    vi.advanceTimersByTime(graceMilliseconds - 1);
    source().send('open');
    vi.advanceTimersByTime(graceMilliseconds);
    expect(feed.state).toBe('live');
  });

  it('is away when the interruption lasts, and live again by itself', () => {
    const look = vi.fn();
    source().send('open');
    feed.watch(look);
    source().breaks();
    source().breaks();
    vi.advanceTimersByTime(graceMilliseconds);
    expect(feed.state).toBe('away');
    source().send('open');
    expect(feed.state).toBe('live');
    expect(look).toHaveBeenCalledTimes(2);
    expect(heard).toEqual(['everything', 'everything']);
  });

  it('connects anew where the browser has given up, as often as it takes', () => {
    for (let attempt = 1; attempt <= 5; attempt += 1) {
      expect(sources).toHaveLength(attempt);
      source().fails();
      vi.advanceTimersByTime(retryMilliseconds);
    }
    expect(feed.state).toBe('away');
    source().send('open');
    expect(feed.state).toBe('live');
  });

  it('does not listen to a connection that it has left', () => {
    const first = source();
    first.fails();
    vi.advanceTimersByTime(retryMilliseconds);
    source().send('open');
    first.fails();
    vi.advanceTimersByTime(graceMilliseconds);
    expect(feed.state).toBe('live');
    expect(sources).toHaveLength(2);
  });

  it('takes silence for a dead connection once the server has pinged', () => {
    source().send('open');
    vi.advanceTimersByTime(silenceMilliseconds * 10);
    expect(sources).toHaveLength(1);
    source().send('ping');
    vi.advanceTimersByTime(silenceMilliseconds);
    expect(sources).toHaveLength(2);
    expect(feed.state).toBe('away');
  });

  it('stays connected as long as pings come', () => {
    source().send('open');
    for (let round = 0; round < 10; round += 1) {
      source().send('ping');
      vi.advanceTimersByTime(silenceMilliseconds - 1);
    }
    expect(sources).toHaveLength(1);
  });

  it('rests when stopped and catches up when started again', () => {
    source().send('open');
    feed.stop();
    expect(source().close).toHaveBeenCalledOnce();
    vi.advanceTimersByTime(60_000);
    expect(sources).toHaveLength(1);
    feed.start();
    feed.start();
    expect(sources).toHaveLength(2);
    source().send('open');
    expect(heard).toEqual(['everything', 'everything']);
  });

  it('tells nothing to those who have left', () => {
    const hear = vi.fn();
    feed.subscribe(hear)();
    source().send('open');
    expect(hear).not.toHaveBeenCalled();
  });
});

describe('parseChange', () => {
  it('reads what the feed promises', () => {
    expect(parseChange(JSON.stringify(change))).toEqual(change);
  });

  it('knows an object without a cluster', () => {
    expect(parseChange('{"revision":1,"kind":"infra-envs","id":"i"}')).toEqual({
      revision: 1,
      kind: 'infra-envs',
      id: 'i',
      cluster_id: '',
    });
  });

  it.each([
    ['no JSON', 'change'],
    ['no object', '3'],
    ['null', 'null'],
    ['an unknown kind', '{"revision":1,"kind":"moons","id":"i"}'],
    ['no revision', '{"kind":"hosts","id":"i"}'],
    ['no id', '{"revision":1,"kind":"hosts"}'],
  ])('refuses %s', (_, data) => {
    expect(parseChange(data)).toBeUndefined();
  });
});
