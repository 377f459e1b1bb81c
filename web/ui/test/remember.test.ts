import { expect, it, vi } from 'vitest';
import { remember } from '../src/uilib/remember';

it('a text is read once', () => {
  const read = vi.fn((text: string) => ({ text }));
  const remembering = remember(read);
  expect(remembering('a')).toBe(remembering('a'));
  expect(remembering('b')).toEqual({ text: 'b' });
  expect(read).toHaveBeenCalledTimes(2);
});

it('the texts that were used last are kept, and not more than 1,000', () => {
  const read = vi.fn((text: string) => text);
  const remembering = remember(read);
  for (let i = 0; i < 1_000; i += 1) {
    remembering(String(i));
  }
  remembering('0');
  remembering('new');
  expect(read).toHaveBeenCalledTimes(1_001);
  remembering('0');
  expect(read).toHaveBeenCalledTimes(1_001);
  remembering('1');
  expect(read).toHaveBeenCalledTimes(1_002);
});
