// @vitest-environment jsdom
import { createElement } from 'react';
import { flushSync } from 'react-dom';
import { createRoot } from 'react-dom/client';
import { afterEach, expect, it, vi } from 'vitest';
import type { Change, Notice } from '../src/live/feed';
import { collectMilliseconds } from '../src/live/refresh';
import { useRows, type Rows, type Source } from '../src/live/useRows';
import { limitMilliseconds } from '../src/shell/patience';

type Row = { id: string; state: string };

let notify: (notice: Notice) => void;
const feed = {
  subscribe: (onNotice: (notice: Notice) => void) => {
    notify = onNotice;
    return () => undefined;
  },
};
vi.mock('../src/live/LiveProvider', () => ({ useLive: () => feed }));

afterEach(() => {
  vi.useRealTimers();
});

it('rows follow the feed although an earlier request hangs', async () => {
  vi.useFakeTimers();
  const answers: ((rows: Row[]) => void)[] = [];
  const source: Source<Row> = {
    list: vi.fn(
      () =>
        new Promise<Row[]>((resolve) => {
          answers.push(resolve);
        }),
    ),
    keyOf: ({ id }) => id,
    concerned: ({ id }) => id,
  };
  let shown: Rows<Row> | undefined;
  const Page = () => {
    shown = useRows(source);
    return null;
  };
  const root = createRoot(document.createElement('div'));
  flushSync(() => {
    root.render(createElement(Page));
  });
  await vi.advanceTimersByTimeAsync(10);
  answers[0]?.([{ id: 'h', state: 'known' }]);
  await vi.waitFor(() => {
    expect(shown?.rows).toHaveLength(1);
  });
  const change: Change = { revision: 2, kind: 'hosts', id: 'h', cluster_id: '' };
  notify(change);
  await vi.advanceTimersByTimeAsync(collectMilliseconds); // this request gets no answer
  notify(change);
  await vi.advanceTimersByTimeAsync(limitMilliseconds + 2 * collectMilliseconds);
  answers[2]?.([{ id: 'h', state: 'installed' }]);
  await vi.waitFor(() => {
    expect(shown).toMatchObject({ rows: [{ id: 'h', state: 'installed' }], error: undefined });
  });
  root.unmount();
});
