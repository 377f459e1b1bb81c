// @vitest-environment jsdom
import { createElement, type ReactElement } from 'react';
import { MemoryRouter } from 'react-router-dom-v5-compat';
import { afterEach, expect, it, vi } from 'vitest';
import { HostTokens } from '../src/access/HostTokens';
import { Passkeys } from '../src/access/Passkeys';
import { Tokens } from '../src/access/Tokens';
import { Users } from '../src/access/Users';
import { Tokens as OcmTokens } from '../src/ams/Tokens';
import { ProofPanel } from '../src/mirror/ProofPanel';
import { show } from './screen';

vi.mock('../src/access/AccessProvider', () => ({
  useMay: () => true,
  Requires: ({ children }: { children: unknown }) => children,
  useAccess: () => ({ caller: { name: 'vera', role: 'admin' } }),
}));

let close: () => void;
afterEach(() => {
  close();
  vi.unstubAllGlobals();
});

const act = () => Promise.resolve(true);
const open = (card: ReactElement) => {
  close = show(createElement(MemoryRouter, null, card));
};
const text = () => document.body.textContent;

it.each<[string, ReactElement]>([
  ['People', createElement(Users, { act })],
  ['Programs', createElement(Tokens, { act })],
  ['My passkeys', createElement(Passkeys, { act })],
  ['Tokens of hosts', createElement(HostTokens, { act })],
  ['The ocm command at this site', createElement(OcmTokens, { act })],
  ['Completeness', createElement(ProofPanel, { cluster: undefined })],
])('a card that cannot be read says why: %s', async (title, card) => {
  vi.stubGlobal('fetch', () => Promise.resolve(Response.json({ reason: 'the disk is full' }, { status: 500 })));
  open(card);
  await vi.waitFor(() => {
    expect(text()).toContain('The disk is full.');
  });
  expect(text()).toContain(title);
  expect(text()).not.toContain('There is no infra-env yet.');
});

it('only an empty answer says that there is no infra-env', async () => {
  let answer = (): void => undefined;
  const request = new Promise((resolve) => {
    answer = () => {
      resolve(Response.json([]));
    };
  });
  vi.stubGlobal('fetch', () => request);
  open(createElement(HostTokens, { act }));
  expect(text()).toContain('Tokens of hosts');
  expect(text()).not.toContain('There is no infra-env yet.');
  answer();
  await vi.waitFor(() => {
    expect(text()).toContain('There is no infra-env yet.');
  });
});
