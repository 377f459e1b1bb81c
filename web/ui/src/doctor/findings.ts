import type { Finding, Severity } from './api';

const areas: Record<string, string> = {
  names: 'Names',
  clocks: 'Clocks',
  registries: 'Registries',
  images: 'Images',
  addresses: 'Addresses',
  paths: 'Paths',
  offers: 'DHCP',
  proxies: 'Proxies',
  hosts: 'Reported by hosts',
  fleet: 'Fleet',
  protection: 'Protection of the appliance',
};

/** The severities, the worst first. */
const ranks: Severity[] = ['red', 'amber', 'unknown', 'green'];

export const titleOf = (area: string) => areas[area] ?? area;

/** The findings to show: the worst first, otherwise in the given order. */
export const inOrder = (findings: readonly Finding[], withPassed: boolean): Finding[] =>
  findings
    .filter(({ verdict }) => withPassed || verdict !== 'green')
    .sort((a, b) => ranks.indexOf(a.verdict) - ranks.indexOf(b.verdict));

/** The number of findings with this severity. */
export const count = (findings: readonly Finding[], severity: Severity) =>
  findings.filter((finding) => finding.verdict === severity).length;

/** The result of all findings in one sentence. */
export const summary = (findings: readonly Finding[]): string => {
  const red = count(findings, 'red');
  const amber = count(findings, 'amber');
  if (red > 0) {
    return `${things(red)} would prevent an installation.`;
  }
  if (amber > 0) {
    return `Nothing would prevent an installation; ${things(amber).toLowerCase()} should be checked.`;
  }
  return 'Nothing prevents an installation.';
};

const things = (number: number) => (number === 1 ? 'One thing' : `${String(number)} things`);
