// @vitest-environment jsdom
import { createElement } from 'react';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Change, Notice } from '../src/live/feed';
import { collectMilliseconds } from '../src/live/refresh';
import { useRows, type Rows, type Source } from '../src/live/useRows';
import { limitMilliseconds } from '../src/shell/patience';
import { show } from './screen';

type Row = { id: string; state: string };

let notify: (notice: Notice) => void;
const feed = {
  subscribe: (onNotice: (notice: Notice) => void) => {
    notify = onNotice;
    return () => undefined;
  },
};
vi.mock('../src/live/LiveProvider', () => ({ useLive: () => feed }));

/** Each answers one request, in their order. A request hangs until its function is called. */
let answers: ((rows: Row[]) => void)[];
let source: Source<Row>;
let shown: () => Rows<Row> | undefined;
let close: () => void;

const open = () => {
  let rows: Rows<Row> | undefined;
  const Page = () => {
    rows = useRows(source);
    return null;
  };
  shown = () => rows;
  close = show(createElement(Page));
};

beforeEach(async () => {
  vi.useFakeTimers();
  answers = [];
  source = {
    list: vi.fn(
      () =>
        new Promise<Row[]>((resolve) => {
          answers.push(resolve);
        }),
    ),
    keyOf: ({ id }) => id,
    concerned: ({ id }) => id,
  };
  open();
  await vi.advanceTimersByTimeAsync(10);
});
afterEach(() => {
  close();
  vi.useRealTimers();
});

it('rows follow the feed although an earlier request hangs', async () => {
  answers[0]?.([{ id: 'h', state: 'known' }]);
  await vi.waitFor(() => {
    expect(shown()?.rows).toHaveLength(1);
  });
  const change: Change = { revision: 2, kind: 'hosts', id: 'h', cluster_id: '' };
  notify(change);
  await vi.advanceTimersByTimeAsync(collectMilliseconds); // this request gets no answer
  notify(change);
  await vi.advanceTimersByTimeAsync(limitMilliseconds + 2 * collectMilliseconds);
  answers[2]?.([{ id: 'h', state: 'installed' }]);
  await vi.waitFor(() => {
    expect(shown()).toMatchObject({ rows: [{ id: 'h', state: 'installed' }], error: undefined });
  });
});

it('a request that was given up is sent again at once, also without a change', async () => {
  await vi.advanceTimersByTimeAsync(limitMilliseconds + collectMilliseconds);
  expect(source.list).toHaveBeenCalledTimes(2);
  answers[1]?.([{ id: 'h', state: 'known' }]);
  await vi.waitFor(() => {
    expect(shown()).toMatchObject({ rows: [{ id: 'h', state: 'known' }], error: undefined });
  });
});
