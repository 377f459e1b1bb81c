/** One entry of the appliance's change feed: an object of that kind was written or deleted at that revision. */
export type Change = {
  revision: number;
  kind: 'clusters' | 'hosts' | 'infra-envs' | 'events' | 'bmcs';
  id: string;
  /** The cluster that the object belongs to; empty if it belongs to none. */
  cluster_id: string;
};

/** What subscribers are told: one change, or that any number of changes may have been missed. */
export type Notice = Change | 'everything';

/** `waiting` until the first connection, `away` once the appliance has not answered for a while. */
export type FeedState = 'waiting' | 'live' | 'away';

/** The part of `EventSource` that the client uses; tests give their own. */
export type Source = Pick<EventSource, 'close' | 'readyState'> & {
  addEventListener(type: string, hear: (event: Event) => void): void;
};

export const feedUrl = '/api/landfall/v1/feed';

/** A broken connection is no news for this long: a restart of the appliance takes less. */
export const graceMilliseconds = 1_500;
/** Time between two attempts to connect. */
export const retryMilliseconds = 2_000;
/** A server that has sent a `ping` once and then nothing for this long is taken for dead. */
export const silenceMilliseconds = 45_000;

const closed = 2;

/**
 * Follows the appliance's change feed (Server-Sent Events) and connects again by itself for as long as it is open,
 * also where the browser's `EventSource` gives up (an answer that is no stream) or does not notice (a cut cable).
 * After each new connection subscribers hear `everything`, for the changes that nobody heard.
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

  constructor(open: (url: string) => Source = (url) => new EventSource(url)) {
    this.#open = open;
  }

  get state(): FeedState {
    return this.#state;
  }

  /** Calls `hear` with each notice until the returned function is called. */
  subscribe = (hear: (notice: Notice) => void): (() => void) => {
    this.#subscribers.add(hear);
    return () => this.#subscribers.delete(hear);
  };

  /** Calls `look` whenever `state` has changed until the returned function is called. */
  watch = (look: () => void): (() => void) => {
    this.#watchers.add(look);
    return () => this.#watchers.delete(look);
  };

  /** Connects, if it is not connected or about to be. */
  start = (): void => {
    if (!this.#source && !this.#retry) {
      this.#connect();
    }
  };

  /** Disconnects and stays so until `start`. A browser allows six connections to one origin: hidden pages give theirs back. */
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
      this.#heard();
      this.#become('live');
      this.#tell('everything');
    });
    source.addEventListener('ping', () => {
      this.#pings = true;
      this.#heard();
    });
    source.addEventListener('change', (event) => {
      this.#heard();
      const change = parseChange((event as MessageEvent<string>).data);
      this.#tell(change ?? 'everything');
    });
    source.addEventListener('error', () => {
      this.#lost(source);
    });
  }

  #lost(source: Source): void {
    if (source !== this.#source) {
      return;
    }
    this.#grace ??= setTimeout(() => {
      this.#become('away');
    }, graceMilliseconds);
    if (source.readyState === closed) {
      this.#disconnect();
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

  #heard(): void {
    clearTimeout(this.#silence);
    if (!this.#pings) {
      return;
    }
    this.#silence = setTimeout(() => {
      this.#disconnect();
      this.#become('away');
      this.#connect();
    }, silenceMilliseconds);
  }

  #become(state: FeedState): void {
    if (state === this.#state) {
      return;
    }
    this.#state = state;
    for (const look of this.#watchers) {
      look();
    }
  }

  #tell(notice: Notice): void {
    for (const hear of this.#subscribers) {
      hear(notice);
    }
  }
}

/** Reads one `change` event; undefined if it is not what the feed promises. */
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
  if (kind !== 'clusters' && kind !== 'hosts' && kind !== 'infra-envs' && kind !== 'events' && kind !== 'bmcs') {
    return undefined;
  }
  return { revision, kind, id, cluster_id: typeof cluster === 'string' ? cluster : '' };
};
