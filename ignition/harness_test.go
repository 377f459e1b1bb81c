package ignition

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coreos/ignition/v2/config/util"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "overwrite the golden files")

func minimal() DiscoveryConfig {
	return DiscoveryConfig{
		InfraEnvID: "5f6a1f3c-8f0e-4d0a-9a77-0b2f3c1d4e5f",
		ServiceURL: "http://192.0.2.10:8090",
		AgentImage: "quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:" + strings.Repeat("ab", 32),
	}
}

func full() DiscoveryConfig {
	c := minimal()
	c.ServiceURL = "https://landfall.site.example:8443/"
	c.PullSecretToken = `tok%en "with" \ and $HOME`
	c.PullSecret = `{"auths":{"mirror.site.example:5000":{"auth":"dTpw"}}}`
	c.ServiceCA = []byte(testCA)
	c.TrustBundle = []byte(testCA)
	c.RegistriesConf = []byte("[[registry]]\nlocation = \"quay.io/openshift-release-dev\"\n")
	c.PolicyJSON = []byte(`{"default":[{"type":"insecureAcceptAnything"}]}`)
	c.Proxy = Proxy{HTTP: "http://user:p%40ss@proxy.site.example:3128", HTTPS: "http://proxy.site.example:3128",
		No: "mirror.site.example,.site.example, 192.0.2.0/24"}
	c.SSHKeys = []string{"ssh-ed25519 AAAA one\n\nssh-ed25519 BBBB two\n", "ssh-ed25519 AAAA one"}
	c.NTPSources = []string{"ntp1.site.example", "2001:db8::7"}
	c.OpenshiftVersion = "4.20.1"
	c.StaticNetwork = []HostNetwork{bondedHost()}
	return c
}

func bondedHost() HostNetwork {
	return HostNetwork{
		YAML: `interfaces:
- name: bond0
  type: bond
  state: up
  link-aggregation: {mode: 802.3ad, port: [eth0, eth1]}
  ipv4: {enabled: true, address: [{ip: 192.0.2.21, prefix-length: 24}]}
  ipv6: {enabled: true, dhcp: true}
- name: eth0
  type: ethernet
- name: eth1
  type: ethernet
- name: eth0.7
  type: vlan
  vlan: {base-iface: eth0, id: 7}
routes:
  config:
  - {destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: bond0}
`,
		Interfaces: []NetworkInterface{{MAC: "52:54:00:00:00:0b", Name: "eth1"},
			{MAC: "52:54:00:00:00:0a", Name: "eth0"}},
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "run the test with -update if the change is intended")
}

// describe returns a readable form of a config, for golden files.
func describe(t *testing.T, raw []byte) string {
	t.Helper()
	c, err := parseLifted(raw)
	require.NoError(t, err)
	version, err := Version(raw)
	require.NoError(t, err)
	var b strings.Builder
	fmt.Fprintf(&b, "Ignition spec %s\n", version)
	for _, u := range c.Passwd.Users {
		fmt.Fprintf(&b, "\nuser %s, groups %v, keys:\n", u.Name, u.Groups)
		for _, k := range u.SSHAuthorizedKeys {
			fmt.Fprintf(&b, "  %s\n", k)
		}
	}
	for _, u := range c.Systemd.Units {
		fmt.Fprintf(&b, "\n===== unit %s, enabled: %v\n%s", u.Name, util.IsTrue(u.Enabled), deref(u.Contents))
	}
	files := slices.Clone(c.Storage.Files)
	for _, f := range files {
		data, err := resource(f.Contents)
		require.NoError(t, err)
		mode := "unset"
		if f.Mode != nil {
			mode = fmt.Sprintf("%04o", *f.Mode)
		}
		fmt.Fprintf(&b, "\n===== file %s, mode %s\n%s", f.Path, mode, strings.TrimRight(string(data), "\n")+"\n")
	}
	return b.String()
}

func config(version, rest string) []byte {
	return fmt.Appendf(nil, `{"ignition":{"version":%q}%s}`, version, rest)
}

// machine is a root file system with NICs, and a nmstatectl that records its calls.
type machine struct{ root, bin string }

func newMachine(t *testing.T, macs ...string) *machine {
	t.Helper()
	m := &machine{root: t.TempDir(), bin: t.TempDir()}
	for i, mac := range macs {
		m.write(t, filepath.Join("sys/class/net", "ens"+string(rune('0'+i)), "address"), mac+"\n", 0o644)
	}
	require.NoError(t, os.WriteFile(filepath.Join(m.bin, "nmstatectl"), []byte("#!/bin/sh\necho nmstatectl \"$@\"\n"),
		0o755))
	require.NoError(t, os.WriteFile(filepath.Join(m.bin, "sleep"), []byte("#!/bin/sh\n"), 0o755))
	return m
}

func (m *machine) write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	path = filepath.Join(m.root, path)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), mode))
}

func (m *machine) run(t *testing.T, script string, args ...string) string {
	t.Helper()
	path := filepath.Join(m.root, "script")
	require.NoError(t, os.WriteFile(path, []byte(script), 0o755))
	cmd := exec.CommandContext(t.Context(), "bash", append([]string{path}, args...)...)
	cmd.Env = []string{"PATH=" + m.bin + ":" + os.Getenv("PATH"), "STATIC_NETWORK_ROOT=" + m.root,
		"STATIC_NETWORK_ATTEMPTS=2"}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// switchedHost has fields that keyfiles do not support.
func switchedHost(mac string) HostNetwork {
	return HostNetwork{
		YAML:       "interfaces:\n- name: eth0\n- name: br0\n  type: ovs-bridge\n  bridge: {port: [{name: eth0}]}\n",
		Interfaces: []NetworkInterface{{MAC: mac, Name: "eth0"}},
	}
}

func bridgedHost(mac string) HostNetwork {
	return HostNetwork{
		YAML: "interfaces:\n- name: eth0\n- name: br0\n  type: linux-bridge\n  bridge: {port: [{name: " +
			"eth0}]}\n  ipv4: {enabled: true, dhcp: true}\n",
		Interfaces: []NetworkInterface{{MAC: mac, Name: "eth0"}},
	}
}

func discovered(t *testing.T, c DiscoveryConfig) *Discovered {
	t.Helper()
	raw, err := Discovery(c)
	require.NoError(t, err)
	d, err := ReadDiscovery(raw)
	require.NoError(t, err)
	return d
}

// list returns the names of the files in a directory of the machine.
func (m *machine) list(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(m.root, dir, "*"))
	require.NoError(t, err)
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	return files
}
