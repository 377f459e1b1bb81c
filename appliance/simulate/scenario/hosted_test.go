package scenario

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/config"
	"landfall/appliance/engine/audit"
	"landfall/appliance/simulate/workagent"
)

func TestRun_hostedClustersAgreeAtTheEnd(t *testing.T) {
	s, err := Example("hosted")
	require.NoError(t, err)
	report, err := Run(t.Context(), s, Options{Dir: t.TempDir(), Days: 12})
	require.NoError(t, err)
	for _, happened := range []string{"hosted clusters that were created", "hosted clusters that were deleted",
		"cut lines", "restarts of agents", "clock jumps of management clusters", "backups",
		"restores of older backups", "decisions: adopt"} {
		require.Positive(t, report.Total.Counts[happened], "%s: %v", happened, report.Total.Counts)
	}
}

// runHosted runs a script at a site with a management cluster.
func runHosted(t *testing.T, script string, also func(*site)) error {
	t.Helper()
	s, err := Parse("s.yaml", []byte("days: 3\nsites: [{people: {absent: true}, hosted: {management_clusters: 1}, "+
		"script: ["+script+"]}]"))
	require.NoError(t, err)
	site, err := newSite(t.Context(), s, 1, t.TempDir()+"/site", config.Default().Limits)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, site.close()) })
	if also != nil {
		also(site)
	}
	site.run(site.began.AddDate(0, 0, s.Days))
	return site.errorAt()
}

func TestRun_hostedExpectationFails(t *testing.T) {
	err := runHosted(t, "{at: 1h, do: create-hosted, name: a}, {at: 1d, do: expect-hosted, name: a, state: gone}", nil)
	require.ErrorContains(t, err, "seed 0, site 1 (kind-0-1), day 2: ")
	require.ErrorContains(t, err, "a is Succeeded, expected gone")
}

// A deletion that nobody asked for ends the run.
func TestRun_hostedDeletionThatNobodyAskedFor(t *testing.T) {
	err := runHosted(t, "{at: 1h, do: create-hosted, name: a}", func(s *site) {
		s.after(25*time.Hour, func() {
			m := s.hosted.clusters[0]
			m.agent = workagent.NewAgent(m.name, m.cluster, s.clock.FakeClock, 0)
			m.agent.Poll(time.Hour) // an agent without the flag that the appliance's manifests have
			s.clock.Advance(2 * time.Hour)
			m.agent.Poll(time.Hour)
		})
	})
	var violation *audit.Violation
	require.ErrorAs(t, err, &violation)
	require.Equal(t, "no hosted cluster is deleted that nobody deleted", violation.Invariant)
	require.True(t, strings.HasSuffix(violation.Found, " was deleted on mc1"), violation.Found)
}

func TestParse_hostedErrors(t *testing.T) {
	for text, says := range map[string]string{
		"script: [{at: 1h, do: backup}]": "script[0].do: the act needs hosted clusters; expected the key " +
			"hosted.management_clusters",
		"hosted: {management_clusters: 99}": "hosted.management_clusters: the value is 99; expected a whole number " +
			"from 0 to 20",
		"hosted: {management_clusters: 1, line: {every: 1d}}": "hosted.line.for: the key is missing",
		"hosted: {management_clusters: 1}, script: [{do: create-hosted}]": "script[0].name: the key is missing; " +
			"expected the name of a hosted cluster",
		"hosted: {management_clusters: 1}, script: [{do: backup, name: a}]": "the key is valid only for acts about a " +
			"hosted cluster",
		"hosted: {management_clusters: 1}, script: [{do: expect-hosted, name: a, state: fine}]": `the value is "fine"; ` +
			"expected one of Accepted, ",
		"hosted: {management_clusters: 1}, script: [{do: cut-line}]": "script[0].for: the key is missing",
	} {
		_, err := Parse("s.yaml", []byte("days: 1\nsites: [{"+text+"}]"))
		require.ErrorContains(t, err, says, text)
	}
}
