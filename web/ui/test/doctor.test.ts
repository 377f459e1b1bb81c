import { describe, expect, it } from 'vitest';
import type { Finding, Verdict } from '../src/doctor/api';
import { inOrder, summary } from '../src/doctor/findings';

const found = (subject: string, verdict: Verdict): Finding => ({
  area: 'names',
  subject,
  verdict,
  asked: 'its addresses',
  answered: '10.0.0.4',
});

describe('findings', () => {
  const findings = [found('a', 'green'), found('b', 'amber'), found('c', 'red'), found('d', 'unknown'), found('e', 'red')];

  it('are shown with the worst first, in their order otherwise', () => {
    expect(inOrder(findings, false).map(({ subject }) => subject)).toEqual(['c', 'e', 'b', 'd']);
    expect(inOrder(findings, true).map(({ subject }) => subject)).toEqual(['c', 'e', 'b', 'd', 'a']);
  });

  it.each([
    [findings, '2 things would stop an installation.'],
    [findings.slice(0, 2), 'Nothing would stop an installation; one thing should be looked at.'],
    [findings.slice(0, 1), 'Nothing is in the way of an installation.'],
    [[], 'Nothing is in the way of an installation.'],
  ])('come to one sentence', (some, sentence) => {
    expect(summary(some)).toBe(sentence);
  });
});
