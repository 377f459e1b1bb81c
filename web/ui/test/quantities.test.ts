import { describe, expect, it } from 'vitest';
import { asSentence, bytes, duration, exactBytes, moment, percentOf } from '../src/shell/quantities';

describe('bytes', () => {
  it.each([
    [0, '0 bytes'],
    [1_023, '1023 bytes'],
    [1_024, '1.0 KiB'],
    [6_840_320, '6.5 MiB'],
    [1_288_490_189, '1.2 GiB'],
    [3 * 1024 ** 5, '3072.0 TiB'],
  ])('%d is %s', (count, text) => {
    expect(bytes(count)).toBe(text);
  });

  it('exactBytes adds the count', () => {
    expect(exactBytes(1_288_490_189)).toBe('1.2 GiB (1,288,490,189 bytes)');
    expect(exactBytes(7)).toBe('7 bytes');
  });
});

describe('duration', () => {
  it.each([
    [-1, '0 s'],
    [0.4, '0 s'],
    [3, '3 s'],
    [250, '4 min 10 s'],
    [3_600, '1 h'],
    [7_505, '2 h 5 min'],
    [3 * 86_400 + 4 * 3_600 + 59, '3 d 4 h'],
  ])('%d seconds are %s', (seconds, text) => {
    expect(duration(seconds)).toBe(text);
  });
});

describe('moment', () => {
  it('empty for an invalid time', () => {
    expect(moment('soon')).toBe('');
    expect(moment('2026-11-21T14:00:00Z')).toMatch(/2026/);
  });
});

describe('percentOf', () => {
  it('stays in 0..100, and is 0 of an unknown whole', () => {
    expect(percentOf(1, 4)).toBe(25);
    expect(percentOf(9, 4)).toBe(100);
    expect(percentOf(9, 0)).toBe(0);
  });
});

describe('asSentence', () => {
  it('adds a capital letter and a full stop', () => {
    expect(asSentence('it has no kernel')).toBe('It has no kernel.');
    expect(asSentence('It has none.')).toBe('It has none.');
    expect(asSentence('')).toBe('');
  });

  it.each([
    ['rules.yaml has no mirror', 'rules.yaml has no mirror.'],
    ['nvidia/gpu-operator holds images', 'nvidia/gpu-operator holds images.'],
    ["can't be read", "Can't be read."],
    ['mirror: no answer', 'Mirror: no answer.'],
    ['3 hosts are off', '3 hosts are off.'],
  ])('keeps a name at the beginning: %s', (reason, sentence) => {
    expect(asSentence(reason)).toBe(sentence);
  });
});
