import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  Feed,
  feedUrl,
  graceMilliseconds,
  isAbout,
  parseChange,
  retryMilliseconds,
  silenceMilliseconds,
  type Notice,
  type Source,
} from '../src/live/feed';

const connecting = 0;
const closed = 2;

/** The server's end of the stream. */
class FakeSource extends EventTarget implements Source {
  readyState = connecting;
  close = vi.fn(() => {
    this.readyState = closed;
  });

  send(type: string, data = ''): void {
    this.dispatchEvent(new MessageEvent(type, { data }));
  }

  /** The connection breaks and the browser reconnects. */
  breaks(): void {
    this.readyState = connecting;
    this.send('error');
  }

  /** The response is not a stream: the browser gives up. */
  fails(): void {
    this.readyState = closed;
    this.send('error');
  }
}

const change = { revision: 7, kind: 'hosts', id: 'h', cluster_id: 'c' };

describe('Feed', () => {
  let sources: FakeSource[];
  let feed: Feed;
  let notices: Notice[];
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
    notices = [];
    feed = new Feed((url) => {
      expect(url).toBe(feedUrl);
      sources.push(new FakeSource());
      return source();
    });
    feed.subscribe((notice) => notices.push(notice));
    feed.start();
  });
  afterEach(() => {
    feed.stop();
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
  });

  it('reports a response that is not a stream', () => {
    const refused = vi.fn();
    const opened = new FakeSource();
    const other = new Feed(() => opened, refused);
    other.start();
    opened.breaks();
    expect(refused).not.toHaveBeenCalled();
    opened.fails();
    expect(refused).toHaveBeenCalledTimes(1);
    other.stop();
  });

  it('waits until it is connected, then is live', () => {
    expect(feed.state).toBe('waiting');
    source().send('open');
    expect(feed.state).toBe('live');
  });

  it('sends everything after connecting, then changes', () => {
    source().send('open');
    source().send('change', JSON.stringify(change));
    expect(notices).toEqual(['everything', change]);
  });

  it('sends everything for an invalid change', () => {
    source().send('change', '{"kind":"moons"}');
    expect(notices).toEqual(['everything']);
  });

  it('ignores a short interruption', () => {
    source().send('open');
    source().breaks();
    vi.advanceTimersByTime(graceMilliseconds - 1);
    source().send('open');
    vi.advanceTimersByTime(graceMilliseconds);
    expect(feed.state).toBe('live');
  });

  it('is away during a long interruption, then live again', () => {
    const onChange = vi.fn();
    source().send('open');
    feed.watch(onChange);
    source().breaks();
    source().breaks();
    vi.advanceTimersByTime(graceMilliseconds);
    expect(feed.state).toBe('away');
    source().send('open');
    expect(feed.state).toBe('live');
    expect(onChange).toHaveBeenCalledTimes(2);
    expect(notices).toEqual(['everything', 'everything']);
  });

  it('reconnects after the browser gave up', () => {
    for (let attempt = 1; attempt <= 5; attempt += 1) {
      expect(sources).toHaveLength(attempt);
      source().fails();
      vi.advanceTimersByTime(retryMilliseconds);
    }
    expect(feed.state).toBe('away');
    source().send('open');
    expect(feed.state).toBe('live');
  });

  it('ignores a closed connection', () => {
    const first = source();
    first.fails();
    vi.advanceTimersByTime(retryMilliseconds);
    source().send('open');
    first.fails();
    vi.advanceTimersByTime(graceMilliseconds);
    expect(feed.state).toBe('live');
    expect(sources).toHaveLength(2);
  });

  it('reconnects after silence if the server sent pings', () => {
    source().send('open');
    vi.advanceTimersByTime(silenceMilliseconds * 10);
    expect(sources).toHaveLength(1);
    source().send('ping');
    vi.advanceTimersByTime(silenceMilliseconds);
    expect(sources).toHaveLength(2);
    expect(feed.state).toBe('away');
  });

  it('stays connected while pings arrive', () => {
    source().send('open');
    for (let round = 0; round < 10; round += 1) {
      source().send('ping');
      vi.advanceTimersByTime(silenceMilliseconds - 1);
    }
    expect(sources).toHaveLength(1);
  });

  it('stops, and sends everything after a restart', () => {
    source().send('open');
    feed.stop();
    expect(source().close).toHaveBeenCalledOnce();
    vi.advanceTimersByTime(60_000);
    expect(sources).toHaveLength(1);
    feed.start();
    feed.start();
    expect(sources).toHaveLength(2);
    source().send('open');
    expect(notices).toEqual(['everything', 'everything']);
  });

  it('does not notify former subscribers', () => {
    const onNotice = vi.fn();
    feed.subscribe(onNotice)();
    source().send('open');
    expect(onNotice).not.toHaveBeenCalled();
  });
});

describe('isAbout', () => {
  const changed = parseChange(JSON.stringify(change));

  it.each([
    ['its kind', changed, ['clusters', 'hosts'], true],
    ['other kinds', changed, ['settings'], false],
    ['missed changes', 'everything', ['settings'], true],
  ] as const)('%s', (_, notice, kinds, is) => {
    expect(notice && isAbout(notice, kinds)).toBe(is);
  });
});

describe('parseChange', () => {
  it('valid change', () => {
    expect(parseChange(JSON.stringify(change))).toEqual(change);
  });

  it('object without a cluster', () => {
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
  ])('rejects %s', (_, data) => {
    expect(parseChange(data)).toBeUndefined();
  });
});
