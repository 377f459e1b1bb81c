import type { HostConfig } from './api';

export type NIC = { mac: string; name: string };

/** An interface's addresses of one IP family. */
export type Family = { method: 'off' | 'auto' | 'static'; address: string; gateway: string };

/** A host's network in the form; texts are as typed by the user. */
export type Host = {
  nics: NIC[];
  /** The mode of a bond of all NICs. '' means no bond: the first NIC is used. */
  bond: string;
  /** The id of a VLAN; '' means none. */
  vlan: string;
  mtu: string;
  v4: Family;
  v6: Family;
  /** Name servers and search domains, separated by commas or blanks. */
  dns: string;
  search: string;
};

/** A host's network: described in the form, or in the user's own YAML. */
export type Described = { host: Host; yaml?: string };

export const bondModes = [
  'active-backup',
  '802.3ad',
  'balance-xor',
  'balance-rr',
  'balance-tlb',
  'balance-alb',
  'broadcast',
];

const off: Family = { method: 'off', address: '', gateway: '' };

export const newHost = (): Host => ({
  nics: [{ mac: '', name: 'eth0' }],
  bond: '',
  vlan: '',
  mtu: '',
  v4: { method: 'static', address: '', gateway: '' },
  v6: off,
  dns: '',
  search: '',
});

const words = (text: string): string[] => text.split(/[\s,]+/).filter((word) => word !== '');

/** Formats a text as a YAML scalar: quoted if YAML could read it as something else. */
const scalar = (text: string): string => (/^[A-Za-z0-9][A-Za-z0-9._/-]*$/.test(text) ? text : JSON.stringify(text));

const list = (texts: string[]): string => `[${texts.map(scalar).join(', ')}]`;

/** The name of the interface that has the addresses. */
export const topInterface = ({ nics, bond, vlan }: Host): string => {
  const below = bond ? 'bond0' : (nics[0]?.name ?? '');
  return vlan ? `${below}.${vlan}` : below;
};

const familyLines = (name: 'ipv4' | 'ipv6', { method, address }: Family): string[] => {
  const flags = name === 'ipv6' && method === 'auto' ? ['    autoconf: true'] : [];
  switch (method) {
    case 'off':
      return [`  ${name}:`, '    enabled: false'];
    case 'auto':
      return [`  ${name}:`, '    enabled: true', '    dhcp: true', ...flags];
    case 'static':
      return [
        `  ${name}:`,
        '    enabled: true',
        '    address:',
        ...words(address).flatMap((one) => {
          const [ip = '', prefix = ''] = one.split('/');
          return [`    - ip: ${scalar(ip)}`, `      prefix-length: ${scalar(prefix)}`];
        }),
      ];
  }
};

const linkLines = (host: Host): string[] => {
  const { nics, bond, vlan, mtu } = host;
  const mtuLines = mtu ? [`  mtu: ${scalar(mtu)}`] : [];
  const addresses = [...familyLines('ipv4', host.v4), ...familyLines('ipv6', host.v6)];
  const own = vlan ? [] : addresses;
  const below = bond
    ? [
        '- name: bond0',
        '  type: bond',
        '  state: up',
        ...mtuLines,
        '  link-aggregation:',
        `    mode: ${bond}`,
        '    options:',
        '      miimon: 100',
        `    port: ${list(nics.map(({ name }) => name))}`,
        ...own,
      ]
    : [`- name: ${scalar(nics[0]?.name ?? '')}`, '  type: ethernet', '  state: up', ...mtuLines, ...own];
  if (!vlan) {
    return below;
  }
  const base = bond ? 'bond0' : (nics[0]?.name ?? '');
  return [
    ...below,
    `- name: ${scalar(topInterface(host))}`,
    '  type: vlan',
    '  state: up',
    ...mtuLines,
    '  vlan:',
    `    base-iface: ${scalar(base)}`,
    `    id: ${scalar(vlan)}`,
    ...addresses,
  ];
};

/** Formats a host's network as nmstate YAML. */
export const toYAML = (host: Host): string => {
  const lines = ['interfaces:', ...linkLines(host)];
  const gateways = (
    [
      ['0.0.0.0/0', host.v4],
      ['::/0', host.v6],
    ] as const
  ).filter(([, { method, gateway }]) => method === 'static' && gateway !== '');
  if (gateways.length > 0) {
    lines.push('routes:', '  config:');
    for (const [destination, { gateway }] of gateways) {
      lines.push(
        `  - destination: ${scalar(destination)}`,
        `    next-hop-address: ${scalar(gateway.trim())}`,
        `    next-hop-interface: ${scalar(topInterface(host))}`,
      );
    }
  }
  if (words(host.dns).length > 0 || words(host.search).length > 0) {
    lines.push('dns-resolver:', '  config:');
    if (words(host.dns).length > 0) {
      lines.push(`    server: ${list(words(host.dns))}`);
    }
    if (words(host.search).length > 0) {
      lines.push(`    search: ${list(words(host.search))}`);
    }
  }
  return `${lines.join('\n')}\n`;
};

export const toConfig = ({ host, yaml }: Described): HostConfig => ({
  network_yaml: yaml ?? toYAML(host),
  mac_interface_map: host.nics.map(({ mac, name }) => ({ mac_address: mac.trim(), logical_nic_name: name.trim() })),
});

const unquoted = (text: string): string => (text.startsWith('"') ? (JSON.parse(text) as string) : text);

const found = (text: string, pattern: RegExp): string => unquoted(pattern.exec(text)?.[1] ?? '');

const listed = (text: string, key: string): string => {
  const inner = new RegExp(`^    ${key}: \\[(.*)\\]$`, 'm').exec(text)?.[1] ?? '';
  return inner
    .split(', ')
    .map((one) => unquoted(one))
    .join(', ');
};

const readFamily = (yaml: string, name: 'ipv4' | 'ipv6'): Family => {
  const section = new RegExp(`^  ${name}:\\n((?: {4}.*\\n)+)`, 'm').exec(yaml)?.[1] ?? '';
  const addresses = [...section.matchAll(/- ip: (.*)\n {6}prefix-length: (.*)/g)].map(
    ([, ip = '', prefix = '']) => `${unquoted(ip)}/${unquoted(prefix)}`,
  );
  const destination = name === 'ipv4' ? '0\\.0\\.0\\.0/0' : '"::/0"';
  const gateway = found(yaml, new RegExp(`- destination: ${destination}\\n    next-hop-address: (.*)`));
  if (section.includes('dhcp: true')) {
    return { method: 'auto', address: '', gateway: '' };
  }
  return section.includes('enabled: true') ? { method: 'static', address: addresses.join(', '), gateway } : off;
};

/**
 * Reads a description into the form if the form can express all of it; otherwise keeps the YAML.
 */
export const fromConfig = ({ network_yaml: yaml, mac_interface_map: map }: HostConfig): Described => {
  const host: Host = {
    nics: map.map(({ mac_address: mac, logical_nic_name: name }) => ({ mac, name })),
    bond: '',
    vlan: '',
    mtu: '',
    v4: off,
    v6: off,
    dns: '',
    search: '',
  };
  try {
    const read: Host = {
      ...host,
      bond: found(yaml, /^ {4}mode: (.*)$/m),
      vlan: found(yaml, /^ {4}id: (.*)$/m),
      mtu: found(yaml, /^ {2}mtu: (.*)$/m),
      v4: readFamily(yaml, 'ipv4'),
      v6: readFamily(yaml, 'ipv6'),
      dns: listed(yaml, 'server'),
      search: listed(yaml, 'search'),
    };
    if (toYAML(read) === yaml) {
      return { host: read };
    }
  } catch {
    // A quoted text that is not JSON is not from the form.
  }
  return { host, yaml };
};
