import { describe, expect, it } from 'vitest';
import { fromConfig, newHost, toConfig, toYAML, type Host } from '../src/networks/hosts';

const nics = [
  { mac: '52:54:00:00:00:0a', name: 'eth0' },
  { mac: '52:54:00:00:00:0b', name: 'eth1' },
];
const plain: Host = {
  ...newHost(),
  nics: nics.slice(0, 1),
  v4: { method: 'static', address: '192.0.2.10/24', gateway: '192.0.2.1' },
  dns: '192.0.2.53, 2001:db8::53',
};

describe('networks form', () => {
  it('formats nmstate YAML', () => {
    expect(toYAML(plain)).toBe(`interfaces:
- name: eth0
  type: ethernet
  state: up
  ipv4:
    enabled: true
    address:
    - ip: 192.0.2.10
      prefix-length: 24
  ipv6:
    enabled: false
routes:
  config:
  - destination: 0.0.0.0/0
    next-hop-address: 192.0.2.1
    next-hop-interface: eth0
dns-resolver:
  config:
    server: [192.0.2.53, "2001:db8::53"]
`);
  });

  it('sets the addresses on the VLAN of the bond', () => {
    const yaml = toYAML({ ...plain, nics, bond: '802.3ad', vlan: '100', mtu: '9000' });
    expect(yaml).toContain('port: [eth0, eth1]');
    expect(yaml).toContain(
      '- name: bond0.100\n  type: vlan\n  state: up\n  mtu: 9000\n' +
        '  vlan:\n    base-iface: bond0\n    id: 100\n  ipv4:\n    enabled: true',
    );
    expect(yaml).toContain('next-hop-interface: bond0.100');
    expect(yaml.match(/ipv4:/g)).toHaveLength(1);
  });

  it.each<[string, Host]>([
    ['one address', plain],
    ['several addresses', { ...plain, v4: { method: 'static', address: '192.0.2.10/24, 192.0.2.11/25', gateway: '' } }],
    ['both families', { ...plain, v6: { method: 'static', address: '2001:db8::a/64', gateway: '2001:db8::1' } }],
    [
      'DHCP and router advertisements',
      { ...plain, v4: { method: 'auto', address: '', gateway: '' }, v6: { method: 'auto', address: '', gateway: '' } },
    ],
    ['a bond', { ...plain, nics, bond: 'active-backup', search: 'site.example, example' }],
    ['a VLAN', { ...plain, vlan: '7' }],
    ['a VLAN on a bond', { ...plain, nics, bond: 'balance-xor', vlan: '7', mtu: '9000' }],
    ['nothing filled in', { ...newHost(), nics: nics.slice(0, 1) }],
    ['nonsense', { ...plain, mtu: 'a: "b"', v4: { method: 'static', address: 'x/y', gateway: '{}' }, dns: '#' }],
  ])('round trip: %s', (_, host) => {
    const opened = fromConfig(toConfig({ host }));
    expect(opened.yaml).toBeUndefined();
    expect(opened.host).toEqual(host);
  });

  it('keeps YAML that the form can not express', () => {
    const yaml = `${toYAML(plain)}# by hand\n`;
    const opened = fromConfig({ ...toConfig({ host: plain }), network_yaml: yaml });
    expect(opened.yaml).toBe(yaml);
    expect(opened.host.nics).toEqual(plain.nics);
    expect(toConfig(opened).network_yaml).toBe(yaml);
  });
});
