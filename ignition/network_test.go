package ignition

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func TestStaticNetworkRefuses(t *testing.T) {
	eth := func(mac, name, yaml string) HostNetwork {
		return HostNetwork{YAML: yaml, Interfaces: []NetworkInterface{{MAC: mac, Name: name}}}
	}
	const good = "interfaces:\n- name: eth0\n"
	for name, tc := range map[string]struct {
		hosts   []HostNetwork
		version string
		want    string
	}{
		"an OpenShift without the nmstate service": {[]HostNetwork{bondedHost()}, "4.17.9",
			"static network: OpenShift 4.17.9 needs NetworkManager keyfiles, which are not supported yet; use DHCP or OpenShift 4.18 or newer"},
		"a host without cards":      {[]HostNetwork{{YAML: good}}, "", "host 0: no network card is named by its MAC address"},
		"a MAC that is none":        {[]HostNetwork{eth("52:54:00", "eth0", good)}, "", `host 0: the MAC address "52:54:00" of "eth0" must look like`},
		"a MAC of eight bytes":      {[]HostNetwork{eth("52:54:00:00:00:00:00:01", "eth0", good)}, "", "must look like"},
		"a card without name":       {[]HostNetwork{eth("52:54:00:00:00:01", "", good)}, "", `the logical name "" of 52:54:00:00:00:01`},
		"a MAC twice in a host":     {[]HostNetwork{{YAML: good, Interfaces: []NetworkInterface{{"52:54:00:00:00:0a", "eth0"}, {"52-54-00-00-00-0A", "eth1"}}}}, "", `the MAC address 52:54:00:00:00:0A is given twice, for "eth0" and "eth1"`},
		"a name twice in a host":    {[]HostNetwork{{YAML: good, Interfaces: []NetworkInterface{{"52:54:00:00:00:01", "eth0"}, {"52:54:00:00:00:02", "eth0"}}}}, "", `the logical name "eth0" is given twice`},
		"a MAC in two hosts":        {[]HostNetwork{eth("52:54:00:00:00:01", "eth0", good), eth("52:54:00:00:00:01", "eth0", good)}, "", "host 1: the MAC address 52:54:00:00:00:01 belongs to host 0 already"},
		"YAML that is none":         {[]HostNetwork{bondedHost(), eth("52:54:00:00:00:01", "eth0", "interfaces: [")}, "", "host 1: the network YAML can't be read: yaml: line 1"},
		"YAML that is a text":       {[]HostNetwork{eth("52:54:00:00:00:01", "eth0", "abc")}, "", "host 0: the network YAML must be a mapping"},
		"YAML without interfaces":   {[]HostNetwork{eth("52:54:00:00:00:01", "eth0", "routes: {}")}, "", "host 0: the network YAML has no list of interfaces"},
		"an interface that is none": {[]HostNetwork{eth("52:54:00:00:00:01", "eth0", "interfaces:\n- eth0")}, "", "host 0: the network YAML, line 2: an interface must be a mapping"},
		"a name the YAML has not":   {[]HostNetwork{eth("52:54:00:00:00:01", "eth9", good)}, "", `host 0: the network YAML has no interface "eth9", which 52:54:00:00:00:01 is named`},
	} {
		t.Run(name, func(t *testing.T) {
			c := minimal()
			c.StaticNetwork, c.OpenshiftVersion = tc.hosts, tc.version
			_, err := Discovery(c)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestStaticNetworkReadsTheFilesPeopleHave(t *testing.T) {
	dir := os.Getenv("LANDFALL_REALDATA")
	if dir == "" {
		t.Skip("LANDFALL_REALDATA is not set")
	}
	raw, err := os.ReadFile(filepath.Join(dir, "aicli", "static_network_config.yml"))
	require.NoError(t, err)
	var file struct {
		Hosts []yaml.Node `yaml:"static_network_config"`
	}
	require.NoError(t, yaml.Unmarshal(raw, &file))
	require.NotEmpty(t, file.Hosts)
	for _, h := range file.Hosts {
		text, err := yaml.Marshal(&h)
		require.NoError(t, err)
		name := field(field(&h, "interfaces").Content[0], "name").Value
		_, err = nmPolicy(string(text), []NetworkInterface{{MAC: "52:54:00:00:00:01", Name: name}})
		require.NoError(t, err)
	}
}

// machine is a root file system with network cards, and a nmstatectl that notes how it was called.
type machine struct{ root, bin string }

func newMachine(t *testing.T, macs ...string) *machine {
	t.Helper()
	m := &machine{root: t.TempDir(), bin: t.TempDir()}
	for i, mac := range macs {
		m.write(t, filepath.Join("sys/class/net", "ens"+string(rune('0'+i)), "address"), mac+"\n", 0o644)
	}
	require.NoError(t, os.WriteFile(filepath.Join(m.bin, "nmstatectl"), []byte("#!/bin/sh\necho nmstatectl \"$@\"\n"), 0o755))
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
	cmd.Env = []string{"PATH=" + m.bin + ":" + os.Getenv("PATH"), "STATIC_NETWORK_ROOT=" + m.root, "STATIC_NETWORK_ATTEMPTS=2"}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

func TestAMachineAppliesTheSettingsOfItsOwnCards(t *testing.T) {
	c := minimal()
	c.StaticNetwork = []HostNetwork{
		bondedHost(),
		{YAML: "interfaces:\n- name: eth0\n", Interfaces: []NetworkInterface{{MAC: "52:54:00:00:00:0c", Name: "eth0"}}},
	}
	raw, err := Discovery(c)
	require.NoError(t, err)
	d, err := ReadDiscovery(raw)
	require.NoError(t, err)
	script, ok := d.File("/usr/local/bin/static-network")
	require.True(t, ok)
	settings := func(m *machine) *machine {
		for _, f := range []string{"host0/mac_interface.ini", "host0/ymlFile0.yml", "host1/mac_interface.ini", "host1/ymlFile1.yml"} {
			data, ok := d.File(staticNetworkDir + "/" + f)
			require.True(t, ok, f)
			m.write(t, staticNetworkDir+"/"+f, string(data), 0o600)
		}
		return m
	}
	applied := func(m *machine) []string {
		files, err := filepath.Glob(filepath.Join(m.root, "etc/nmstate/*"))
		require.NoError(t, err)
		for i := range files {
			files[i] = filepath.Base(files[i])
		}
		return files
	}

	t.Run("both cards of the first", func(t *testing.T) {
		m := settings(newMachine(t, "52:54:00:00:00:0a", "52:54:00:00:00:0b"))
		require.Contains(t, m.run(t, string(script)), "nmstatectl service")
		require.Equal(t, []string{"ymlFile0.yml"}, applied(m))
	})
	t.Run("the card of the second", func(t *testing.T) {
		m := settings(newMachine(t, "00:00:00:00:00:01", "52:54:00:00:00:0c"))
		require.Contains(t, m.run(t, string(script)), "nmstatectl service")
		require.Equal(t, []string{"ymlFile1.yml"}, applied(m))
	})
	t.Run("one of two cards, after waiting for the other", func(t *testing.T) {
		m := settings(newMachine(t, "52:54:00:00:00:0b"))
		require.Contains(t, m.run(t, string(script)), "nmstatectl service")
		require.Equal(t, []string{"ymlFile0.yml"}, applied(m))
	})
	t.Run("a stranger keeps DHCP", func(t *testing.T) {
		m := settings(newMachine(t, "00:00:00:00:00:01"))
		out := m.run(t, string(script))
		require.Contains(t, out, "it stays with DHCP")
		require.NotContains(t, out, "nmstatectl")
		require.Empty(t, applied(m))
	})
}

func TestTheAgentsImageIsPulledUntilItIsThere(t *testing.T) {
	m := newMachine(t)
	// The second pull succeeds; what is there needs no third.
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
