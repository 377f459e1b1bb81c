package ignition

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pointer returns a role config of openshift-install. It contains only the reference to the machine
// config server.
func pointer(version, pool string) []byte {
	return []byte(`{"ignition":{"config":{"merge":[{"source":"https://192.0.2.5:22623/config/` + pool + `"}]},
		"security":{"tls":{"certificateAuthorities":[{"source":"data:text/plain;charset=utf-8;base64,YQ=="}]}},"version":"` + version + `"}}`)
}

func TestHostConfig_keepsVersionOfRole(t *testing.T) {
	for _, version := range []string{"3.1.0", "3.2.0", "3.6.0"} {
		raw, err := HostConfig(pointer(version, "master"), HostEdits{Hostname: "master-0", NodeIPHint: "192.0.2.0",
			Files: []File{{Path: "/etc/extra", Mode: 0o600, Data: []byte("x")}}})
		require.NoError(t, err)
		require.NoError(t, Validate(raw))
		got, err := Version(raw)
		require.NoError(t, err)
		require.Equal(t, version, got)
		require.Contains(t, string(raw), "https://192.0.2.5:22623/config/master")
		if version == "3.2.0" {
			golden(t, "host-master.txt", describe(t, raw))
		}
	}
}

func TestHostConfig_overridesWin(t *testing.T) {
	raw, err := HostConfig(pointer("3.2.0", "worker"), HostEdits{Hostname: "worker-0", Overrides: `{"ignition":{"version":"3.4.0"},
		"storage":{"files":[{"path":"/etc/hostname","contents":{"source":"data:,other"}}]}}`})
	require.NoError(t, err)
	require.Contains(t, describe(t, raw), "===== file /etc/hostname, mode 0644\nother\n")
	got, err := Version(raw)
	require.NoError(t, err)
	require.Equal(t, "3.4.0", got)
}

func TestHostConfig_machineConfigPool(t *testing.T) {
	raw, err := HostConfig(pointer("3.2.0", "worker"), HostEdits{Hostname: "worker-0", MachineConfigPool: "infra"})
	require.NoError(t, err)
	require.Contains(t, string(raw), "https://192.0.2.5:22623/config/infra")

	_, err = HostConfig(pointer("3.2.0", "master"), HostEdits{Hostname: "master-0", MachineConfigPool: "infra"})
	require.ErrorContains(t, err,
		`host master-0: Ignition config: $.ignition.config.merge: contains no worker config that the pool "infra" can replace`)
}

func TestHostConfig_refusals(t *testing.T) {
	_, err := HostConfig(pointer("3.2.0", "master"), HostEdits{})
	require.ErrorContains(t, err, `the host name "" cannot be written`)
	_, err = HostConfig([]byte("{"), HostEdits{Hostname: "h"})
	require.ErrorContains(t, err, "host h: Ignition config: line 1")
	_, err = HostConfig(pointer("3.2.0", "master"), HostEdits{Hostname: "h", Overrides: "{}"})
	require.ErrorContains(t, err, "host h: Ignition override: $.ignition.version: is missing")
}

func TestEditRole_serviceCAAndIPv6Identity(t *testing.T) {
	raw, err := EditRole(pointer("3.2.0", "worker"), RoleEdits{ServiceCA: []byte(testCA), IPv6: true})
	require.NoError(t, err)
	text := describe(t, raw)
	require.Contains(t, text, "===== file "+ServiceCAPath+", mode 0644\n"+testCA)
	require.Contains(t, text, "ipv6.dhcp-duid=ll")

	plain, err := EditRole(pointer("3.2.0", "worker"), RoleEdits{})
	require.NoError(t, err)
	require.Equal(t, "Ignition spec 3.2.0\n", describe(t, plain))
}

const bootstrap = `{"ignition":{"version":"3.2.0"},"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["ssh-ed25519 A"]}]},"storage":{"files":[
	{"path":"/etc/motd","append":[{"source":"data:,welcome"}],"mode":420},
	{"path":"/etc/NetworkManager/system-connections/nmconnection","contents":{"source":"data:,x"}},
	{"path":"/opt/openshift/manifests/cvo-overrides.yaml","contents":{"source":"data:,y"},"mode":384}]}}`

func TestEditBootstrap_multiNode(t *testing.T) {
	raw, err := EditBootstrap([]byte(bootstrap), BootstrapEdits{})
	require.NoError(t, err)
	golden(t, "bootstrap.txt", describe(t, raw))
	require.NotContains(t, string(raw), "nmconnection")
}

func TestEditBootstrap_singleNodeKeepsNetwork(t *testing.T) {
	raw, err := EditBootstrap([]byte(bootstrap), BootstrapEdits{SingleNode: true})
	require.NoError(t, err)
	text := describe(t, raw)
	require.NotContains(t, text, "assisted-install-bootstrap")
	require.NotContains(t, text, "99-kni.conf")
	require.Contains(t, text, "===== file /etc/motd, mode 0644\nwelcome\n")
	require.NotContains(t, string(raw), "append")
}

func TestEditBootstrap_notAConfig(t *testing.T) {
	_, err := EditBootstrap([]byte(`{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"a"}]}}`),
		BootstrapEdits{})
	require.ErrorContains(t, err, "$.storage.files.0.path: path not absolute")
	_, err = EditBootstrap([]byte(strings.Repeat("x", 10)), BootstrapEdits{})
	require.ErrorContains(t, err, "is not JSON")
}
