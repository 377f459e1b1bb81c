package ignition

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

const testCA = `-----BEGIN CERTIFICATE-----
MIIBdzCCAR2gAwIBAgIBATAKBggqhkjOPQQDAjAVMRMwEQYDVQQDEwpTaXRlIFJv
b3QgMTAeFw0yNTAxMDEwMDAwMDBa
-----END CERTIFICATE-----
`

// The golden files contain configs in readable form: each unit and file with its decoded content.
func TestDiscovery_goldenFile(t *testing.T) {
	for name, c := range map[string]DiscoveryConfig{"minimal": minimal(), "full": full()} {
		t.Run(name, func(t *testing.T) {
			raw, err := Discovery(c)
			require.NoError(t, err)
			require.NoError(t, Validate(raw))
			golden(t, "discovery-"+name+".txt", describe(t, raw))
			again, err := Discovery(c)
			require.NoError(t, err)
			require.Equal(t, raw, again, "equal configs make equal bytes")
		})
	}
}

func TestReadDiscovery_roundTrip(t *testing.T) {
	c := full()
	raw, err := Discovery(c)
	require.NoError(t, err)
	d, err := ReadDiscovery(raw)
	require.NoError(t, err)
	require.Equal(t, "https://landfall.site.example:8443", d.ServiceURL)
	require.Equal(t, c.InfraEnvID, d.InfraEnvID)
	require.Equal(t, c.AgentImage, d.AgentImage)
	require.Equal(t, c.PullSecretToken, d.PullSecretToken)
	require.Equal(t, c.ServiceCA, d.ServiceCA)
	require.Equal(t, c.TrustBundle, d.TrustBundle)
	require.Equal(t, c.RegistriesConf, d.RegistriesConf)
	require.Equal(t, c.PullSecret, string(d.PullSecret))
	require.Equal(t, c.PolicyJSON, d.PolicyJSON)
	require.Equal(t, c.Proxy.HTTP, d.Environment["http_proxy"])
	require.Equal(t, "mirror.site.example,.site.example,192.0.2.0/24,landfall.site.example", d.Environment["NO_PROXY"])
	require.Equal(t, []string{"ssh-ed25519 AAAA one", "ssh-ed25519 BBBB two"}, d.SSHKeys)
	require.False(t, d.Insecure)
	motd, ok := d.File("/etc/motd")
	require.True(t, ok)
	require.Contains(t, string(motd), "agent.service")
}

func TestDiscovery_versionOfOverrides(t *testing.T) {
	c := minimal()
	c.Overrides = `{"ignition":{"version":"3.4.0"},"kernelArguments":{"shouldExist":["quiet"]},
		"storage":{"files":[{"path":"/etc/motd","overwrite":true,"contents":{"source":"data:,hello"}}]}}`
	raw, err := Discovery(c)
	require.NoError(t, err)
	version, err := Version(raw)
	require.NoError(t, err)
	require.Equal(t, "3.4.0", version)
	d, err := ReadDiscovery(raw)
	require.NoError(t, err)
	motd, _ := d.File("/etc/motd")
	require.Equal(t, "hello", string(motd))
}

func TestDiscovery_serviceBypassesProxy(t *testing.T) {
	for no, want := range map[string]string{"": "192.0.2.10", "*": "*", "192.0.2.10": "192.0.2.10",
		"a.example": "a.example,192.0.2.10"} {
		c := minimal()
		c.Proxy = Proxy{HTTP: "http://proxy:3128", No: no}
		raw, err := Discovery(c)
		require.NoError(t, err)
		d, err := ReadDiscovery(raw)
		require.NoError(t, err)
		require.Equal(t, want, d.Environment["no_proxy"])
	}
}

func TestReadDiscovery_dropIns(t *testing.T) {
	c := minimal()
	c.PullSecretToken = "first"
	c.Overrides = `{"ignition":{"version":"3.1.0"},"systemd":{"units":[{"name":"agent.service","dropins":[
		{"name":"20-b.conf","contents":"[Service]\nEnvironment=A=1 'B=two words'\n"},
		{"name":"10-a.conf","contents":"[Service]\nEnvironment=\nEnvironment=PULL_SECRET_TOKEN=second\n"}]}]}}`
	raw, err := Discovery(c)
	require.NoError(t, err)
	d, err := ReadDiscovery(raw)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"PULL_SECRET_TOKEN": "second", "A": "1", "B": "two words"}, d.Environment)
}

func TestDiscovery_refusals(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(*DiscoveryConfig)
		want string
	}{
		"a service URL without a scheme": {func(c *DiscoveryConfig) { c.ServiceURL = "landfall:8090" },
			`service URL "landfall:8090" must look like https://host:port`},
		"no infra-env": {func(c *DiscoveryConfig) { c.InfraEnvID = "" }, "infra-env id is missing"},
		"an agent image with a blank": {func(c *DiscoveryConfig) { c.AgentImage = "a b" },
			`agent image "a b" must be a pull spec`},
		"a token of two lines": {func(c *DiscoveryConfig) { c.PullSecretToken = "a\nExecStart=/bin/evil" },
			"must be single lines"},
		"a pull secret that is no JSON": {func(c *DiscoveryConfig) { c.PullSecret = "{" }, "pull secret is not JSON"},
		"a policy that is no JSON": {func(c *DiscoveryConfig) { c.PolicyJSON = []byte("{") },
			"policy.json) is not JSON"},
		"a trust bundle without PEM": {func(c *DiscoveryConfig) { c.TrustBundle = []byte("abc") },
			"trust bundle contains no PEM certificate"},
		"a service CA without PEM": {func(c *DiscoveryConfig) { c.ServiceCA = []byte("abc") },
			"service CA contains no PEM certificate"},
		"two NTP sources in one": {func(c *DiscoveryConfig) { c.NTPSources = []string{"a,b"} },
			`NTP source "a,b" must be a single host name`},
		"a proxy of two lines": {func(c *DiscoveryConfig) { c.Proxy.HTTP = "http://a\nb" },
			"proxy settings must be single lines"},
		"an override that is no JSON": {func(c *DiscoveryConfig) { c.Overrides = "{\n \"ignition\": }" },
			"Ignition override: line 2, column 14: is not JSON"},
		"an override without a version": {func(c *DiscoveryConfig) { c.Overrides = `{"storage":{}}` },
			`Ignition override: $.ignition.version: is missing`},
		"an override of spec 2": {
			func(c *DiscoveryConfig) { c.Overrides = `{"ignition":{"version":"2.2.0"}}` },
			`$.ignition.version: is "2.2.0"; the supported versions are 3.0.0 to 3.6.0`},
		"an override with a wrong type": {func(c *DiscoveryConfig) {
			c.Overrides = `{"ignition":{"version":"3.1.0"},"storage":{"files":[{"path":"/a","mode":"0644"}]}}`
		},
			"is a JSON string where a whole number is expected"},
		"an override with a relative path": {func(c *DiscoveryConfig) {
			c.Overrides = `{"ignition":{"version":"3.1.0"},"storage":{"files":[{"path":"a"}]}}`
		}, "Ignition override: $.storage.files.0.path: path not absolute"},
		"an override that clashes with the rest": {func(c *DiscoveryConfig) {
			c.Overrides = `{"ignition":{"version":"3.1.0"},"storage":{"files":[{"path":"/etc/systemd/system/agent.service"}]}}`
		}, "Ignition merged config: $.storage.files"},
	} {
		t.Run(name, func(t *testing.T) {
			c := minimal()
			tc.edit(&c)
			_, err := Discovery(c)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestReadDiscovery_refusals(t *testing.T) {
	unit := func(contents string) string {
		c, err := json.Marshal(contents)
		require.NoError(t, err)
		return fmt.Sprintf(
			`{"ignition":{"version":"3.1.0"},"systemd":{"units":[{"name":"agent.service","enabled":true,"contents":%s}]}}`, c)
	}
	for name, tc := range map[string]struct{ config, want string }{
		"no agent": {`{"ignition":{"version":"3.1.0"}}`,
			"no enabled agent.service: this is not a discovery config"},
		"a disabled agent": {
			`{"ignition":{"version":"3.1.0"},"systemd":{"units":[{"name":"agent.service","enabled":false}]}}`,
			"no enabled agent.service"},
		"an agent without URL": {unit("[Service]\nExecStart=/a --infra-env-id 1 --agent-version x"),
			"--url is missing"},
		"no command":           {unit("[Service]\n"), "has no ExecStart"},
		"an open quote":        {unit("[Service]\nExecStart=/a \"--url"), "is not closed"},
		"a flag without value": {unit("[Service]\nExecStart=/a --url"), "--url has no value"},
		"a missing CA file": {
			unit("[Service]\nExecStart=/a --url u --infra-env-id 1 --agent-version x --cacert /ca"),
			"--cacert names /ca, which the config does not write"},
		"a bad data URL": {
			`{"ignition":{"version":"3.1.0"},"storage":{"files":[{"path":"/a","contents":{"source":"data:;base64,*"}}]}}`, "$.storage.files.0"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadDiscovery([]byte(tc.config))
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestEdition(t *testing.T) {
	one, err := Edition()
	require.NoError(t, err)
	require.Len(t, one, 64)
	two, err := Edition()
	require.NoError(t, err)
	require.Equal(t, one, two)
}
