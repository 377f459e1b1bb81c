// @vitest-environment jsdom
import { expect, it } from 'vitest';
import { forgetDraft, keepDraft, readDraft } from '../src/networks/drafts';
import { newHost } from '../src/networks/hosts';

const draft = { hosts: [{ host: newHost(), yaml: '802.1x: {private-key-password: secret}' }], base: [] };

it('unsaved networks are kept for their infra-env until they are forgotten', () => {
  keepDraft('a', draft);
  expect(readDraft('a')).toBe(draft);
  expect(readDraft('b')).toBeUndefined();
  forgetDraft('a');
  expect(readDraft('a')).toBeUndefined();
});

it("unsaved networks, which may hold secrets, are not in the browser's storage", () => {
  keepDraft('a', draft);
  expect(sessionStorage).toHaveLength(0);
  expect(localStorage).toHaveLength(0);
});
