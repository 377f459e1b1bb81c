import { noteRevision } from './revision';

const kinds = [
  'clusters',
  'hosts',
  'infra-envs',
  'events',
  'bmcs',
  'settings',
  'notifications',
  'webhooks',
  'hosted-clusters',
  'hosted-node-pools',
  'hosted-management',
] as const;

/** The kind of a changed object. */
type Kind = (typeof kinds)[number];

/**
 * One entry of the appliance's change feed: an object of this kind was written or deleted at this
 * revision.
 */
export type Change = {
  revision: number;
  kind: Kind;
  id: string;
  /** The cluster that the object belongs to; empty if it belongs to none. */
  cluster_id: string;
};

/**
 * A notice to subscribers: one change, or `everything` if any number of changes may have been
 * missed.
 */
export type Notice = Change | 'everything';

/** Whether a notice is about one of these kinds. */
export const isAbout = (notice: Notice, kinds: readonly Change['kind'][]): boolean =>
  notice === 'everything' || kinds.includes(notice.kind);

/**
 * `waiting` until the first connection, `away` once the appliance has not responded for a while.
 */
export type FeedState = 'waiting' | 'live' | 'away';

/** The part of `EventSource` that the feed uses; tests pass their own. */
export type Source = Pick<EventSource, 'close' | 'readyState'> & {
  addEventListener(type: string, listener: (event: Event) => void): void;
};

export const feedUrl = '/api/landfall/v1/feed';

/** Time until a broken connection is reported. A restart of the appliance takes less. */
export const graceMilliseconds = 1_500;
/** Time between two attempts to connect. */
export const retryMilliseconds = 2_000;
/**
 * Time without data after which the connection counts as dead, if the server has sent a `ping`
 * before.
 */
export const silenceMilliseconds = 45_000;

const closed = 2;

/**
 * Follows the appliance's change feed (Server-Sent Events). It reconnects as long as it is open. It
 * also does so if the browser's `EventSource` gives up because the response is not a stream, or
 * does not detect a broken connection, such as a cut cable. After each new connection, subscribers
 * receive `everything`, because changes may have been missed.
 */
export class Feed {
  readonly #open: (url: string) => Source;
  readonly #subscribers = new Set<(notice: Notice) => void>();
  readonly #watchers = new Set<() => void>();
  #source: Source | undefined;
  #state: FeedState = 'waiting';
  #grace: ReturnType<typeof setTimeout> | undefined;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #silence: ReturnType<typeof setTimeout> | undefined;
  #pings = false;

  readonly #refused: () => void;

  /** `refused` is called when the response to the feed's request is not a stream. */
  constructor(
    open: (url: string) => Source = (url) => new EventSource(url),
    refused: () => void = () => undefined,
  ) {
    this.#open = open;
    this.#refused = refused;
  }

  get state(): FeedState {
    return this.#state;
  }

  /** Calls `onNotice` with each notice until the returned function is called. */
  subscribe = (onNotice: (notice: Notice) => void): (() => void) => {
    this.#subscribers.add(onNotice);
    return () => this.#subscribers.delete(onNotice);
  };

  /** Calls `onChange` after each change of `state` until the returned function is called. */
  watch = (onChange: () => void): (() => void) => {
    this.#watchers.add(onChange);
    return () => this.#watchers.delete(onChange);
  };

  /** Connects, unless it is connected or about to connect. */
  start = (): void => {
    if (!this.#source && !this.#retry) {
      this.#connect();
    }
  };

  /**
   * Disconnects until `start` is called. A browser allows six connections to one origin, so hidden
   * pages release theirs.
   */
  stop = (): void => {
    clearTimeout(this.#retry);
    clearTimeout(this.#grace);
    this.#retry = undefined;
    this.#grace = undefined;
    this.#disconnect();
  };

  #connect(): void {
    this.#retry = undefined;
    const source = this.#open(feedUrl);
    this.#source = source;
    source.addEventListener('open', () => {
      clearTimeout(this.#grace);
      this.#grace = undefined;
      this.#restartSilenceTimer();
      this.#setState('live');
      this.#notify('everything');
    });
    source.addEventListener('ping', () => {
      this.#pings = true;
      this.#restartSilenceTimer();
    });
    source.addEventListener('change', (event) => {
      this.#restartSilenceTimer();
      const change = parseChange((event as MessageEvent<string>).data);
      noteRevision(change?.revision ?? 0);
      this.#notify(change ?? 'everything');
    });
    source.addEventListener('error', () => {
      this.#handleError(source);
    });
  }

  #handleError(source: Source): void {
    if (source !== this.#source) {
      return;
    }
    this.#grace ??= setTimeout(() => {
      this.#setState('away');
    }, graceMilliseconds);
    if (source.readyState === closed) {
      this.#disconnect();
      this.#refused();
      this.#retry = setTimeout(() => {
        this.#connect();
      }, retryMilliseconds);
    }
  }

  #disconnect(): void {
    clearTimeout(this.#silence);
    this.#source?.close();
    this.#source = undefined;
  }

  #restartSilenceTimer(): void {
    clearTimeout(this.#silence);
    if (!this.#pings) {
      return;
    }
    this.#silence = setTimeout(() => {
      this.#disconnect();
      this.#setState('away');
      this.#connect();
    }, silenceMilliseconds);
  }

  #setState(state: FeedState): void {
    if (state === this.#state) {
      return;
    }
    this.#state = state;
    for (const onChange of this.#watchers) {
      onChange();
    }
  }

  #notify(notice: Notice): void {
    for (const onNotice of this.#subscribers) {
      onNotice(notice);
    }
  }
}

/** Parses one `change` event; returns undefined if it is not valid. */
export const parseChange = (data: string): Change | undefined => {
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch {
    return undefined;
  }
  if (typeof value !== 'object' || value === null) {
    return undefined;
  }
  const { revision, kind, id, cluster_id: cluster } = value as Record<string, unknown>;
  if (typeof revision !== 'number' || typeof id !== 'string') {
    return undefined;
  }
  const known = kinds.find((one) => one === kind);
  if (!known) {
    return undefined;
  }
  return { revision, kind: known, id, cluster_id: typeof cluster === 'string' ? cluster : '' };
};
