import { expect, it } from 'vitest';
import { journalUrl } from '../src/journal/api';

it('the URL of a journal escapes the id', () => {
  expect(journalUrl('0e25fe43-7113-4f09-b796-e8e0dc5c9d8b')).toBe(
    '/api/landfall/v1/clusters/0e25fe43-7113-4f09-b796-e8e0dc5c9d8b/journal',
  );
  expect(journalUrl('../x?y')).toBe('/api/landfall/v1/clusters/..%2Fx%3Fy/journal');
});
