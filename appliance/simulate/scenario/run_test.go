package scenario

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/engine"
	"landfall/store"
)

func TestAWeekAtEachKindOfSiteEndsWithEveryInvariantHeld(t *testing.T) {
	s, err := Example("week")
	require.NoError(t, err)
	told := 0
	report, err := Run(t.Context(), s, Options{Days: 4, Dir: t.TempDir(),
		Progress: func(p Progress) { told = p.Sites }})
	require.NoError(t, err)
	require.Equal(t, 3, told)
	require.Positive(t, report.Total.Joined)
	require.Greater(t, report.Total.Checks, 1000)
	for _, kind := range []string{"edge", "branch", "pool"} {
		require.Positive(t, report.Kinds[kind].Installed, kind)
	}
	var out strings.Builder
	require.NoError(t, report.Write(&out))
	require.Contains(t, out.String(), "each time they held")
}

// play lives a site of an example and returns what happened there.
func playSite(t *testing.T, example string, seed uint64, number int, days int, also func(*site)) (*site, []string) {
	t.Helper()
	scenario, err := Example(example)
	require.NoError(t, err)
	scenario.Seed = seed
	s, err := newSite(t.Context(), scenario, number, filepath.Join(t.TempDir(), "site"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.close()) })
	if also != nil {
		also(s)
	}
	s.play(s.began.AddDate(0, 0, days))
	page, err := s.engine.Events(engine.EventFilter{})
	require.NoError(t, err)
	var told []string
	for _, ev := range page.Events {
		told = append(told, fmt.Sprint(time.Time(*ev.EventTime).UTC(), " ", ev.Name, " ", *ev.Message))
	}
	return s, told
}

func TestTheSameSeedIsTheSameStory(t *testing.T) {
	_, first := playSite(t, "week", 5, 2, 1, nil)
	_, second := playSite(t, "week", 5, 2, 1, nil)
	require.Equal(t, first, second)
	_, other := playSite(t, "week", 6, 2, 1, nil)
	require.NotEqual(t, first, other)
}

func TestAScriptIsFollowed(t *testing.T) {
	s, told := playSite(t, "script", 1, 1, 12, nil)
	require.NoError(t, s.errorAt())
	all := strings.Join(told, "\n")
	for _, happened := range []string{
		"cluster_registration_succeeded", "host_bind_succeeded", "cluster_installation_canceled",
		"cluster_installation_reset", "cluster_installation_completed",
		"adding-hosts", "added-to-existing-cluster", "host_unbind_succeeded", "cluster_deregistered",
	} {
		require.Contains(t, all, happened)
	}
	for what, times := range map[string]int{"restarts": 1, "sleeps": 1, "power cuts": 1, "clock jumps": 2} {
		require.Equal(t, times, s.stats.Counts[what], what)
	}
}

func TestAViolationEndsThePlayWithSeedSiteDayAndWhatWasWrong(t *testing.T) {
	s, _ := playSite(t, "week", 5, 1, 7, func(s *site) {
		var lose func()
		lose = func() { // an engine that loses the deadline of a host that polls
			s.after(time.Hour, lose)
			if m := s.slots[0].machines[0]; s.up && m.power == onImage {
				s.fail(s.db.Update(s.ctx, func(tx *store.Tx) error {
					return store.NewDeadlines("deadlines").Clear(tx, "host/"+m.env+"/"+m.hw.ID())
				}))
				s.fail(s.auditorSweep())
			}
		}
		lose()
	})
	err := s.errorAt()
	require.ErrorContains(t, err, "seed 5, site 1 (edge-1), day ")
	require.ErrorContains(t, err, `the invariant "no deadline is lost" does not hold for host/`)
	require.ErrorContains(t, err, "but its deadline is none")
}

// auditorSweep is the look at all that there is.
func (s *site) auditorSweep() error {
	if found := s.auditor.Sweep(s.audited(s.engine)); found != nil {
		return found
	}
	return nil
}

func TestASiteThatDoesNotExistIsRefused(t *testing.T) {
	s, err := Example("week")
	require.NoError(t, err)
	_, err = Run(t.Context(), s, Options{Site: 4})
	require.EqualError(t, err, "the scenario week has the sites 1 to 3, and no site 4")
}
