package ignition

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStaticNetwork_refusals(t *testing.T) {
	eth := func(mac, name, yaml string) HostNetwork {
		return HostNetwork{YAML: yaml, Interfaces: []NetworkInterface{{MAC: mac, Name: name}}}
	}
	const good = "interfaces:\n- name: eth0\n"
	const addressed = good + "  ipv4: {address: [{ip: 192.0.2.7, prefix-length: 24}]}\n"
	const switched = good + "- name: br0\n  type: ovs-bridge\n"
	for name, tc := range map[string]struct {
		hosts   []HostNetwork
		version string
		want    string
	}{
		"a virtual switch on an OpenShift without the nmstate service": {[]HostNetwork{eth("52:54:00:00:00:01",
			"eth0", switched)}, "4.17.9",
			`static network: host 0: interfaces[1].type (line 4) is "ovs-bridge", which is not supported by NetworkManager's keyfiles, the only format that OpenShift 4.17.9 supports; leave out the field, or use 4.18 or newer`},
		"a host without NICs": {[]HostNetwork{{YAML: good}}, "",
			"host 0: no NIC has a MAC address"},
		"more NICs than the limit": {[]HostNetwork{{YAML: good, Interfaces: make([]NetworkInterface, 1001)}},
			"", "host 0: 1001 NICs have a logical name; the maximum per host is 1000"},
		"an invalid MAC": {[]HostNetwork{eth("52:54:00", "eth0", good)}, "",
			`host 0: the MAC address "52:54:00" of "eth0" must look like`},
		"a MAC of eight bytes": {[]HostNetwork{eth("52:54:00:00:00:00:00:01", "eth0", good)},
			"", "must look like"},
		"a NIC without a name": {[]HostNetwork{eth("52:54:00:00:00:01", "", good)}, "",
			`the logical name "" of 52:54:00:00:00:01`},
		"a MAC twice in a host": {[]HostNetwork{{YAML: good,
			Interfaces: []NetworkInterface{{"52:54:00:00:00:0a", "eth0"}, {"52-54-00-00-00-0A", "eth1"}}}}, "",
			`the MAC address 52:54:00:00:00:0A is given twice, for "eth0" and "eth1"`},
		"a name twice in a host": {[]HostNetwork{{YAML: good,
			Interfaces: []NetworkInterface{{"52:54:00:00:00:01", "eth0"}, {"52:54:00:00:00:02", "eth0"}}}}, "",
			`the logical name "eth0" is given twice`},
		"a MAC in two hosts": {[]HostNetwork{eth("52:54:00:00:00:01", "eth0", good),
			eth("52:54:00:00:00:01", "eth0", good)}, "",
			"host 1: the MAC address 52:54:00:00:00:01 already belongs to host 0"},
		"an address in two hosts": {
			[]HostNetwork{eth("52:54:00:00:00:01", "eth0", addressed), eth("52:54:00:00:00:02", "eth0", addressed)}, "",
			"host 1: interfaces[0].ipv4.address[0].ip (line 3) is 192.0.2.7, which is already an address of eth0 of " +
				"host 0",
		},
		"invalid YAML": {[]HostNetwork{bondedHost(), eth("52:54:00:00:00:01", "eth0", "interfaces: [")},
			"", "host 1: the network YAML can't be read: yaml: line 1"},
		"YAML without a mapping": {[]HostNetwork{eth("52:54:00:00:00:01", "eth0", "abc")},
			"", "host 0: the network YAML must be a mapping"},
		"YAML without interfaces": {[]HostNetwork{eth("52:54:00:00:00:01", "eth0", "routes: {}")},
			"", "host 0: the network YAML has no list of interfaces"},
		"an interface that is not a mapping": {[]HostNetwork{eth("52:54:00:00:00:01", "eth0", "interfaces:\n- eth0")},
			"", "host 0: interfaces[0] (line 2) must be a mapping with the name of an interface"},
		"a NIC without a MAC": {[]HostNetwork{eth("52:54:00:00:00:01", "eth9", good)}, "",
			`host 0: interfaces[0].name (line 2) is "eth0", which has no MAC address in mac_interface_map and is not a name that Linux gives to a NIC`},
		"a name that is not in the YAML": {[]HostNetwork{eth("52:54:00:00:00:01", "eth9",
			"interfaces:\n- name: eno1\n")}, "",
			`host 0: interfaces (line 1) contain none of the names in mac_interface_map, such as "eth9"`},
	} {
		t.Run(name, func(t *testing.T) {
			c := minimal()
			c.StaticNetwork, c.OpenshiftVersion = tc.hosts, tc.version
			_, err := Discovery(c)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestStaticNetwork_internalAddressesMayRepeat(t *testing.T) {
	const yaml = `interfaces:
- name: eth0
  ipv6: {address: [{ip: fe80::1, prefix-length: 64}]}
- name: virbr0
  type: linux-bridge
  ipv4: {address: [{ip: 192.168.122.1, prefix-length: 24}]}
`
	c := minimal()
	c.StaticNetwork = []HostNetwork{
		{YAML: yaml, Interfaces: []NetworkInterface{{MAC: "52:54:00:00:00:01", Name: "eth0"}}},
		{YAML: yaml, Interfaces: []NetworkInterface{{MAC: "52:54:00:00:00:02", Name: "eth0"}}},
	}
	_, err := Discovery(c)
	require.NoError(t, err)
}

func TestPreviewNetwork_doubtfulGateways(t *testing.T) {
	for name, tt := range map[string]struct {
		address, gateway, also string
		want                   bool
	}{
		"a neighbour":                     {"192.0.2.10, prefix-length: 24", "192.0.2.1", "", false},
		"outside of the network":          {"192.0.2.10, prefix-length: 24", "192.0.3.1", "", true},
		"outside of a network of one":     {"192.0.2.10, prefix-length: 32", "192.0.3.1", "", false},
		"with a route to it":              {"192.0.2.10, prefix-length: 24", "192.0.3.1", "192.0.3.1/32", false},
		"with a route to another address": {"192.0.2.10, prefix-length: 24", "192.0.3.1", "192.0.3.2/32", true},
	} {
		t.Run(name, func(t *testing.T) {
			text := "interfaces:\n- name: eth0\n  ipv4: {address: [{ip: " + tt.address + "}]}\nroutes:\n  config:\n" +
				"  - {destination: 0.0.0.0/0, next-hop-interface: eth0, next-hop-address: " + tt.gateway + "}\n"
			if tt.also != "" {
				text += "  - {destination: " + tt.also + ", next-hop-interface: eth0}\n"
			}
			host := HostNetwork{YAML: text, Interfaces: []NetworkInterface{{MAC: "52:54:00:00:00:01", Name: "eth0"}}}
			preview, err := PreviewNetwork([]HostNetwork{host}, "4.20", nil)
			require.NoError(t, err)
			require.Nil(t, preview.Hosts[0].Fault)
			require.Equal(t, tt.want, len(preview.Hosts[0].Doubts) == 1)
			require.NoError(t, CheckNetwork([]HostNetwork{host}, "4.20", nil))
		})
	}
}

func TestPreviewNetwork(t *testing.T) {
	broken := HostNetwork{YAML: "interfaces:\n- name: eth0\n  mtu: many\n",
		Interfaces: []NetworkInterface{{MAC: "52:54:00:00:00:77", Name: "eth0"}}}
	vip := Claims{
		netip.MustParseAddr("192.0.2.31"): {Owner: "the API VIP of cluster demo"},
		// the same machine
		netip.MustParseAddr("192.0.2.10"): {Owner: "given to host 0 of another infra-env",
			MACs: []string{"52:54:00:00:00:02"}},
	}
	preview, err := PreviewNetwork([]HostNetwork{richHost(), broken, taggedHost()}, "4.17", vip)
	require.NoError(t, err)
	require.Equal(t, "keyfiles", preview.Form)
	require.Nil(t, preview.Hosts[0].Fault)
	require.Len(t, preview.Hosts[0].Files, 4)
	require.Equal(t, StaticAddress{Host: 0, Interface: "eth0", Field: "interfaces[0].ipv4.address[0].ip",
		Address: netip.MustParsePrefix("192.0.2.10/24"), MACs: []string{"52:54:00:00:00:01", "52:54:00:00:00:02",
			"52:54:00:00:00:03"}}, preview.Hosts[0].Addresses[0])
	require.EqualError(t, preview.Hosts[1].Fault,
		`host 1: interfaces[0].mtu (line 3) is "many"; it must be a whole number from 68 to 65535`)
	require.EqualError(t, preview.Hosts[2].Fault,
		"host 2: interfaces[1].ipv4.address[0].ip (line 13) is 192.0.2.31, which is the API VIP of cluster demo")
	require.ErrorContains(t, CheckNetwork([]HostNetwork{taggedHost()}, "", vip),
		"static network: host 0: interfaces[1].ipv4.address[0].ip (line 13) is 192.0.2.31, which is the API VIP of "+
			"cluster demo")

	require.Len(t, StaticAddresses([]HostNetwork{broken, taggedHost()}), 1)

	preview, err = PreviewNetwork([]HostNetwork{taggedHost(), switchedHost("52:54:00:00:00:01")}, "", nil)
	require.NoError(t, err)
	require.Equal(t, "policy", preview.Form)
	require.Equal(t, preview.Hosts[1].Beyond, preview.Beyond)
	require.Contains(t, string(preview.Hosts[0].Files[0].Data), `interfaces.mac-address == "52:54:00:00:00:0D"`)
	require.Contains(t, string(preview.Hosts[1].Files[0].Data), `{{ capture.iface0.interfaces.0.name }}`)
}

func TestNetworkScript_appliesOwnPolicy(t *testing.T) {
	c := minimal()
	c.StaticNetwork = []HostNetwork{bondedHost(), switchedHost("52:54:00:00:00:0c")}
	d := discovered(t, c)
	script, ok := d.File(staticNetworkPath)
	require.True(t, ok)
	settings := func(m *machine) *machine {
		for _, f := range []string{"host0/mac_interface.ini", "host0/ymlFile0.yml", "host1/mac_interface.ini",
			"host1/ymlFile1.yml"} {
			data, ok := d.File(staticNetworkDir + "/" + f)
			require.True(t, ok, f)
			m.write(t, staticNetworkDir+"/"+f, string(data), 0o600)
		}
		return m
	}

	t.Run("both NICs of the first host", func(t *testing.T) {
		m := settings(newMachine(t, "52:54:00:00:00:0a", "52:54:00:00:00:0b"))
		require.Contains(t, m.run(t, string(script)), "nmstatectl service")
		require.Equal(t, []string{"ymlFile0.yml"}, m.list(t, "etc/nmstate"))
	})
	t.Run("the NIC of the second host", func(t *testing.T) {
		m := settings(newMachine(t, "00:00:00:00:00:01", "52:54:00:00:00:0c"))
		require.Contains(t, m.run(t, string(script)), "nmstatectl service")
		require.Equal(t, []string{"ymlFile1.yml"}, m.list(t, "etc/nmstate"))
	})
	t.Run("one of two NICs, after waiting for the other", func(t *testing.T) {
		m := settings(newMachine(t, "52:54:00:00:00:0b"))
		require.Contains(t, m.run(t, string(script)), "nmstatectl service")
		require.Equal(t, []string{"ymlFile0.yml"}, m.list(t, "etc/nmstate"))
	})
	t.Run("a host without a description keeps DHCP", func(t *testing.T) {
		m := settings(newMachine(t, "00:00:00:00:00:01"))
		out := m.run(t, string(script))
		require.Contains(t, out, "it stays with DHCP")
		require.NotContains(t, out, "nmstatectl")
		require.Empty(t, m.list(t, "etc/nmstate"))
	})
}

func TestNetworkScript_copiesOwnKeyfiles(t *testing.T) {
	c := minimal()
	c.StaticNetwork = []HostNetwork{bondedHost(), {YAML: "interfaces:\n- name: eth0\n",
		Interfaces: []NetworkInterface{{MAC: "52:54:00:00:00:0c", Name: "eth0"}}}}
	files, err := InitrdFiles(c)
	require.NoError(t, err)
	var script string
	settings := func(m *machine) *machine {
		for _, f := range files {
			m.write(t, f.Path, string(f.Data), os.FileMode(f.Mode))
			if "/"+f.Path == staticNetworkPath {
				script = string(f.Data)
			}
		}
		return m
	}
	bond := []string{"bond0.nmconnection", "eth0.7.nmconnection", "eth0.nmconnection", "eth1.nmconnection"}

	t.Run("in the live system", func(t *testing.T) {
		m := settings(newMachine(t, "52:54:00:00:00:0b"))
		require.NotContains(t, m.run(t, script), "nmstatectl")
		require.Equal(t, bond, m.list(t, "etc/NetworkManager/system-connections"))
		info, err := os.Stat(filepath.Join(m.root, "etc/NetworkManager/system-connections/bond0.nmconnection"))
		require.NoError(t, err)
		require.EqualValues(t, 0o600, info.Mode().Perm(), "NetworkManager rejects files that others may read")
	})
	t.Run("with this machine's interface names", func(t *testing.T) {
		c.StaticNetwork = []HostNetwork{trunkHost()}
		files, err = InitrdFiles(c)
		require.NoError(t, err)
		m := settings(newMachine(t, "52:54:00:00:00:0f", "52:54:00:00:00:0e", "52:54:00:00:00:0d"))
		// The machine's kernel names are names of other NICs in the description.
		for was, is := range map[string]string{"ens0": "eth1", "ens1": "eth0", "ens2": "eth2"} {
			require.NoError(t, os.Rename(filepath.Join(m.root, "sys/class/net", was),
				filepath.Join(m.root, "sys/class/net", is)))
		}
		m.run(t, script)
		dir := filepath.Join(m.root, "etc/NetworkManager/system-connections")
		bond, err := os.ReadFile(filepath.Join(dir, "bond0.nmconnection"))
		require.NoError(t, err)
		require.Contains(t, string(bond), "\nprimary=eth2\n")
		bridge, err := os.ReadFile(filepath.Join(dir, "br-ex.nmconnection"))
		require.NoError(t, err)
		require.Contains(t, string(bridge), " iif eth1 table 254\n")
	})
	t.Run("in the initial RAM file system", func(t *testing.T) {
		c.StaticNetwork[0] = bondedHost()
		c.StaticNetwork = append(c.StaticNetwork, HostNetwork{YAML: "interfaces:\n- name: eth0\n",
			Interfaces: []NetworkInterface{{MAC: "52:54:00:00:00:0c", Name: "eth0"}}})
		files, err = InitrdFiles(c)
		require.NoError(t, err)
		m := settings(newMachine(t, "52:54:00:00:00:0c"))
		m.write(t, "etc/initrd-release", "", 0o644)
		m.run(t, script)
		require.Equal(t, []string{"eth0.nmconnection"}, m.list(t, "etc/coreos-firstboot-network"))
		require.Empty(t, m.list(t, "etc/NetworkManager/system-connections"))
	})
	t.Run("a host without a description keeps DHCP", func(t *testing.T) {
		m := settings(newMachine(t, "00:00:00:00:00:01"))
		require.Contains(t, m.run(t, script), "it stays with DHCP")
		require.Empty(t, m.list(t, "etc/NetworkManager/system-connections"))
	})
}

func TestPullAgent_retriesUntilPulled(t *testing.T) {
	m := newMachine(t)
	// The second pull succeeds; a third pull is not needed.
	podman := `#!/bin/sh
echo "podman $*"
if [ "$1" = image ]; then test -f ` + m.root + `/pulled; exit; fi
if [ -f ` + m.root + `/tried ]; then touch ` + m.root + `/pulled; exit 0; fi
touch ` + m.root + `/tried; exit 125
`
	require.NoError(t, os.WriteFile(filepath.Join(m.bin, "podman"), []byte(podman), 0o755))
	out := m.run(t, pullAgentScript, "quay.io/agent:1")
	require.Equal(t, 2, strings.Count(out, "podman pull quay.io/agent:1"), out)
	require.Contains(t, out, "the next attempt follows in 5 seconds")
	require.NotContains(t, m.run(t, pullAgentScript, "quay.io/agent:1"), "podman pull")
}

// The Assisted Installer's UI stores unfinished descriptions, which change nothing.
func TestStaticNetwork_unfinishedDescriptions(t *testing.T) {
	const (
		initial = `#generated by ui form view
interfaces:
  - name: DUMMY4
    type: ethernet
    state: up
    ipv4:
      address:
        - ip: 0.0.0.0
          prefix-length: 24
      enabled: true
      dhcp: false
`
		tagged = `#generated by ui form view
#ipv4MachineNetwork 192.0.2.0/24
interfaces:
  - name: DUMMY4.100
    type: vlan
    state: up
    vlan: {base-iface: DUMMY4, id: 100}
    ipv4: {address: [{ip: 0.0.0.0, prefix-length: 24}], enabled: true, dhcp: false}
dns-resolver: {config: {server: [192.0.2.53]}}
routes:
  config:
    - {destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: DUMMY4.100, table-id: 254}
`
		dualStack = `interfaces:
  - name: DUMMY4
    ipv4: {address: [{ip: 0.0.0.0, prefix-length: 24}], enabled: true, dhcp: false}
  - name: DUMMY6
    ipv6: {address: [{ip: '0::0', prefix-length: 64}], enabled: true, dhcp: false}
`
	)
	nics := []NetworkInterface{{MAC: "01:23:45:67:89:AB", Name: "DUMMY4"}, {MAC: "01:23:45:67:89:AC", Name: "DUMMY6"}}
	discovery := func(hosts ...HostNetwork) string {
		c := minimal()
		c.StaticNetwork = hosts
		config, err := Discovery(c)
		require.NoError(t, err)
		return string(config)
	}
	for name, unfinished := range map[string]HostNetwork{
		"initial":    {YAML: initial, Interfaces: nics[:1]},
		"with VLAN":  {YAML: tagged, Interfaces: nics[:1]},
		"dual stack": {YAML: dualStack, Interfaces: nics},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, discovery(), discovery(unfinished))
			require.Empty(t, StaticAddresses([]HostNetwork{unfinished}))
			for _, finished := range []HostNetwork{richHost(), taggedHost(), switchedHost("52:54:00:00:00:01")} {
				require.Equal(t, discovery(finished), discovery(finished, unfinished))
				preview, err := PreviewNetwork([]HostNetwork{unfinished, finished}, "", nil)
				require.NoError(t, err)
				require.Equal(t, HostPreview{}, preview.Hosts[0])
				require.Nil(t, preview.Hosts[1].Fault)
				require.NotEmpty(t, preview.Hosts[1].Files)
			}
		})
	}
}
