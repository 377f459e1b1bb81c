package command

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/command/outcome"
)

func TestSimulateRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "one.yaml")
	require.NoError(t, os.WriteFile(file, []byte("days: 2\nsites: [{name: edge, people: {rebuild: 30d}}]\n"), 0o600))
	var out, errOut bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"simulate", "run", file, "--seed", "3", "--dir", t.TempDir()}, &out,
		&errOut), errOut.String())
	require.Contains(t, out.String(), "one: 1 sites, 2 days each")
	require.Contains(t, out.String(), "1, of which 1 succeeded")
	require.Contains(t, out.String(), "all checks passed")
	require.Contains(t, errOut.String(), "1 of 1 sites, ")
}

func TestSimulateRun_invalidScenario(t *testing.T) {
	wrong := filepath.Join(t.TempDir(), "wrong.yaml")
	require.NoError(t, os.WriteFile(wrong, []byte("days: 2\nsites:\n  - topology: big\n"), 0o600))
	for name, c := range map[string]struct {
		arguments []string
		code      int
		message   string
	}{
		"no scenario": {nil, outcome.Usage,
			"the scenario is missing; name a file, or give --example busy, hosted, script, week, year"},
		"two scenarios": {[]string{"a.yaml", "--example", "week"}, outcome.Usage,
			"--example week and the file a.yaml exclude each other"},
		"unknown example": {[]string{"--example", "decade"}, outcome.Usage,
			`the example "decade" does not exist; the examples are busy, hosted, script, week, year`},
		"missing file": {[]string{"none.yaml"}, outcome.Failure,
			"none.yaml: the scenario can't be read: no such file or directory"},
		"invalid file": {[]string{wrong}, outcome.Failure,
			wrong +
				`, line 3: sites[0].topology: the value is "big"; expected single-node, compact, four-masters or five-masters`},
		"unknown site": {[]string{"--example", "week", "--site", "9"}, outcome.Failure,
			"the scenario week has the sites 1 to 3, and no site 9"},
		"negative days": {[]string{"--example", "week", "--days", "-1"}, outcome.Usage,
			"negative values are not allowed"},
		"missing directory for stores": {[]string{"--example", "week", "--dir", "/nowhere/at/all"}, outcome.Failure,
			"create a directory for the sites' stores: "},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			require.Equal(t, c.code, run(t.Context(), append([]string{"simulate", "run"}, c.arguments...), &out,
				&errOut))
			require.Contains(t, errOut.String(), c.message)
			require.Empty(t, out.String())
		})
	}
}

func TestSimulateRun_interrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errOut bytes.Buffer
	require.Equal(t, outcome.Interrupted, run(ctx, []string{"simulate", "run", "--example", "week", "--dir",
		t.TempDir()}, &out, &errOut))
	require.Equal(t, "landfall: interrupted\n", errOut.String())
}

func TestSimulateExample(t *testing.T) {
	var out, errOut bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"simulate", "example"}, &out, &errOut))
	require.Equal(t, "busy\nhosted\nscript\nweek\nyear\n", out.String())
	out.Reset()
	require.Zero(t, run(t.Context(), []string{"simulate", "example", "week"}, &out, &errOut))
	require.Contains(t, out.String(), "name: week")
	require.Equal(t, outcome.Usage, run(t.Context(), []string{"simulate", "example", "decade"}, &out, &errOut))
}
