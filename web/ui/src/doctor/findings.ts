import type { Finding, Verdict } from './api';

const areas: Record<string, string> = {
  names: 'Names',
  clocks: 'Clocks',
  registries: 'Registries',
  images: 'Images',
  addresses: 'Addresses',
  paths: 'Ways',
  offers: 'DHCP',
  proxies: 'Proxies',
  hosts: 'What hosts found',
};

/** The worst first. */
const ranks: Verdict[] = ['red', 'amber', 'unknown', 'green'];

export const titleOf = (area: string) => areas[area] ?? area;

/** The findings that are shown, the worst first and otherwise in their order. */
export const inOrder = (findings: readonly Finding[], withGreen: boolean): Finding[] =>
  findings
    .filter((finding) => withGreen || finding.verdict !== 'green')
    .sort((a, b) => ranks.indexOf(a.verdict) - ranks.indexOf(b.verdict));

/** How many there are of a verdict. */
export const count = (findings: readonly Finding[], verdict: Verdict) =>
  findings.filter((finding) => finding.verdict === verdict).length;

/** The whole outcome in a sentence. */
export const summary = (findings: readonly Finding[]): string => {
  const red = count(findings, 'red');
  const amber = count(findings, 'amber');
  if (red > 0) {
    return `${things(red)} would stop an installation.`;
  }
  if (amber > 0) {
    return `Nothing would stop an installation; ${things(amber).toLowerCase()} should be looked at.`;
  }
  return 'Nothing is in the way of an installation.';
};

const things = (number: number) => (number === 1 ? 'One thing' : `${String(number)} things`);
