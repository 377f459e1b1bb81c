package ignition

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkNetworks translates the network YAML of 500 hosts into the files of their images:
// keyfiles, which all releases support, and policies.
func BenchmarkNetworks(b *testing.B) {
	const hosts = 500
	for name, version := range map[string]string{"keyfiles": "4.17", "policies": "4.18"} {
		b.Run(fmt.Sprintf("%s/hosts=%d", name, hosts), func(b *testing.B) {
			all := manyHosts(hosts)
			size := 0
			for _, host := range all {
				size += len(host.YAML)
			}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				files, err := NetworkFiles(all, version)
				require.NoError(b, err)
				require.Greater(b, len(files), hosts)
			}
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/conversion")
		})
	}
}

// manyHosts returns hosts of a typical bare metal site, each with a VLAN on a bond of two NICs,
// addresses of both families, routes and name servers.
func manyHosts(n int) []HostNetwork {
	var hosts []HostNetwork
	for i := range n {
		high, low := i/256, i%256
		yaml := strings.NewReplacer("HH", fmt.Sprintf("%02x", high), "LL", fmt.Sprintf("%02x", low), "N4", fmt.Sprintf("%d.%d", high, low), "N6", fmt.Sprintf("%x", i+16)).Replace(`interfaces:
- name: eth0
  type: ethernet
  state: up
  mac-address: 52:54:00:00:HH:LL
  mtu: 9000
  ipv4: {enabled: false}
  ipv6: {enabled: false}
- name: eth1
  type: ethernet
  state: up
  mac-address: 52:54:00:01:HH:LL
  mtu: 9000
  ipv4: {enabled: false}
  ipv6: {enabled: false}
- name: bond0
  type: bond
  state: up
  mtu: 9000
  link-aggregation:
    mode: 802.3ad
    options:
      miimon: "140"
      lacp_rate: fast
      xmit_hash_policy: layer3+4
    port:
    - eth0
    - eth1
  ipv4: {enabled: false}
  ipv6: {enabled: false}
- name: bond0.100
  type: vlan
  state: up
  vlan:
    base-iface: bond0
    id: 100
  ipv4:
    enabled: true
    dhcp: false
    address:
    - ip: 10.1.N4
      prefix-length: 16
  ipv6:
    enabled: true
    dhcp: false
    autoconf: false
    address:
    - ip: 2001:db8::N6
      prefix-length: 64
dns-resolver:
  config:
    search: [site.example]
    server:
    - 10.1.255.1
    - 2001:db8::1
routes:
  config:
  - destination: 0.0.0.0/0
    next-hop-address: 10.1.255.254
    next-hop-interface: bond0.100
    table-id: 254
  - destination: ::/0
    next-hop-address: 2001:db8::1
    next-hop-interface: bond0.100
`)
		hosts = append(hosts, HostNetwork{YAML: yaml, Interfaces: []NetworkInterface{
			{MAC: fmt.Sprintf("52:54:00:00:%02x:%02x", high, low), Name: "eth0"},
			{MAC: fmt.Sprintf("52:54:00:01:%02x:%02x", high, low), Name: "eth1"},
		}})
	}
	return hosts
}
