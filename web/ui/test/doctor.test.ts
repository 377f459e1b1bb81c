import { describe, expect, it } from 'vitest';
import type { Finding, Severity } from '../src/doctor/api';
import { inOrder, summary } from '../src/doctor/findings';

const found = (subject: string, verdict: Severity): Finding => ({
  area: 'names',
  subject,
  verdict,
  asked: 'its addresses',
  answered: '10.0.0.4',
});

describe('findings', () => {
  const findings = [
    found('a', 'green'),
    found('b', 'amber'),
    found('c', 'red'),
    found('d', 'unknown'),
    found('e', 'red'),
  ];

  it('worst first, otherwise in order', () => {
    expect(inOrder(findings, false).map(({ subject }) => subject)).toEqual(['c', 'e', 'b', 'd']);
    expect(inOrder(findings, true).map(({ subject }) => subject)).toEqual(['c', 'e', 'b', 'd', 'a']);
  });

  it.each([
    [findings, '2 things would prevent an installation.'],
    [findings.slice(0, 2), 'Nothing would prevent an installation; one thing should be checked.'],
    [findings.slice(0, 1), 'Nothing prevents an installation.'],
    [[], 'Nothing prevents an installation.'],
  ])('summary %#', (some, sentence) => {
    expect(summary(some)).toBe(sentence);
  });
});
