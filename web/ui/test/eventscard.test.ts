// @vitest-environment jsdom
import { createElement } from 'react';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { EventsCard } from '../src/clusters/EventsCard';
import { press, show } from './screen';

vi.mock('../src/access/AccessProvider', () => ({
  Requires: ({ children }: { children: unknown }) => children,
}));
vi.mock('../src/live/useRefetchOn', () => ({ useRefetchOn: () => undefined }));

const events = [{ event_time: '2026-11-30T10:00:00Z', severity: 'info', message: 'cluster harbor is installed' }];

let close: () => void;

beforeEach(() => {
  vi.stubGlobal('fetch', () => Promise.resolve(Response.json(events)));
  close = show(createElement(EventsCard, { clusterId: 'c' }));
});
afterEach(() => {
  close();
  vi.unstubAllGlobals();
});

it('new events do not move the link to the journal', async () => {
  press('Show the events');
  await vi.waitFor(() => {
    expect(document.body.textContent).toContain('Cluster harbor is installed.');
  });
  const list = document.querySelector('[data-testid=cluster-events]');
  const link = document.querySelector('#journal');
  expect(link?.compareDocumentPosition(list ?? document)).toBe(Node.DOCUMENT_POSITION_FOLLOWING);
});
