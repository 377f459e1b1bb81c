package ignition

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMerge_higherVersionWins(t *testing.T) {
	for _, a := range specs() {
		for _, b := range specs() {
			merged, err := Merge(config(a.version, ""), config(b.version, ""))
			require.NoError(t, err, "%s and %s", a.version, b.version)
			version, err := Version(merged)
			require.NoError(t, err)
			require.Equal(t, max(a.version, b.version), version)
		}
	}
}

func TestMerge_rulesOfIgnition(t *testing.T) {
	base := config("3.2.0", `,"storage":{"files":[{"path":"/a","contents":{"source":"data:,1"}},{"path":"/b","contents":{"source":"data:,2"}}]},
		"systemd":{"units":[{"name":"x.service","enabled":true}]}`)
	over := config("3.1.0", `,"storage":{"files":[{"path":"/b","contents":{"source":"data:,3"}},{"path":"/c","contents":{"source":"data:,4"}}]},
		"systemd":{"units":[{"name":"x.service","enabled":false}]}`)
	merged, err := Merge(base, over)
	require.NoError(t, err)
	c, err := parseLifted(merged)
	require.NoError(t, err)
	var files []string
	for _, f := range c.Storage.Files {
		files = append(files, f.Path+" "+deref(f.Contents.Source))
	}
	require.Equal(t, []string{"/a data:,1", "/b data:,3", "/c data:,4"}, files)
	require.Len(t, c.Systemd.Units, 1)
	require.False(t, *c.Systemd.Units[0].Enabled)
	version, err := Version(merged)
	require.NoError(t, err)
	require.Equal(t, "3.2.0", version)
}

func TestMerge_errorNamesConfig(t *testing.T) {
	good := config("3.2.0", "")
	bad := config("3.2.0", `,"storage":{"files":[{"path":"a"}]}`)
	_, err := Merge(bad, good)
	require.EqualError(t, err, "Ignition config: $.storage.files.0.path: path not absolute")
	_, err = Merge(good, bad)
	require.EqualError(t, err, "Ignition override: $.storage.files.0.path: path not absolute")
	var where *ConfigError
	require.ErrorAs(t, err, &where)
	require.Equal(t, "$.storage.files.0.path", where.Where)

	link := config("3.2.0", `,"storage":{"links":[{"path":"/a/b","target":"/t","hard":false}]}`)
	file := config("3.2.0", `,"storage":{"files":[{"path":"/a/b/c"}]}`)
	_, err = Merge(link, file)
	require.ErrorContains(t, err, "Ignition merged config: $.storage.files.0")
}

func TestValidate_refusals(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"nothing":    {" \n", "Ignition config: is empty; it must be a JSON object"},
		"a list":     {"[]", "is a JSON array where an object is expected"},
		"two values": {`{"ignition":{"version":"3.1.0"}} x`, "line 1, column 34: is not JSON"},
		"a number for version": {`{"ignition":{"version":3}}`,
			"$.ignition.version (line 1, column 24): is a JSON number where a string is expected"},
		"a release to come":    {string(config("3.7.0", "")), `is "3.7.0"; the supported versions are 3.0.0 to 3.6.0`},
		"an experimental spec": {string(config("3.6.0-experimental", "")), `is "3.6.0-experimental"`},
		"a bad unit": {string(config("3.1.0", `,"systemd":{"units":[{"name":"x","contents":"[Unit]"}]}`)),
			"$.systemd.units.0.name: invalid systemd unit extension"},
		"a key twice": {string(config("3.1.0", `,"storage":{"files":[{"path":"/a"},{"path":"/a"}]}`)),
			"$.storage.files.1"},
	} {
		t.Run(name, func(t *testing.T) { require.ErrorContains(t, Validate([]byte(tc.text)), tc.want) })
	}
}

func FuzzMerge(f *testing.F) {
	f.Add(string(config("3.1.0", "")),
		string(config("3.5.0", `,"storage":{"files":[{"path":"/a","append":[{"source":"data:,x"}]}]}`)))
	f.Add(string(config("3.6.0", "")), string(config("3.0.0", `,"systemd":{"units":[{"name":"a.service"}]}`)))
	f.Fuzz(func(t *testing.T, base, override string) {
		merged, err := Merge([]byte(base), []byte(override))
		if err != nil {
			return
		}
		require.NoError(t, Validate(merged))
		require.True(t, json.Valid(merged))
		version, err := Version(merged)
		require.NoError(t, err)
		vb, err := Version([]byte(base))
		require.NoError(t, err)
		vo, err := Version([]byte(override))
		require.NoError(t, err)
		require.Equal(t, max(vb, vo), version)
	})
}

func FuzzReadDiscovery(f *testing.F) {
	raw, err := Discovery(full())
	require.NoError(f, err)
	f.Add(string(raw))
	f.Add(string(config("3.1.0",
		`,"systemd":{"units":[{"name":"agent.service","enabled":true,"contents":"[Service]\nExecStart=/a --url u --infra-env-id=i --agent-version \"x\"\n"}]}`)))
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := ReadDiscovery([]byte(text)); err == nil {
			require.NotEmpty(t, d.ServiceURL)
			require.NotEmpty(t, d.InfraEnvID)
			require.NotEmpty(t, d.AgentImage)
		}
	})
}

// systemd must read every quoted word unchanged.
func FuzzUnitWords(f *testing.F) {
	f.Add("plain", `with "quotes" and \`)
	f.Add("%h $HOME", "tab\tnew\nline;")
	f.Add("", "é")
	f.Fuzz(func(t *testing.T, a, b string) {
		words, err := unquote(unitCommand("/bin/x", a, b), true)
		require.NoError(t, err)
		require.Equal(t, []string{"/bin/x", a, b}, words)
		words, err = unquote(unitAssignment("A="+a), false)
		require.NoError(t, err)
		require.Equal(t, []string{"A=" + a}, words)
	})
}
