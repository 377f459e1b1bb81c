// @vitest-environment jsdom
import { afterEach, expect, it } from 'vitest';
import { keepDraft, readDraft } from '../src/networks/drafts';
import { newHost } from '../src/networks/hosts';

afterEach(() => {
  sessionStorage.clear();
});

it('unsaved networks are kept for their infra-env until they are forgotten', () => {
  const draft = [{ host: newHost() }];
  keepDraft('a', draft);
  expect(readDraft('a')).toEqual(draft);
  expect(readDraft('b')).toBeUndefined();
  keepDraft('a', undefined);
  expect(readDraft('a')).toBeUndefined();
});

it('a damaged draft is ignored', () => {
  sessionStorage.setItem('landfall-networks-a', '{');
  expect(readDraft('a')).toBeUndefined();
});
