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

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// richHost has something of all that keyfiles can say.
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
			{MAC: "52:54:00:00:00:01", Name: "eth0"}, {MAC: "52:54:00:00:00:02", Name: "eth1"}, {MAC: "52:54:00:00:00:03", Name: "eth2"},
		},
	}
}

// taggedHost is what most sites of bare metal have: a VLAN on a bond of cards that are not described by themselves.
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
		Interfaces: []NetworkInterface{{MAC: "52:54:00:00:00:0d", Name: "eno1"}, {MAC: "52:54:00:00:00:0e", Name: "eth7"}},
	}
}

func TestKeyfilesSayWhatTheGoldenFileShows(t *testing.T) {
	var b strings.Builder
	for _, host := range []HostNetwork{richHost(), bondedHost(), taggedHost()} {
		cards, err := host.cards()
		require.NoError(t, err)
		state, err := parseState(host.YAML, cards)
		require.NoError(t, err)
		files, err := state.keyfiles("", cards)
		require.NoError(t, err)
		for _, f := range files {
			fmt.Fprintf(&b, "===== %s, mode %04o\n%s\n", f.Path, f.Mode, f.Data)
		}
	}
	golden(t, "keyfiles.txt", b.String())
}

func TestStaticNetworkLiesWhereTheLiveSystemLooks(t *testing.T) {
	const ethernet = "interfaces:\n- name: eth0\n  ipv4: {enabled: true, dhcp: true}\n"
	card := func(n int) []NetworkInterface {
		return []NetworkInterface{{MAC: fmt.Sprintf("52:54:00:00:01:%02x", n), Name: "eth0"}}
	}
	plain := []HostNetwork{{ethernet, card(0)}, {ethernet, card(1)}}
	for name, tc := range map[string]struct {
		hosts        []HostNetwork
		full, initrd []string
		problem      string
	}{
		"cards known by their MAC addresses": {
			plain,
			[]string{"/etc/NetworkManager/system-connections/host0-eth0.nmconnection", "/etc/NetworkManager/system-connections/host1-eth0.nmconnection"},
			[]string{"etc/coreos-firstboot-network/host0-eth0.nmconnection", "etc/coreos-firstboot-network/host1-eth0.nmconnection"}, "",
		},
		"a card known by its name, which other machines have too": {
			[]HostNetwork{{ethernet + "- name: eno1\n  ipv4: {enabled: true, dhcp: true}\n", card(0)}},
			[]string{"/etc/assisted/network/host0/eno1.nmconnection", "/etc/assisted/network/host0/eth0.nmconnection", "/etc/assisted/network/host0/mac_interface.ini", "/usr/local/bin/static-network"},
			[]string{
				"etc/assisted/network/host0/eno1.nmconnection", "etc/assisted/network/host0/eth0.nmconnection", "etc/assisted/network/host0/mac_interface.ini",
				"etc/systemd/system/initrd.target.d/static-network.conf", "etc/systemd/system/static-network.service", "usr/local/bin/static-network",
			}, "",
		},
		"a bond in one of them": {
			[]HostNetwork{{ethernet, card(0)}, bondedHost()},
			[]string{
				"/etc/assisted/network/host0/eth0.nmconnection", "/etc/assisted/network/host0/mac_interface.ini",
				"/etc/assisted/network/host1/bond0.nmconnection", "/etc/assisted/network/host1/eth0.7.nmconnection", "/etc/assisted/network/host1/eth0.nmconnection",
				"/etc/assisted/network/host1/eth1.nmconnection", "/etc/assisted/network/host1/mac_interface.ini", "/usr/local/bin/static-network",
			},
			[]string{
				"etc/assisted/network/host0/eth0.nmconnection", "etc/assisted/network/host0/mac_interface.ini",
				"etc/assisted/network/host1/bond0.nmconnection", "etc/assisted/network/host1/eth0.7.nmconnection", "etc/assisted/network/host1/eth0.nmconnection",
				"etc/assisted/network/host1/eth1.nmconnection", "etc/assisted/network/host1/mac_interface.ini",
				"etc/systemd/system/initrd.target.d/static-network.conf", "etc/systemd/system/static-network.service", "usr/local/bin/static-network",
			}, "",
		},
		"a bridge in one of them": {
			[]HostNetwork{{ethernet, card(0)}, bridgedHost("52:54:00:00:00:0c")},
			[]string{
				"/etc/assisted/network/host0/mac_interface.ini", "/etc/assisted/network/host0/ymlFile0.yml",
				"/etc/assisted/network/host1/mac_interface.ini", "/etc/assisted/network/host1/ymlFile1.yml", "/usr/local/bin/static-network",
			},
			nil, "static network: host 1: interfaces[1].bridge can't be said in NetworkManager's keyfiles, which are all that a minimal image has before it is booted; use the image type full-iso, or leave it out",
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

func TestMinimalImagesFetchTheirRootThroughTheProxy(t *testing.T) {
	c := minimal()
	files, err := InitrdFiles(c)
	require.NoError(t, err)
	require.Empty(t, files)

	c.Proxy = Proxy{HTTP: "http://user:p%40ss@proxy.example:3128", No: ".example"}
	files, err = InitrdFiles(c)
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.Equal(t, "etc/systemd/system/coreos-livepxe-rootfs.service.d/10-proxy.conf", files[0].Path)
	for _, line := range []string{"[Service]", "Environment=HTTP_PROXY=http://user:p%%40ss@proxy.example:3128", "Environment=http_proxy=http://user:p%%40ss@proxy.example:3128"} {
		require.Contains(t, string(files[0].Data), line+"\n")
	}
	require.Regexp(t, `(?m)^Environment=no_proxy=\.example,.+$`, string(files[0].Data), "the appliance itself is reached directly")
}

func TestNetworkDescriptionsAreRefusedByTheFieldAtFault(t *testing.T) {
	const head = "interfaces:\n- name: eth0\n  type: ethernet\n"
	for name, tc := range map[string]struct{ yaml, want string }{
		"an address that is none":          {head + "  ipv4: {enabled: true, address: [{ip: 192.168.1.300, prefix-length: 24}]}", `interfaces[0].ipv4.address[0].ip (line 4) is "192.168.1.300", which is no IPv4 address`},
		"an IPv6 address for IPv4":         {head + "  ipv4: {address: [{ip: '::1', prefix-length: 24}]}", `interfaces[0].ipv4.address[0].ip (line 4) is "::1", which is no IPv4 address`},
		"a prefix too long":                {head + "  ipv4: {address: [{ip: 192.0.2.1, prefix-length: 33}]}", `interfaces[0].ipv4.address[0].prefix-length (line 4) is "33"; it must be a whole number from 0 to 32`},
		"an address without a prefix":      {head + "  ipv4: {address: [{ip: 192.0.2.1}]}", `interfaces[0].ipv4.address[0] (line 4) needs an ip and a prefix-length`},
		"an address twice":                 {head + "  ipv4: {address: [{ip: 192.0.2.1, prefix-length: 24}, {ip: 192.0.2.1, prefix-length: 24}]}", `interfaces[0].ipv4.address[1] (line 4) is there a second time`},
		"a text for true":                  {head + "  ipv4: {enabled: maybe}", `interfaces[0].ipv4.enabled (line 4) is "maybe"; it must be true or false`},
		"autoconf without DHCP":            {head + "  ipv6: {enabled: true, autoconf: true}", `interfaces[0].ipv6.autoconf goes with dhcp: true only`},
		"a list for a mapping":             {head + "  ipv4: [dhcp]", `interfaces[0].ipv4 (line 4) must be a mapping`},
		"a mapping for a list":             {"interfaces: {name: eth0}", `interfaces (line 1) must be a list`},
		"an MTU too small":                 {head + "  mtu: 20", `interfaces[0].mtu (line 4) is "20"; it must be a whole number from 68 to 65535`},
		"a MAC that is none":               {head + "  mac-address: eth0", `interfaces[0].mac-address (line 4) is "eth0"; a MAC address looks like 52:54:00:12:34:56`},
		"a state that is none":             {head + "  state: upp", `interfaces[0].state (line 4) is "upp"; it must be one of up, down, absent, ignore`},
		"an interface without a name":      {"interfaces:\n- type: ethernet\n", `interfaces[0] (line 2) needs a name without blanks and slashes; it has ""`},
		"a name with a slash":              {"interfaces:\n- name: ../etc\n", `interfaces[0] (line 2) needs a name without blanks and slashes; it has "../etc"`},
		"a name twice":                     {head + "- name: eth0\n  type: ethernet", `interfaces[1].name is "eth0", as that of interfaces[0]`},
		"a key twice":                      {head + "  mtu: 1500\n  mtu: 1400", `mapping key "mtu" already defined`},
		"a line feed in a value":           {head + "  profile-name: \"a\\n[bond]\"", `interfaces[0].profile-name (line 4) must be one line without control characters`},
		"a bond without a mode":            {head + "- name: bond0\n  type: bond\n  link-aggregation: {port: [eth0]}", `interfaces[1].link-aggregation.mode is missing`},
		"a bond's mode that is none":       {head + "- name: bond0\n  type: bond\n  link-aggregation: {mode: 7, port: [eth0]}", `interfaces[1].link-aggregation.mode (line 6) is "7"; the modes of a bond are`},
		"a bond of unknown ports":          {head + "- name: bond0\n  type: bond\n  link-aggregation: {mode: 1, port: [eth7]}", `interfaces[1].link-aggregation.port[0] is "eth7", which is no interface of this description`},
		"a port of two bonds":              {head + "- name: b0\n  type: bond\n  link-aggregation: {mode: 1, port: [eth0]}\n- name: b1\n  type: bond\n  link-aggregation: {mode: 1, port: [eth0]}", `interfaces[2].link-aggregation.port[0] is "eth0", which is a port already`},
		"a bond in itself":                 {head + "- name: b0\n  type: bond\n  link-aggregation: {mode: 1, port: [b0]}", `or the bond itself`},
		"a bond's option with a bracket":   {head + "- name: b0\n  type: bond\n  link-aggregation: {mode: 1, options: {'a]': 1}, port: [eth0]}", `options.a] (line 6) is no option of a bond`},
		"a port with addresses":            {head + "  ipv4: {enabled: true, dhcp: true}\n- name: b0\n  type: bond\n  link-aggregation: {mode: 1, port: [eth0]}", `interfaces[0] is a port of b0 and can't have addresses of its own`},
		"a VLAN's id that is none":         {head + "- name: v\n  type: vlan\n  vlan: {base-iface: eth0, id: 5000}", `interfaces[1].vlan.id (line 6) is "5000"; it must be a whole number from 0 to 4094`},
		"a VLAN on nothing":                {head + "- name: v\n  type: vlan\n  vlan: {id: 5}", `interfaces[1].vlan.base-iface is missing`},
		"a VLAN on itself":                 {head + "- name: v\n  type: vlan\n  vlan: {base-iface: v, id: 5}", `interfaces[1].vlan.base-iface is "v"`},
		"a VLAN with too long a name":      {head + "- name: enp129s0f0np0.100\n  type: vlan\n  vlan: {base-iface: eth0, id: 100}", `interfaces[1].name is "enp129s0f0np0.100"; Linux takes names of up to 15 characters`},
		"a route to nowhere":               {head + "routes: {config: [{next-hop-interface: eth0}]}", `routes.config[0] (line 4) needs a destination such as 0.0.0.0/0`},
		"a destination that is none":       {head + "routes: {config: [{destination: default, next-hop-interface: eth0}]}", `routes.config[0].destination (line 4) is "default"; a destination looks like`},
		"a gateway of the other family":    {head + "routes: {config: [{destination: 0.0.0.0/0, next-hop-address: '::1', next-hop-interface: eth0}]}", `routes.config[0].next-hop-address (line 4) is "::1", which is no IPv4 address`},
		"a route through nothing":          {head + "routes: {config: [{destination: 0.0.0.0/0, next-hop-interface: eht0}]}", `routes.config[0].next-hop-interface is "eht0", which is no interface of this description`},
		"a route where there is no IPv4":   {head + "routes: {config: [{destination: 0.0.0.0/0, next-hop-interface: eth0}]}", `routes.config[0].next-hop-interface is "eth0", which has no IPv4 addresses`},
		"a name server that is a name":     {head + "dns-resolver: {config: {server: [ns.example]}}", `dns-resolver.config.server[0] (line 4) is "ns.example", which is no address of a name server`},
		"aliases that grow beyond measure": {"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f]\ninterfaces: [{name: eth0}]", `excessive aliasing`},
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

func TestFieldsBeyondKeyfilesAreNamed(t *testing.T) {
	const head = "interfaces:\n- name: eth0\n  ipv4: {enabled: true, dhcp: true}\n"
	for want, text := range map[string]string{
		"interfaces[0].ethtool":                       head + "  ethtool: {feature: {rx-gro: true}}",
		"interfaces[0].state":                         head + "  state: down",
		"interfaces[0].ethernet.sr-iov":               head + "  ethernet: {sr-iov: {total-vfs: 2}}",
		"interfaces[1].type linux-bridge":             head + "- name: br0\n  type: linux-bridge",
		"interfaces[1].vlan.protocol":                 head + "- name: v\n  type: vlan\n  vlan: {base-iface: eth0, id: 5, protocol: 802.1ad}",
		"interfaces[1].link-aggregation.ports-config": head + "- name: b\n  type: bond\n  link-aggregation: {mode: 1, port: [eno1], ports-config: [{name: eno1}]}",
		"routes.config[0].cwnd":                       head + "routes: {config: [{destination: 10.0.0.0/8, next-hop-interface: eth0, cwnd: 20}]}",
		"routes.config[0].next-hop-interface":         head + "routes: {config: [{destination: 10.0.0.0/8, next-hop-address: 192.0.2.1}]}",
		"route-rules":                                 head + "route-rules: {config: [{ip-to: 192.0.2.0/24}]}",
		"hostname":                                    head + "hostname: {config: h}",
		"dns-resolver.config.server 2001:db8::1":      head + "dns-resolver: {config: {server: ['2001:db8::1']}}",
	} {
		t.Run(want, func(t *testing.T) {
			state, err := parseState(text, []NetworkInterface{{MAC: "52:54:00:00:00:01", Name: "eth0"}})
			require.NoError(t, err)
			_, err = state.keyfiles("", nil)
			require.ErrorContains(t, err, want+" can't be said in NetworkManager's keyfiles")
		})
	}
}

// Nothing that a description says may start a section or a key of its own in a keyfile, and the same description gives the
// same files.
func FuzzKeyfiles(f *testing.F) {
	f.Add(richHost().YAML)
	f.Add(bondedHost().YAML)
	f.Add(taggedHost().YAML)
	f.Add(bridgedHost("52:54:00:00:00:01").YAML)
	f.Add("interfaces:\n- &a {name: eth0}\n- *a\n")
	cards := []NetworkInterface{{MAC: "52:54:00:00:00:01", Name: "eth0"}, {MAC: "52:54:00:00:00:02", Name: "eth1"}, {MAC: "52:54:00:00:00:03", Name: "eth2"}}
	sections := []string{"[connection]", "[ethernet]", "[bond]", "[vlan]", "[ipv4]", "[ipv6]"}
	f.Fuzz(func(t *testing.T, text string) {
		state, err := parseState(text, cards)
		if err != nil {
			require.NotContains(t, err.Error(), "\x00")
			return
		}
		files, err := state.keyfiles("host0-", cards)
		again, errAgain := parseState(text, cards)
		require.NoError(t, errAgain)
		twice, errTwice := again.keyfiles("host0-", cards)
		require.Equal(t, err, errTwice)
		require.Equal(t, files, twice)
		for _, file := range files {
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
		if _, err := nmPolicy(text, cards); err != nil {
			require.NotEmpty(t, err.Error())
		}
	})
}

// The files that people have: those of bare sites become keyfiles, whatever is beyond is named.
func TestNetworkDescriptionsOfTheField(t *testing.T) {
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
				cards := []NetworkInterface{{MAC: "52:54:00:00:00:01", Name: field(field(&h, "interfaces").Content[0], "name").Value}}
				for _, m := range meta.Map {
					cards = append(cards, NetworkInterface{MAC: m.MAC, Name: m.Name})
				}
				h.Content = slices.DeleteFunc(h.Content, func(n *yaml.Node) bool { return n == field(&h, "mac_interface_map") || n.Value == "mac_interface_map" })
				text, err := yaml.Marshal(&h)
				require.NoError(t, err)
				state, err := parseState(string(text), cards)
				require.NoError(t, err, "%s, host %d", name, i)
				files, err := state.keyfiles("", cards)
				require.NoError(t, err, "%s, host %d", name, i)
				require.NotEmpty(t, files)
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
						cards, err := host.cards()
						require.NoError(t, err, path)
						state, err := parseState(host.YAML, cards)
						require.NoError(t, err, "%s\n%s", path, host.YAML)
						_, err = state.keyfiles("", cards)
						require.NoError(t, err, "%s\n%s", path, host.YAML)
					}
				}
			}
		}
		require.Greater(t, found, 3)
	})
	t.Run("nmstate's own examples", func(t *testing.T) {
		paths, err := filepath.Glob(filepath.Join(dir, "nmstate", "*.yml"))
		require.NoError(t, err)
		require.NotEmpty(t, paths)
		cards := []NetworkInterface{{MAC: "52:54:00:00:00:01", Name: "eth1"}, {MAC: "52:54:00:00:00:02", Name: "eth2"}}
		converted := 0
		for _, path := range paths {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			state, err := parseState(string(text), cards)
			if err == nil {
				_, err = state.keyfiles("", cards)
			}
			if err == nil {
				converted++
				continue
			}
			require.Regexp(t, `(can't be said in NetworkManager's keyfiles|no list of interfaces)`, err.Error(), filepath.Base(path))
		}
		require.Equal(t, 2, converted, "the others have bridges, tunnels, rules or take away what is there")
	})
}

// hostNetworks finds the descriptions in a document: mappings with the state as config and the cards as interfaces.
func hostNetworks(t *testing.T, n *yaml.Node) []HostNetwork {
	t.Helper()
	var all []HostNetwork
	if n.Kind == yaml.MappingNode {
		config, interfaces := field(n, "config"), field(n, "interfaces")
		if config != nil && interfaces != nil && interfaces.Kind == yaml.SequenceNode {
			var cards []struct {
				Name string `yaml:"name"`
				MAC  string `yaml:"macAddress"`
			}
			require.NoError(t, interfaces.Decode(&cards))
			text, err := yaml.Marshal(config)
			require.NoError(t, err)
			host := HostNetwork{YAML: string(text)}
			for _, card := range cards {
				host.Interfaces = append(host.Interfaces, NetworkInterface{MAC: card.MAC, Name: card.Name})
			}
			return []HostNetwork{host}
		}
	}
	for _, child := range n.Content {
		all = append(all, hostNetworks(t, child)...)
	}
	return all
}
