package ignition

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// richHost uses all features that keyfiles support.
func richHost() HostNetwork {
	return HostNetwork{
		YAML: `interfaces:
- name: eth0
  type: ethernet
  state: up
  mtu: 9000
  mac-address: 52:54:00:00:00:01
  ethernet: {auto-negotiation: false, speed: 10000, duplex: full}
  lldp: {enabled: true}
  ipv4:
    enabled: "yes"
    dhcp: false
    address: [{ip: 192.0.2.10, prefix-length: 24}, {ip: 192.0.2.11, prefix-length: "25"}]
  ipv6: {enabled: true, autoconf: false, dhcp: false, address: [{ip: 2001:db8::a, prefix-length: 64}], addr-gen-mode: stable-privacy}
- name: eth1
  type: ethernet
  mac-address: 02:00:00:00:00:99
  ipv4: {enabled: true, dhcp: true, auto-dns: false, auto-routes: false, auto-gateway: false, auto-route-table-id: 77, dhcp-client-id: ll}
  ipv6: {enabled: true, dhcp: true, autoconf: true, dhcp-duid: llt}
  wait-ip: ipv4
- name: eth0.100
  type: vlan
  vlan: {base-iface: eth0, id: 100}
  ipv4: {enabled: true, address: [{ip: 198.51.100.4, prefix-length: 30}]}
- name: far
  type: vlan
  vlan: {base-iface: eth2, id: 7}
  ipv6: {enabled: true, dhcp: true}
routes:
  config:
  - {destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: eth0, table-id: 254}
  - {destination: 10.1.0.0/16, next-hop-interface: eth0.100, metric: 50}
  - {destination: 10.2.0.0/16, next-hop-address: 198.51.100.5, next-hop-interface: eth0.100, table-id: 5, source: 198.51.100.4}
  - {destination: "::/0", next-hop-address: "2001:db8::1", next-hop-interface: eth0}
dns-resolver:
  config:
    server: [192.0.2.53, "2001:db8::53", 192.0.2.54]
    search: [site.example, example]
    options: [rotate]
`,
		Interfaces: []NetworkInterface{
			{MAC: "52:54:00:00:00:01", Name: "eth0"}, {MAC: "52:54:00:00:00:02", Name: "eth1"},
			{MAC: "52:54:00:00:00:03", Name: "eth2"},
		},
	}
}

// taggedHost has the most common configuration of bare metal sites: a VLAN on a bond of NICs that
// are not described themselves.
func taggedHost() HostNetwork {
	return HostNetwork{
		YAML: `interfaces:
- name: bond0
  type: bond
  mac-address: 52:54:00:00:00:0d
  mtu: 9000
  link-aggregation:
    mode: 802.3ad
    options: {miimon: "140", xmit_hash_policy: layer3+4, all_slaves_active: false}
    port: [eno1, eth7]
- name: bond0.100
  type: vlan
  vlan: {base-iface: bond0, id: 100}
  ipv4: {enabled: true, address: [{ip: 192.0.2.31, prefix-length: 24}]}
  ipv6: {enabled: false}
routes: {config: [{destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: bond0.100}]}
dns-resolver: {config: {server: [192.0.2.53]}}
`,
		Interfaces: []NetworkInterface{{MAC: "52:54:00:00:00:0d", Name: "eno1"},
			{MAC: "52:54:00:00:00:0e", Name: "eth7"}},
	}
}

// trunkHost has a bridge with VLAN filtering on a bond with options of its ports, a routing table
// of its own and rules for that table.
func trunkHost() HostNetwork {
	return HostNetwork{
		YAML: `interfaces:
- name: br-ex
  type: linux-bridge
  mac-address: 52:54:00:00:00:0d
  bridge:
    options:
      mac-ageing-time: 300
      multicast-snooping: true
      group-forward-mask: 8
      stp: {enabled: false, forward-delay: 15, hello-time: 2, max-age: 20, priority: 32768}
    port:
    - name: bond0
      stp-hairpin-mode: true
      stp-path-cost: 100
      stp-priority: 32
      vlan: {mode: trunk, tag: 100, enable-native: true, trunk-tags: [{id: 101}, {id-range: {min: 500, max: 599}}]}
    - {name: eth2, vlan: {mode: access, tag: 7}}
  ipv4: {enabled: true, address: [{ip: 192.0.2.41, prefix-length: 24}]}
  ipv6: {enabled: true, dhcp: true, autoconf: true, token: "::41"}
- name: bond0
  type: bond
  link-aggregation:
    mode: 1
    options: {miimon: 100, primary: eth0, primary_reselect: 1, fail_over_mac: 0}
    port: [eth0, eth1]
    ports-config: [{name: eth0, queue-id: 0, priority: 0}, {name: eth1, queue-id: 3}]
routes:
  config:
  - {destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: br-ex, table-id: 70, metric: 20}
  - {destination: 198.51.100.1, next-hop-address: 192.0.2.2, next-hop-interface: br-ex, weight: 3, cwnd: 20}
route-rules:
  config:
  - {ip-from: 192.0.2.41, route-table: 70, priority: 100}
  - {ip-to: 198.51.100.9/24, fwmark: 0x30, fwmask: 0x10, iif: eth2}
  - {family: ipv6, action: prohibit}
`,
		Interfaces: []NetworkInterface{{MAC: "52:54:00:00:00:0d", Name: "eth0"},
			{MAC: "52:54:00:00:00:0e", Name: "eth1"}, {MAC: "52:54:00:00:00:0f", Name: "eth2"}},
	}
}

// memberHost has ports that name their controllers, and a VLAN with an address of its own.
func memberHost() HostNetwork {
	return HostNetwork{
		YAML: `interfaces:
- {name: eth0, type: ethernet, controller: bond0}
- {name: eth1, type: ethernet, mac-address: 52:54:00:00:00:0e, controller: bond0}
- name: bond0
  type: bond
  link-aggregation: {mode: active-backup}
- name: bond0.9
  type: vlan
  mac-address: 02:00:00:00:00:09
  vlan: {base-iface: bond0, id: 9}
  controller: br0
- name: br0
  type: linux-bridge
  ipv4: {enabled: true, dhcp: true}
`,
		Interfaces: []NetworkInterface{{MAC: "52:54:00:00:00:0d", Name: "eth0"},
			{MAC: "52:54:00:00:00:0e", Name: "eth1"}},
	}
}

func TestKeyfiles_goldenFile(t *testing.T) {
	var b strings.Builder
	for _, host := range []HostNetwork{richHost(), bondedHost(), taggedHost(), bridgedHost("52:54:00:00:00:0c"),
		trunkHost(), memberHost()} {
		planned, fault := planHost(host)
		require.Nil(t, fault)
		require.Nil(t, planned.beyond)
		for _, f := range planned.files {
			fmt.Fprintf(&b, "===== %s, mode %04o\n%s\n", f.Path, f.Mode, f.Data)
		}
	}
	golden(t, "keyfiles.txt", b.String())
}

func TestStaticNetwork_pathsOfFiles(t *testing.T) {
	const ethernet = "interfaces:\n- name: eth0\n  ipv4: {enabled: true, dhcp: true}\n"
	nic := func(n int) []NetworkInterface {
		return []NetworkInterface{{MAC: fmt.Sprintf("52:54:00:00:01:%02x", n), Name: "eth0"}}
	}
	plain := []HostNetwork{{ethernet, nic(0)}, {ethernet, nic(1)}}
	for name, tc := range map[string]struct {
		hosts        []HostNetwork
		full, initrd []string
		problem      string
	}{
		"NICs identified by MAC address": {
			plain,
			[]string{"/etc/NetworkManager/system-connections/host0-eth0.nmconnection",
				"/etc/NetworkManager/system-connections/host1-eth0.nmconnection"},
			[]string{"etc/coreos-firstboot-network/host0-eth0.nmconnection",
				"etc/coreos-firstboot-network/host1-eth0.nmconnection"}, "",
		},
		"a NIC identified by a name that other machines use": {
			[]HostNetwork{{ethernet + "- name: eno1\n  ipv4: {enabled: true, dhcp: true}\n", nic(0)}},
			[]string{"/etc/assisted/network/host0/eno1.nmconnection", "/etc/assisted/network/host0/eth0.nmconnection",
				"/etc/assisted/network/host0/mac_interface.ini", "/usr/local/bin/static-network"},
			[]string{
				"etc/assisted/network/host0/eno1.nmconnection", "etc/assisted/network/host0/eth0.nmconnection",
				"etc/assisted/network/host0/mac_interface.ini",
				"etc/systemd/system/initrd.target.d/static-network.conf", "etc/systemd/system/static-network.service",
				"usr/local/bin/static-network",
			}, "",
		},
		"a bond in one host": {
			[]HostNetwork{{ethernet, nic(0)}, bondedHost()},
			[]string{
				"/etc/assisted/network/host0/eth0.nmconnection", "/etc/assisted/network/host0/mac_interface.ini",
				"/etc/assisted/network/host1/bond0.nmconnection", "/etc/assisted/network/host1/eth0.7.nmconnection",
				"/etc/assisted/network/host1/eth0.nmconnection",
				"/etc/assisted/network/host1/eth1.nmconnection", "/etc/assisted/network/host1/mac_interface.ini",
				"/usr/local/bin/static-network",
			},
			[]string{
				"etc/assisted/network/host0/eth0.nmconnection", "etc/assisted/network/host0/mac_interface.ini",
				"etc/assisted/network/host1/bond0.nmconnection", "etc/assisted/network/host1/eth0.7.nmconnection",
				"etc/assisted/network/host1/eth0.nmconnection",
				"etc/assisted/network/host1/eth1.nmconnection", "etc/assisted/network/host1/mac_interface.ini",
				"etc/systemd/system/initrd.target.d/static-network.conf", "etc/systemd/system/static-network.service",
				"usr/local/bin/static-network",
			}, "",
		},
		"a virtual switch in one host": {
			[]HostNetwork{{ethernet, nic(0)}, switchedHost("52:54:00:00:00:0c")},
			[]string{
				"/etc/assisted/network/host0/mac_interface.ini", "/etc/assisted/network/host0/ymlFile0.yml",
				"/etc/assisted/network/host1/mac_interface.ini", "/etc/assisted/network/host1/ymlFile1.yml",
				"/usr/local/bin/static-network",
			},
			nil, "static network: host 1: interfaces[1].type (line 4) is \"ovs-bridge\", which is not supported by " +
				"NetworkManager's keyfiles, the only format that a minimal image supports; use the " +
				"image type full-iso, or leave out the field",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := minimal()
			before := discovered(t, c)
			c.StaticNetwork = tc.hosts
			var full []string
			for path := range discovered(t, c).files {
				if _, ok := before.File(path); !ok {
					full = append(full, path)
				}
			}
			slices.Sort(full)
			require.Equal(t, tc.full, full)

			files, err := InitrdFiles(c)
			if tc.problem != "" {
				require.EqualError(t, err, tc.problem)
			} else {
				require.NoError(t, err)
			}
			var initrd []string
			for _, f := range files {
				require.True(t, fs.ValidPath(f.Path), f.Path)
				initrd = append(initrd, f.Path)
			}
			slices.Sort(initrd)
			require.Equal(t, tc.initrd, initrd)
		})
	}
}

func TestInitrdFiles_proxyForRootFileSystem(t *testing.T) {
	c := minimal()
	files, err := InitrdFiles(c)
	require.NoError(t, err)
	require.Empty(t, files)

	c.Proxy = Proxy{HTTP: "http://user:p%40ss@proxy.example:3128", No: ".example"}
	files, err = InitrdFiles(c)
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.Equal(t, "etc/systemd/system/coreos-livepxe-rootfs.service.d/10-proxy.conf", files[0].Path)
	for _, line := range []string{"[Service]", "Environment=HTTP_PROXY=http://user:p%%40ss@proxy.example:3128",
		"Environment=http_proxy=http://user:p%%40ss@proxy.example:3128"} {
		require.Contains(t, string(files[0].Data), line+"\n")
	}
	require.Regexp(t, `(?m)^Environment=no_proxy=\.example,.+$`, string(files[0].Data),
		"connections to the appliance use no proxy")
}

func TestCheckNetwork_errorNamesField(t *testing.T) {
	const head = "interfaces:\n- name: eth0\n  type: ethernet\n"
	for name, tc := range map[string]struct{ yaml, want string }{
		"an invalid address": {head +
			"  ipv4: {enabled: true, address: [{ip: 192.168.1.300, prefix-length: 24}]}",
			`interfaces[0].ipv4.address[0].ip (line 4) is "192.168.1.300", which is not an IPv4 address`},
		"an IPv6 address for IPv4": {head + "  ipv4: {address: [{ip: '::1', prefix-length: 24}]}",
			`interfaces[0].ipv4.address[0].ip (line 4) is "::1", which is not an IPv4 address`},
		"too long a prefix": {head + "  ipv4: {address: [{ip: 192.0.2.1, prefix-length: 33}]}",
			`interfaces[0].ipv4.address[0].prefix-length (line 4) is "33"; it must be a whole number from 0 to 32`},
		"a prefix with a leading zero": {head + "  ipv4: {address: [{ip: 192.0.2.1, prefix-length: 024}]}",
			`interfaces[0].ipv4.address[0].prefix-length (line 4) is "024"; write the number without the leading zero`},
		"an address without a prefix": {head + "  ipv4: {address: [{ip: 192.0.2.1}]}",
			`interfaces[0].ipv4.address[0] (line 4) needs an ip and a prefix-length`},
		"an address twice": {head +
			"  ipv4: {address: [{ip: 192.0.2.1, prefix-length: 24}, {ip: 192.0.2.1, prefix-length: 24}]}",
			`interfaces[0].ipv4.address[1] (line 4) is a duplicate`},
		"a text for a boolean": {head + "  ipv4: {enabled: maybe}",
			`interfaces[0].ipv4.enabled (line 4) is "maybe"; it must be true or false`},
		"autoconf without DHCP": {head + "  ipv6: {enabled: true, autoconf: true}",
			`interfaces[0].ipv6.autoconf (line 4) requires dhcp: true`},
		"a list for a mapping": {head + "  ipv4: [dhcp]", `interfaces[0].ipv4 (line 4) must be a mapping`},
		"a mapping for a list": {"interfaces: {name: eth0}", `interfaces (line 1) must be a list`},
		"too small an MTU": {head + "  mtu: 20",
			`interfaces[0].mtu (line 4) is "20"; it must be a whole number from 68 to 65535`},
		"an invalid MAC": {head + "  mac-address: eth0",
			`interfaces[0].mac-address (line 4) is "eth0"; a MAC address looks like 52:54:00:12:34:56`},
		"an invalid state": {head + "  state: upp",
			`interfaces[0].state (line 4) is "upp"; it must be one of up, down, absent, ignore`},
		"an interface without a name": {"interfaces:\n- type: ethernet\n",
			`interfaces[0] (line 2) needs a name without blanks and slashes; the name is ""`},
		"a name with a slash": {"interfaces:\n- name: ../etc\n",
			`interfaces[0] (line 2) needs a name without blanks and slashes; the name is "../etc"`},
		"a name twice": {head + "- name: eth0\n  type: ethernet",
			`interfaces[1].name (line 4) is "eth0", which is also the name of interfaces[0]`},
		"a key twice": {head + "  mtu: 1500\n  mtu: 1400",
			`interfaces[0].mtu (line 5) is a duplicate; the first one is in line 4`},
		"a line feed in a value": {head + "  profile-name: \"a\\n[bond]\"",
			`interfaces[0].profile-name (line 4) must be one line without control characters`},
		"a bond without a mode": {head + "- name: bond0\n  type: bond\n  link-aggregation: {port: [eth0]}",
			`interfaces[1].link-aggregation.mode (line 6) is missing`},
		"an invalid bond mode": {head +
			"- name: bond0\n  type: bond\n  link-aggregation: {mode: 7, port: [eth0]}",
			`interfaces[1].link-aggregation.mode (line 6) is "7"; the modes of a bond are`},
		"a bond of unknown ports": {head +
			"- name: bond0\n  type: bond\n  link-aggregation: {mode: 1, port: [eth7]}",
			`interfaces[1].link-aggregation.port[0] (line 6) is "eth7", which is not an interface of this description`},
		"a port of two bonds": {head +
			"- name: b0\n  type: bond\n  link-aggregation: {mode: 1, port: [eth0]}\n- name: b1\n  type: bond\n  " +
			"link-aggregation: {mode: 1, port: [eth0]}",
			`interfaces[2].link-aggregation.port[0] (line 9) is "eth0", which is already a port`},
		"a bond in itself": {head +
			"- name: b0\n  type: bond\n  link-aggregation: {mode: 1, port: [b0]}", `or is the bond itself`},
		"a bond's option with a bracket": {head +
			"- name: b0\n  type: bond\n  link-aggregation: {mode: 1, options: {'a]': 1}, port: [eth0]}",
			`options.a] (line 6) is not a bond option`},
		"a port with addresses": {head +
			"  ipv4: {enabled: true, dhcp: true}\n- name: b0\n  type: bond\n  link-aggregation: {mode: 1, port: " +
			"[eth0]}", `interfaces[0] (line 2) is a port of b0 and cannot have addresses of its own`},
		"an invalid VLAN id": {head + "- name: v\n  type: vlan\n  vlan: {base-iface: eth0, id: 5000}",
			`interfaces[1].vlan.id (line 6) is "5000"; it must be a whole number from 0 to 4094`},
		"a VLAN without a base interface": {head + "- name: v\n  type: vlan\n  vlan: {id: 5}",
			`interfaces[1].vlan.base-iface (line 6) is missing`},
		"a VLAN on itself": {head + "- name: v\n  type: vlan\n  vlan: {base-iface: v, id: 5}",
			`interfaces[1].vlan.base-iface (line 6) is "v"`},
		"a VLAN with too long a name": {head +
			"- name: enp129s0f0np0.100\n  type: vlan\n  vlan: {base-iface: eth0, id: 100}",
			`interfaces[1].name (line 4) is "enp129s0f0np0.100"; Linux supports names of up to 15 characters`},
		"a route without a destination": {head + "routes: {config: [{next-hop-interface: eth0}]}",
			`routes.config[0] (line 4) needs a destination such as 0.0.0.0/0`},
		"an invalid destination": {head +
			"routes: {config: [{destination: default, next-hop-interface: eth0}]}",
			`routes.config[0].destination (line 4) is "default"; a network looks like`},
		"a gateway of the other family": {head +
			"routes: {config: [{destination: 0.0.0.0/0, next-hop-address: '::1', next-hop-interface: eth0}]}",
			`routes.config[0].next-hop-address (line 4) is "::1", which is not an IPv4 address`},
		"a route through a missing interface": {head +
			"routes: {config: [{destination: 0.0.0.0/0, next-hop-interface: eht0}]}",
			`routes.config[0].next-hop-interface (line 4) is "eht0", which is not an interface of this description`},
		"an IPv4 route without IPv4 addresses": {head +
			"routes: {config: [{destination: 0.0.0.0/0, next-hop-interface: eth0}]}",
			`routes.config[0].next-hop-interface (line 4) is "eth0", which has no IPv4 addresses`},
		"a name server that is a name": {head + "dns-resolver: {config: {server: [ns.example]}}",
			`dns-resolver.config.server[0] (line 4) is "ns.example", which is not an address of a name server`},
		"a route through the host's own address": {head +
			"  ipv4: {address: [{ip: 192.0.2.1, prefix-length: 24}]}\nroutes: {config: [{destination: 0.0.0.0/0, " +
			"next-hop-address: 192.0.2.1, next-hop-interface: eth0}]}",
			`routes.config[0].next-hop-address (line 5) is 192.0.2.1, an address of eth0 itself`},
		"a rule for both families": {head +
			"route-rules: {config: [{ip-from: 192.0.2.0/24, ip-to: '2001:db8::/64'}]}",
			`route-rules.config[0] (line 4) contains IPv4 and IPv6; a rule must use only one of them`},
		"a rule for neither family": {head + "route-rules: {config: [{route-table: 5}]}",
			`route-rules.config[0] (line 4) needs ip-from, ip-to or a family`},
		"an IPv4 rule without IPv4 addresses": {head + "route-rules: {config: [{ip-from: 192.0.2.0/24}]}",
			`route-rules.config[0] (line 4) is a rule for IPv4, but no interface has IPv4 addresses`},
		"a mask without a mark": {head + "route-rules: {config: [{family: ipv4, fwmask: 1}]}",
			`route-rules.config[0] (line 4) has a fwmask but no fwmark`},
		"a typo": {head + "  mut: 9000",
			`interfaces[0].mut (line 4) is not a field of nmstate: use mtu instead`},
		"a typo in an address": {head + "  ipv4: {address: [{ip: 192.0.2.1, prefix_length: 24}]}",
			`interfaces[0].ipv4.address[0].prefix_length (line 4) is not a field of nmstate: use prefix-length instead`},
		"a typo in a bond option": {head +
			"- name: b\n  type: bond\n  link-aggregation: {mode: 4, port: [eth0], options: {lacp-rat: fast}}",
			`interfaces[1].link-aggregation.options.lacp-rat (line 6) is not a field of nmstate: use lacp_rate instead`},
		"an IPv6 field for IPv4": {head + "  ipv4: {enabled: true, autoconf: true}",
			`interfaces[0].ipv4.autoconf (line 4) exists only for IPv6`},
		"a small MTU with IPv6": {head + "  mtu: 1000\n  ipv6: {dhcp: true}",
			`interfaces[0].mtu (line 4) is 1000, but Linux requires at least 1280 for IPv6`},
		"a speed without duplex": {head + "  ethernet: {speed: 1000}",
			`interfaces[0].ethernet (line 4) needs speed and duplex together, or neither`},
		"an address that is a network's": {head + "  ipv4: {address: [{ip: 224.0.0.5, prefix-length: 24}]}",
			`interfaces[0].ipv4.address[0] (line 4) is 224.0.0.5, which is not valid for an interface`},
		"one address on two interfaces": {head +
			"  ipv4: {address: [{ip: 192.0.2.1, prefix-length: 24}]}\n- name: eno1\n  ipv4: {address: [{ip: " +
			"192.0.2.1, prefix-length: 25}]}",
			`interfaces[1].ipv4.address[0].ip (line 6) is 192.0.2.1, which is already an address of eth0`},
		"a token and stable privacy": {head +
			"  ipv6: {dhcp: true, autoconf: true, token: '::5', addr-gen-mode: stable-privacy}",
			`interfaces[0].ipv6 (line 4) has a token, which requires addr-gen-mode: eui64`},
		"a token that is a whole address": {head + "  ipv6: {dhcp: true, autoconf: true, token: '2001:db8::5'}",
			`interfaces[0].ipv6.token (line 4) is "2001:db8::5"; it must be the lower 64 bits`},
		"an invalid client id": {head + "  ipv4: {dhcp: true, dhcp-client-id: me}",
			`interfaces[0].ipv4.dhcp-client-id (line 4) is "me"; it must be ll, iaid+duid, or octets`},
		"a bond's option of other modes": {head +
			"- name: b\n  type: bond\n  link-aggregation: {mode: 1, port: [eth0], options: {lacp_rate: fast}}",
			`interfaces[1].link-aggregation.options.lacp_rate (line 6) is an option of the modes 802.3ad, but the mode of this bond is active-backup`},
		"two methods of link monitoring": {head +
			"- name: b\n  type: bond\n  link-aggregation: {mode: 1, port: [eth0], options: {miimon: 100, " +
			"arp_interval: 100, arp_ip_target: 192.0.2.1}}",
			`options.arp_interval (line 6) conflicts with miimon; a bond can use only one method`},
		"a delay without link monitoring": {head +
			"- name: b\n  type: bond\n  link-aggregation: {mode: 1, port: [eth0], options: {updelay: 100}}",
			`options.updelay (line 6) needs miimon`},
		"a primary that is not a port": {head +
			"- name: b\n  type: bond\n  link-aggregation: {mode: 1, port: [eth0], options: {primary: eth1}}",
			`options.primary (line 6) is "eth1", which is not a port of the bond`},
		"a MAC that the bond overwrites": {head +
			"- name: b\n  type: bond\n  mac-address: 52:54:00:00:00:09\n  link-aggregation: {mode: 1, port: [eth0], " +
			"options: {fail_over_mac: active}}",
			`interfaces[1].mac-address (line 6) conflicts with fail_over_mac: active`},
		"a bridge of unknown ports": {head +
			"- name: br0\n  type: linux-bridge\n  bridge: {port: [{name: eth7}]}",
			`interfaces[1].bridge.port[0] (line 6) is "eth7", which is not an interface of this description`},
		"a bridge on itself": {head +
			"- name: br0\n  type: linux-bridge\n  bridge: {port: [{name: v}]}\n- name: v\n  type: vlan\n  vlan: " +
			"{base-iface: br0, id: 5}", `depends on itself, through its ports or the base interface of its VLAN`},
		"a port of a bond and of a bridge": {head +
			"- name: br0\n  type: linux-bridge\n  bridge: {port: [{name: eth0}]}\n- name: b0\n  type: bond\n  " +
			"link-aggregation: {mode: 1, port: [eth0]}",
			`interfaces[2].link-aggregation.port[0] (line 9) is "eth0", which is already a port`},
		"a port with another controller": {head +
			"  controller: br1\n- name: br0\n  type: linux-bridge\n  bridge: {port: [{name: eth0}]}\n- name: br1\n  " +
			"type: linux-bridge", `interfaces[0].controller (line 4) is "br1", but br0 lists this interface as a port`},
		"a forward delay too short": {head +
			"- name: br0\n  type: linux-bridge\n  bridge: {options: {stp: {forward-delay: 1}}, port: [{name: eth0}]}",
			`interfaces[1].bridge.options.stp.forward-delay (line 6) is "1"; it must be a whole number from 2 to 30`},
		"a port's VLANs without a mode": {head +
			"- name: br0\n  type: linux-bridge\n  bridge: {port: [{name: eth0, vlan: {tag: 5}}]}",
			`interfaces[1].bridge.port[0].vlan (line 6) needs the mode access or trunk`},
		"an access port with a trunk": {head +
			"- name: br0\n  type: linux-bridge\n  bridge: {port: [{name: eth0, vlan: {mode: access, tag: 5, " +
			"trunk-tags: [{id: 6}]}}]}", `interfaces[1].bridge.port[0].vlan (line 6) is an access port`},
		"a trunk without enable-native": {head +
			"- name: br0\n  type: linux-bridge\n  bridge: {port: [{name: eth0, vlan: {mode: trunk, tag: 5, " +
			"trunk-tags: [{id: 6}]}}]}",
			`set both tag (the VLAN of untagged frames) and enable-native: true, or neither`},
		"a descending range": {head +
			"- name: br0\n  type: linux-bridge\n  bridge: {port: [{name: eth0, vlan: {mode: trunk, trunk-tags: " +
			"[{id-range: {min: 9, max: 5}}]}}]}",
			`trunk-tags[0].id-range (line 6) needs a min and a max, and max must not be less than min`},
		"a VLAN without an id": {head + "- name: v\n  type: vlan\n  vlan: {base-iface: eth0}",
			`interfaces[1].vlan.id (line 6) is missing`},
		"a VLAN twice": {head +
			"- name: v\n  type: vlan\n  vlan: {base-iface: eth0, id: 5}\n- name: w\n  type: vlan\n  vlan: " +
			"{base-iface: eth0, id: 5}", `interfaces[2].vlan.id (line 9) is 5 on eth0, which is also the id of v`},
		"a VLAN with a larger MTU than its base": {head +
			"  mtu: 1500\n- name: v\n  type: vlan\n  mtu: 9000\n  vlan: {base-iface: eth0, id: 5}",
			`interfaces[1].mtu (line 7) is 9000, above the 1500 of eth0, the base interface of the VLAN`},
		"a tab": {"interfaces:\n- name: eth0\n\tmtu: 1500",
			`the network YAML can't be read: line 3 begins with a tab; YAML is indented with blanks`},
		"a tab after blanks": {"interfaces:\n- name: eth0\n  ipv4:\n  \tenabled: true",
			`begins with a tab; YAML is indented with blanks`},
		"ten megabytes": {head + "  description: '" + strings.Repeat("x", 10<<20) + "'",
			`the network YAML has 10.0 MiB; the limit per host is 1 MiB`},
		"two documents": {head + "---\n" + head,
			`the network YAML has a second document, which starts in line 4 (after ---); a host needs one document`},
		"a missing anchor":    {"interfaces:\n- *a", `unknown anchor 'a' referenced`},
		"an anchor in itself": {"interfaces: &a\n- *a", `is nested in more than 32 mappings and lists`},
		"a key that is a list": {"interfaces:\n- [a]: b",
			`interfaces[0] (line 2) has a key that is not a string`},
		"a merge key without a mapping": {"interfaces:\n- <<: 5",
			`interfaces[0].<< (line 2) must refer to a mapping`},
		"a policy": {"capture: {a: interfaces.name == 'eth0'}\ndesiredState: {interfaces: " +
			"[{name: eth0}]}", `is a policy with captures; give only the desired state`},
		"aliases with exponential growth": {"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c " +
			"[*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e " +
			"[*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: " +
			"[*f,*f,*f,*f,*f,*f,*f,*f,*f]\ninterfaces: [{name: eth0}]", `an alias counts at each use`},
	} {
		t.Run(name, func(t *testing.T) {
			c := minimal()
			c.StaticNetwork = []HostNetwork{{tc.yaml, []NetworkInterface{{MAC: "52:54:00:00:00:01", Name: "eth0"}}}}
			_, err := Discovery(c)
			require.ErrorContains(t, err, "static network: host 0: ")
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestKeyfiles_unsupportedFieldsAreNamed(t *testing.T) {
	const head = "interfaces:\n- name: eth0\n  ipv4: {enabled: true, dhcp: true}\n"
	const cant = " is not supported by NetworkManager's keyfiles"
	for want, text := range map[string]string{
		"interfaces[0].ethtool (line 4)" +
			cant: head +
			"  ethtool: {feature: {rx-gro: true}}",
		"interfaces[0].ethernet.sr-iov (line 4)" +
			cant: head +
			"  ethernet: {sr-iov: {total-vfs: 2}}",
		"hostname (line 4)" +
			cant: head +
			"hostname: {config: h}",
		"routes.config[0].route-type (line 4)" +
			cant: head +
			"routes: {config: [{destination: 10.0.0.0/8, next-hop-interface: eth0, route-type: blackhole}]}",
		"routes.config[0].state (line 4)" +
			cant: head +
			"routes: {config: [{next-hop-interface: eth0, state: absent}]}",
		`interfaces[0].state (line 4) is "down", which` + cant +
			": they always activate interfaces": head + "  state: down",
		`interfaces[1].type (line 5) is "ovs-bridge", which` +
			cant: head +
			"- name: br0\n  type: ovs-bridge\n  bridge: {port: [{name: eth0}]}",
		`interfaces[1].type (line 5) is "vrf", which` +
			cant: head +
			"- name: vrf0\n  type: vrf\n  vrf: {port: [eth0], route-table-id: 100}",
		`interfaces[1].vlan.protocol (line 6) is "802.1ad", which` +
			cant: head +
			"- name: v\n  type: vlan\n  vlan: {base-iface: eth0, id: 5, protocol: 802.1ad}",
		"interfaces[1].link-aggregation.ports-config[0].priority (line 6)" +
			cant: head +
			"- name: b\n  type: bond\n  link-aggregation: {mode: 1, port: [eno1], ports-config: [{name: eno1, " +
			"priority: 3}]}",
		"interfaces[1].link-aggregation.options.balance_slb (line 6)" +
			cant: head +
			"- name: b\n  type: bond\n  link-aggregation: {mode: 2, port: [eno1], options: {balance_slb: 1}}",
		"routes.config[0].next-hop-interface (line 4) is missing; a route without an interface" +
			cant: head +
			"routes: {config: [{destination: 10.0.0.0/8, next-hop-address: 192.0.2.1}]}",
		"dns-resolver.config.server[0] (line 4) is 2001:db8::1, for which no interface has addresses of its kind, " +
			"so it" + cant: head + "dns-resolver: {config: {server: ['2001:db8::1']}}",
		`interfaces[0].controller (line 4) is "br9", which is not a bond or bridge of this description, so it` +
			cant: head + "  controller: br9",
		`interfaces[1].copy-mac-from (line 6) is "eno9", which has no MAC address in mac_interface_map, so it` +
			cant: head + "- name: b\n  type: bond\n  copy-mac-from: eno9\n  link-aggregation: {mode: 1, " +
			"port: [eno1]}",
	} {
		t.Run(want, func(t *testing.T) {
			state, fault := parseState(text, []NetworkInterface{{MAC: "52:54:00:00:00:01", Name: "eth0"}})
			require.Nil(t, fault)
			_, beyond := state.keyfiles("", nil)
			require.NotNil(t, beyond)
			require.Equal(t, want, beyond.Sentence())
		})
	}
}

// No text in a description may start a section or key in a keyfile. Equal descriptions must result
// in equal files.
func FuzzKeyfiles(f *testing.F) {
	f.Add(richHost().YAML)
	f.Add(bondedHost().YAML)
	f.Add(taggedHost().YAML)
	f.Add(bridgedHost("52:54:00:00:00:01").YAML)
	f.Add(trunkHost().YAML)
	f.Add(switchedHost("52:54:00:00:00:01").YAML)
	f.Add("interfaces:\n- &a {name: eth0}\n- *a\n")
	nics := []NetworkInterface{{MAC: "52:54:00:00:00:01", Name: "eth0"}, {MAC: "52:54:00:00:00:02", Name: "eth1"},
		{MAC: "52:54:00:00:00:03", Name: "eth2"}}
	sections := []string{"[connection]", "[ethernet]", "[bond]", "[bond-port]", "[bridge]", "[bridge-port]", "[vlan]",
		"[ipv4]", "[ipv6]"}
	f.Fuzz(func(t *testing.T, text string) {
		host := HostNetwork{YAML: text, Interfaces: nics}
		planned, fault := planHost(host)
		again, faultAgain := planHost(host)
		require.Equal(t, fault, faultAgain)
		require.Equal(t, planned.beyond, again.beyond)
		require.Equal(t, planned.files, again.files)
		for _, f := range []*NetworkFault{fault, planned.beyond} {
			if f != nil {
				require.NotContains(t, f.Error(), "\x00")
				require.NotContains(t, f.Error(), "\n\n")
				require.LessOrEqual(t, f.Line, strings.Count(text, "\n")+strings.Count(text, "\r")+
					strings.Count(text, "\u0085")+strings.Count(text, "\u2028")+strings.Count(text, "\u2029")+1)
			}
		}
		if fault != nil {
			return
		}
		for _, file := range planned.files {
			require.True(t, fs.ValidPath(file.Path), file.Path)
			require.NotContains(t, file.Path, "/")
			for line := range strings.Lines(string(file.Data)) {
				line = strings.TrimSuffix(line, "\n")
				if line == "" || slices.Contains(sections, line) {
					continue
				}
				key, _, ok := strings.Cut(line, "=")
				require.True(t, ok, line)
				require.NotContains(t, key, "[", line)
			}
		}
		policy, err := nmPolicy(planned.state.document, planned.nics)
		require.NoError(t, err)
		require.NoError(t, yaml.Unmarshal(policy, new(any)))
	})
}

// A description of the maximum size must be processed within a short time, regardless of its
// content.
func TestCheckNetwork_largeDescriptionsAreFast(t *testing.T) {
	many := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < 64<<10; i++ {
			b.WriteString(strings.NewReplacer("N", fmt.Sprint(i), "IP", fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255,
				i&255)).Replace(format))
		}
		return b.String()
	}
	const one = "interfaces:\n- name: eth0\n  ipv4: {dhcp: true}\n"
	began := time.Now()
	for name, text := range map[string]string{
		"interfaces": "interfaces:\n- name: eth0\n" +
			many("- {name: enoN, ipv4: {address: [{ip: IP, prefix-length: 8}]}}\n"),
		"VLANs": "interfaces:\n- name: eth0\n" +
			many("- {name: vN, type: vlan, vlan: {base-iface: enoN, id: 1}}\n"),
		"addresses": "interfaces:\n- name: eth0\n  ipv4:\n    address:\n" +
			many("    - {ip: IP, prefix-length: 8}\n"),
		"routes": one + "routes:\n  config:\n" + many("  - {destination: IP, next-hop-interface: eth0}\n"),
		"rules":  one + "route-rules:\n  config:\n" + many("  - {ip-from: IP, route-table: N}\n"),
		"rules and routes": one + "routes:\n  config:\n" +
			many("  - {destination: IP, next-hop-interface: eth0, table-id: N}\n")[:32<<10] + "\n",
		"ports": one + "- name: b\n  type: linux-bridge\n  bridge:\n    port:\n" +
			many("    - {name: enoN}\n"),
		"keys": one + many("kN: 1\n"),
	} {
		_, fault := planHost(HostNetwork{YAML: text, Interfaces: []NetworkInterface{{MAC: "52:54:00:00:00:01",
			Name: "eth0"}}})
		if fault != nil {
			require.Regexp(t, `exceeds the limit of 100000 values|can't be read|is a duplicate`, fault.Error(), name)
		}
	}
	require.Less(t, time.Since(began), time.Minute)
}

// Descriptions of real sites: those of bare metal sites become keyfiles; for the others, the error
// names the unsupported field.
func TestKeyfiles_descriptionsFromPractice(t *testing.T) {
	dir := os.Getenv("LANDFALL_REALDATA")
	if dir == "" {
		t.Skip("LANDFALL_REALDATA is not set")
	}
	t.Run("parameter files", func(t *testing.T) {
		for _, name := range []string{"static_network_config.yml", "static_network_config_sno.yml", "bonding.yml"} {
			raw, err := os.ReadFile(filepath.Join(dir, "aicli", name))
			require.NoError(t, err)
			var file struct {
				Hosts []yaml.Node `yaml:"static_network_config"`
			}
			require.NoError(t, yaml.Unmarshal(raw, &file))
			require.NotEmpty(t, file.Hosts)
			for i, h := range file.Hosts {
				var meta struct {
					Map []struct {
						MAC  string `yaml:"mac_address"`
						Name string `yaml:"logical_nic_name"`
					} `yaml:"mac_interface_map"`
				}
				require.NoError(t, h.Decode(&meta))
				nics := []NetworkInterface{{MAC: "52:54:00:00:00:01", Name: field(field(&h, "interfaces").Content[0],
					"name").Value}}
				for _, m := range meta.Map {
					nics = append(nics, NetworkInterface{MAC: m.MAC, Name: m.Name})
				}
				h.Content = slices.DeleteFunc(h.Content, func(n *yaml.Node) bool {
					return n == field(&h,
						"mac_interface_map") || n.Value == "mac_interface_map"
				})
				text, err := yaml.Marshal(&h)
				require.NoError(t, err)
				planned, fault := planHost(HostNetwork{YAML: string(text), Interfaces: nics})
				require.Nil(t, fault, "%s, host %d", name, i)
				require.Nil(t, planned.beyond, "%s, host %d", name, i)
				require.NotEmpty(t, planned.files)
			}
		}
	})
	t.Run("site definitions and custom resources", func(t *testing.T) {
		found := 0
		for _, pattern := range []string{"siteconfig/*.yaml", "hive-samples/*.yaml"} {
			paths, err := filepath.Glob(filepath.Join(dir, pattern))
			require.NoError(t, err)
			for _, path := range paths {
				text, err := os.ReadFile(path)
				require.NoError(t, err)
				for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
					var document yaml.Node
					err := decoder.Decode(&document)
					if errors.Is(err, io.EOF) {
						break
					}
					require.NoError(t, err, path)
					for _, host := range hostNetworks(t, &document) {
						found++
						planned, fault := planHost(host)
						require.Nil(t, fault, "%s\n%s", path, host.YAML)
						require.Nil(t, planned.beyond, "%s\n%s", path, host.YAML)
					}
				}
			}
		}
		require.Greater(t, found, 3)
	})
	t.Run("nmstate's own examples", func(t *testing.T) {
		golden(t, "nmstate-examples.txt", examplesOfNmstate(t, dir))
	})
}

// examplesOfNmstate returns a line for each example of nmstate: the keyfiles, the reason for a
// policy, or the fault.
func examplesOfNmstate(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	for _, pattern := range []string{"*.yml", "policy/*/*.yml"} {
		paths, err := filepath.Glob(filepath.Join(dir, "nmstate", pattern))
		require.NoError(t, err)
		require.NotEmpty(t, paths)
		for _, path := range paths {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			name, err := filepath.Rel(filepath.Join(dir, "nmstate"), path)
			require.NoError(t, err)
			planned, fault := planHost(HostNetwork{YAML: string(text),
				Interfaces: []NetworkInterface{{MAC: "52:54:00:00:00:01", Name: "eth1"},
					{MAC: "52:54:00:00:00:02", Name: "eth2"}}})
			switch {
			case fault != nil:
				fmt.Fprintf(&b, "%-60s refused: %s\n", name, fault.Sentence())
			case planned.beyond != nil:
				fmt.Fprintf(&b, "%-60s policy: %s\n", name, planned.beyond.Sentence())
			default:
				var files []string
				for _, f := range planned.files {
					files = append(files, strings.TrimSuffix(f.Path, ".nmconnection"))
				}
				fmt.Fprintf(&b, "%-60s keyfiles: %s\n", name, strings.Join(files, ", "))
			}
		}
	}
	return b.String()
}

// hostNetworks returns the descriptions in a document: mappings with the state as config and the
// NICs as interfaces.
func hostNetworks(t *testing.T, n *yaml.Node) []HostNetwork {
	t.Helper()
	var all []HostNetwork
	if n.Kind == yaml.MappingNode {
		config, interfaces := field(n, "config"), field(n, "interfaces")
		if config != nil && interfaces != nil && interfaces.Kind == yaml.SequenceNode {
			var nics []struct {
				Name string `yaml:"name"`
				MAC  string `yaml:"macAddress"`
			}
			require.NoError(t, interfaces.Decode(&nics))
			text, err := yaml.Marshal(config)
			require.NoError(t, err)
			host := HostNetwork{YAML: string(text)}
			for _, nic := range nics {
				host.Interfaces = append(host.Interfaces, NetworkInterface{MAC: nic.MAC, Name: nic.Name})
			}
			return []HostNetwork{host}
		}
	}
	for _, child := range n.Content {
		all = append(all, hostNetworks(t, child)...)
	}
	return all
}
