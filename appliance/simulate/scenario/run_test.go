package scenario

import (
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/config"
	"landfall/appliance/engine/event"
	"landfall/store"
)

func TestRun_weekHoldsInvariants(t *testing.T) {
	s, err := Example("week")
	require.NoError(t, err)
	reported := 0
	report, err := Run(t.Context(), s, Options{Days: 4, Dir: t.TempDir(),
		Progress: func(p Progress) { reported = p.Sites }})
	require.NoError(t, err)
	require.Equal(t, 3, reported)
	require.Positive(t, report.Total.Joined)
	require.Greater(t, report.Total.Checks, 1000)
	for _, kind := range []string{"edge", "branch", "pool"} {
		require.Positive(t, report.Kinds[kind].Installed, kind)
	}
	var out strings.Builder
	require.NoError(t, report.Write(&out))
	require.Contains(t, out.String(), "all checks passed")
}

// runSite runs a site of an example and returns its events.
func runSite(t *testing.T, example string, seed uint64, number int, days int, also func(*site)) (*site, []string) {
	t.Helper()
	scenario, err := Example(example)
	require.NoError(t, err)
	scenario.Seed = seed
	s, err := newSite(t.Context(), scenario, number, filepath.Join(t.TempDir(), "site"),
		config.Default().Limits)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.close()) })
	if also != nil {
		also(s)
	}
	s.run(s.began.AddDate(0, 0, days))
	page, err := s.engine.Events(event.Filter{})
	require.NoError(t, err)
	var reported []string
	for _, ev := range page.Events {
		reported = append(reported, fmt.Sprint(time.Time(*ev.EventTime).UTC(), " ", ev.Name, " ", *ev.Message))
	}
	return s, reported
}

func TestRun_sameSeedSameEvents(t *testing.T) {
	_, first := runSite(t, "week", 5, 2, 1, nil)
	_, second := runSite(t, "week", 5, 2, 1, nil)
	require.Equal(t, first, second)
	_, other := runSite(t, "week", 6, 2, 1, nil)
	require.NotEqual(t, first, other)
}

func TestRun_followsScript(t *testing.T) {
	s, reported := runSite(t, "script", 1, 1, 12, nil)
	require.NoError(t, s.errorAt())
	all := strings.Join(reported, "\n")
	for _, happened := range []string{
		"cluster_registration_succeeded", "host_bind_succeeded", "cluster_installation_canceled",
		"cluster_installation_reset", "cluster_installation_completed",
		"is installed and takes more hosts", "has restarted to join its cluster", "host_unbind_succeeded",
		"cluster_deregistered",
	} {
		require.Contains(t, all, happened)
	}
	for subject, times := range map[string]int{"restarts": 1, "sleeps": 1, "power cuts": 1, "clock jumps": 2} {
		require.Equal(t, times, s.stats.Counts[subject], subject)
	}
}

func TestRun_violationNamesSeedSiteAndDay(t *testing.T) {
	s, _ := runSite(t, "week", 5, 1, 7, func(s *site) {
		var lose func()
		lose = func() { // removes the deadline of a polling host from the engine
			s.after(time.Hour, lose)
			if m := s.owners[0].machines[0]; s.up && m.power == onImage {
				s.fail(s.db.Update(s.ctx, func(tx *store.Tx) error {
					return store.NewDeadlines("deadlines").Clear(tx, "host/"+m.env+"/"+m.hw.ID())
				}))
				s.fail(s.sweep())
			}
		}
		lose()
	})
	err := s.errorAt()
	require.ErrorContains(t, err, "seed 5, site 1 (edge-1), day ")
	require.ErrorContains(t, err, `the invariant "no deadline is lost" does not hold for host/`)
	require.ErrorContains(t, err, "but its deadline is none")
}

var busyDays = flag.Int("busydays", 12, "simulated days of TestRun_busySiteStaysWithinLimits")

// TestRun_busySiteStaysWithinLimits compares the database after two thirds of the time with that at
// the end. By then, what the appliance keeps of the past has reached its limits. For less than a
// year, the limits are smaller by as much.
func TestRun_busySiteStaysWithinLimits(t *testing.T) {
	scenario, err := Example("busy")
	require.NoError(t, err)
	limits := config.Default().Limits
	limits.EventBytes = limits.EventBytes * config.Bytes(*busyDays) / 365
	limits.JournalBytes = limits.JournalBytes * config.Bytes(*busyDays) / 365
	s, err := newSite(t.Context(), scenario, 1, filepath.Join(t.TempDir(), "site"), limits)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.close()) })

	s.run(s.began.AddDate(0, 0, *busyDays*2/3))
	before := s.size()
	s.run(s.began.AddDate(0, 0, *busyDays))
	require.NoError(t, s.errorAt())
	t.Logf("%d bytes after two thirds of %d days, %d at the end; %d installations", before, *busyDays, s.size(),
		s.stats.Installations)
	require.Greater(t, s.stats.Installations, 4**busyDays)
	require.Less(t, float64(s.size()), 1.1*float64(before))
	page, err := s.engine.Events(event.Filter{})
	require.NoError(t, err)
	require.True(t, time.Time(*page.Events[0].EventTime).After(s.began.AddDate(0, 0, 1)), "old events were removed")
}

// BenchmarkRun_replica measures what a busy site adds to the log of a replica in a day.
func BenchmarkRun_replica(b *testing.B) {
	scenario, err := Example("busy")
	require.NoError(b, err)
	s, err := newSite(b.Context(), scenario, 1, filepath.Join(b.TempDir(), "site"), config.Default().Limits)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, s.close()) })
	const days = 6
	bytes, commits := 0, 0
	for day := range days {
		follower := s.db.Follow(1 << 30)
		s.run(s.began.AddDate(0, 0, day+1))
		taken, err := follower.Take()
		require.NoError(b, err)
		follower.Close()
		for _, commit := range taken {
			bytes += len(commit.Operations)
		}
		commits += len(taken)
	}
	require.NoError(b, s.errorAt())
	b.ReportMetric(float64(bytes)/1e6/days, "MB/day")
	b.ReportMetric(float64(commits)/days, "commits/day")
	b.ReportMetric(float64(s.stats.Installations)/days, "installations/day")
	b.ReportMetric(0, "ns/op")
}

func TestRun_unknownSite(t *testing.T) {
	s, err := Example("week")
	require.NoError(t, err)
	_, err = Run(t.Context(), s, Options{Site: 4})
	require.EqualError(t, err, "the scenario week has the sites 1 to 3, and no site 4")
}
