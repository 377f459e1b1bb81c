package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParse_errors(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"empty": {"",
			"s.yaml: the file is empty; a scenario has at least the keys days and sites"},
		"no YAML": {"days: [1",
			"s.yaml, line 1: the file is not YAML: did not find expected ',' or ']'"},
		"a list": {"- days: 1",
			"s.yaml, line 1: the scenario: the value is a list; expected keys of days, name, seed, sites, start"},
		"an unknown key": {"days: 1\nday: 2",
			"s.yaml, line 2: day: the key is unknown; expected one of days, name, seed, sites, start"},
		"a key twice": {"days: 1\ndays: 2",
			"s.yaml, line 2: days: the key occurs twice"},
		"a text for a number": {"days: many", `s.yaml, line 1: days: the value is "many"; expected a whole number`},
		"no value":            {"days:", "s.yaml, line 1: days: the value is missing; expected a whole number"},
		"keys for a number": {"days: {a: 1}",
			"s.yaml, line 1: days: the value is a mapping; expected a whole number"},
		"a seed below zero": {"seed: -1",
			`s.yaml, line 1: seed: the value is "-1"; expected a whole number of at least 0`},
		"no days": {"sites: []\ndays: 0",
			"s.yaml, line 2: days: the value is 0; expected a whole number from 1 to 36500"},
		"an invalid start": {"start: soon",
			`s.yaml, line 1: start: the value is "soon"; expected a time such as 2026-01-01T06:00:00Z`},
		"no sites": {"days: 1",
			"s.yaml, line 1: sites: the list is missing; expected at least one kind of site"},
		"sites that are not a list": {"sites: many", `s.yaml, line 1: sites: the value is "many"; expected a list`},
		"a site with an unknown key": {"days: 1\nsites:\n  - nam: x",
			"s.yaml, line 3: sites[0].nam: the key is unknown; expected one of binding, clusters, count, faults, " +
				"hardware, hosted, name, people, script, spares, topology, workers"},
		"an unknown topology": {"days: 1\nsites:\n  - topology: huge",
			`s.yaml, line 3: sites[0].topology: the value is "huge"; expected single-node, compact, four-masters or five-masters (workers are a key of their own)`},
		"an unknown binding": {"days: 1\nsites: [{binding: soon}]",
			`s.yaml, line 2: sites[0].binding: the value is "soon"; expected cluster or late`},
		"a single node with workers": {"days: 1\nsites:\n  - workers: 2",
			"s.yaml, line 3: sites[0].workers: the value is 2; expected 0 with the topology single-node"},
		"too many workers": {"days: 1\nsites:\n  - topology: compact\n    workers: 1000",
			"s.yaml, line 4: sites[0].workers: the value is 1000; expected a whole number from 0 to 200"},
		"too many sites": {"days: 1\nsites: [{count: 6000}, {count: 6000}]",
			"s.yaml, line 2: sites: the scenario has 12000 sites; expected at most 10000"},
		"a share without a percent sign": {"days: 1\nsites: [{people: {cancel: 5}}]",
			`s.yaml, line 2: sites[0].people.cancel: the value is "5"; expected a share from 0% to 100%`},
		"a share above 100%": {"days: 1\nsites: [{people: {cancel: 101%}}]",
			`s.yaml, line 2: sites[0].people.cancel: the value is "101%"; expected a share from 0% to 100%`},
		"an invalid time": {"days: 1\nsites: [{people: {think: soon}}]",
			`s.yaml, line 2: sites[0].people.think: the value is "soon"; expected a time such as 30d, 1d12h or 90s`},
		"too short a time between checks": {"days: 1\nsites: [{people: {think: 1s}}]",
			"s.yaml, line 2: sites[0].people.think: the value is 1s; expected at least 1m"},
		"an unknown fault of hosts": {"days: 1\nsites: [{faults: {hosts: {bad-luck: 1%}}}]",
			`s.yaml, line 2: sites[0].faults.hosts.bad-luck: unknown fault "bad-luck": the faults are `},
		"a fault of one host": {"days: 1\nsites: [{faults: {hosts: {'host=2:no-dns': 1%}}}]",
			"sites[0].faults.hosts.host=2:no-dns: expected one fault, without the number of a host"},
		"an unknown fault of clusters": {"days: 1\nsites: [{faults: {clusters: {bad-luck: 1%}}}]",
			"s.yaml, line 2: sites[0].faults.clusters.bad-luck: the fault is unknown; expected one of " +
				"completion-fails, installer-fails, mirror-down, operators-hang"},
		"a sleep without a duration": {"days: 1\nsites: [{faults: {sleep: {every: 1d}}}]",
			"s.yaml, line 2: sites[0].faults.sleep.for: the key is missing; expected a time such as 30d, 1d12h or 90s"},
		"too frequent restarts": {"days: 1\nsites: [{faults: {restart: {every: 1s}}}]",
			"s.yaml, line 2: sites[0].faults.restart.every: the value is 1s; expected at least 1h"},
		"an act without an action": {"days: 1\nsites: [{script: [{at: 1h}]}]",
			"s.yaml, line 2: sites[0].script[0].do: the key is missing; expected one of add-hosts, "},
		"an unknown act": {"days: 1\nsites: [{script: [{at: 1h, do: hope}]}]",
			`s.yaml, line 2: sites[0].script[0].do: the value is "hope"; expected one of add-hosts, `},
		"an act on a missing machine": {"days: 1\nsites: [{script: [{at: 1h, do: boot, host: 9}]}]",
			"s.yaml, line 2: sites[0].script[0].host: the value is 9; expected the number of one of the 1 machines, " +
				"or 0 " +
				"for all"},
		"an unknown fault in an act": {"days: 1\nsites: [{script: [{at: 1h, do: fault, fault: none}]}]",
			`sites[0].script[0].fault: unknown fault "none"`},
		"a fault of another act": {"days: 1\nsites: [{script: [{at: 1h, do: boot, fault: no-dns}]}]",
			"sites[0].script[0].fault: the key is valid only with do: fault"},
		"a jump without its distance": {"days: 1\nsites: [{script: [{at: 1h, do: clock-jump}]}]",
			"sites[0].script[0].for: the key is missing; expected a time such as"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("s.yaml", []byte(c.text))
			require.IsType(t, &Error{}, err)
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestLoad_unreadableFile(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "none.yaml"))
	require.ErrorContains(t, err, "none.yaml: the scenario can't be read: no such file or directory")

	large := filepath.Join(t.TempDir(), "large.yaml")
	require.NoError(t, os.WriteFile(large, []byte(strings.Repeat("# too much\n", fileLimit/10)), 0o600))
	_, err = Load(large)
	require.ErrorContains(t, err, "a scenario has at most 1048576")

	_, err = Example("none")
	require.EqualError(t, err, `the example "none" does not exist; the examples are busy, hosted, script, week, year`)
}

func TestSpans(t *testing.T) {
	for text, want := range map[string]time.Duration{"90s": 90 * time.Second, "1d12h": 36 * time.Hour,
		"0.5d": 12 * time.Hour, "30d": 720 * time.Hour} {
		var span Span
		require.NoError(t, span.read(text))
		require.Equal(t, want, time.Duration(span), text)
	}
	for _, text := range []string{"", "d", "-1d", "1d-1h", "d5h", "1e300d", "NaNd", "5"} {
		require.Error(t, new(Span).read(text), text)
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range Examples() {
		text, err := ExampleText(name)
		require.NoError(f, err)
		f.Add(text)
	}
	f.Add([]byte("days: 1\nsites: [{script: [{at: 1h, do: boot}]}]"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse("s.yaml", text)
		if err == nil {
			require.Positive(t, s.SiteCount())
			return
		}
		require.IsType(t, &Error{}, err)
	})
}
