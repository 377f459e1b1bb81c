package metrics_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"

	"landfall/appliance/fleet/membership"
	"landfall/appliance/fleet/metrics"
)

// watched is a fleet whose status is read when the test gives one.
type watched struct {
	clock  *clockwork.FakeClock
	status chan *membership.Status
	asked  chan struct{} // holds an item for each status that is being read
	*metrics.Collector

	leads, led bool
}

func newWatched(t *testing.T) *watched {
	t.Helper()
	w := &watched{clock: clockwork.NewFakeClock(), status: make(chan *membership.Status),
		asked: make(chan struct{}, 10)}
	w.Collector = metrics.New(metrics.Options{Of: w, Leaders: w, Leads: func() bool { return w.leads }, Clock: w.clock})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return w
}

// Status implements membership.Service.
func (w *watched) Status(ctx context.Context) (*membership.Status, error) {
	w.asked <- struct{}{}
	select {
	case status := <-w.status:
		return status, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (w *watched) Led() bool       { return w.led }
func (w *watched) Changes() uint64 { return 3 }

// requireScraped checks the lines of a scrape without comments.
func (w *watched) requireScraped(t *testing.T, want ...string) {
	t.Helper()
	require.Equal(t, want, lines(t, w.Collector))
}

func lines(t *testing.T, of prometheus.Collector) (all []string) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(of))
	families, err := registry.Gather()
	require.NoError(t, err)
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
	var text strings.Builder
	for _, family := range families {
		_, err := expfmt.MetricFamilyToText(&text, family)
		require.NoError(t, err)
	}
	for line := range strings.Lines(text.String()) {
		if !strings.HasPrefix(line, "#") {
			all = append(all, strings.TrimPrefix(strings.TrimSpace(line), "landfall_fleet_"))
		}
	}
	return all
}

// give lets the status be read that is wanted next.
func (w *watched) give(status *membership.Status) {
	go func() { w.status <- status }()
}

func TestCollector_showsTheStatus(t *testing.T) {
	w := newWatched(t)
	w.led = true
	w.give(&membership.Status{
		Members: []membership.Member{
			{Name: "one", Role: membership.RoleLeader, Answered: true},
			{Name: "two", Role: membership.RoleFollower, Answered: true, Behind: 4, LagSeconds: 1.5, MissingContents: 2,
				MissingLiveISOs: 1, MissingBlobs: 3},
			{Name: "three", Role: membership.RoleAway, Behind: 9, LagSeconds: 60},
		},
		Servers: []membership.Server{
			{URL: "http://x", LatencySeconds: 0.002, Bytes: 3, UsedBytes: 2, QuotaBytes: 9},
			{URL: "http://y", Problem: "It does not answer."},
			{URL: "http://z", NoSpace: true, Bytes: 8},
		},
	})
	w.requireScraped(t,
		`etcd_healthy{server="http://x"} 1`,
		`etcd_healthy{server="http://y"} 0`,
		`etcd_healthy{server="http://z"} 0`,
		`etcd_latency_seconds{server="http://x"} 0.002`,
		`etcd_latency_seconds{server="http://z"} 0`,
		`etcd_quota_bytes{server="http://x"} 9`,
		`etcd_size_bytes{server="http://x"} 3`,
		`etcd_size_bytes{server="http://z"} 8`,
		`etcd_used_bytes{server="http://x"} 2`,
		`etcd_used_bytes{server="http://z"} 0`,
		`has_leader 1`,
		`leader_changes_total 3`,
		`leads 0`,
		`member_connected{member="one"} 1`,
		`member_connected{member="three"} 0`,
		`member_connected{member="two"} 1`,
		`member_lag_seconds{member="one"} 0`,
		`member_lag_seconds{member="three"} 60`,
		`member_lag_seconds{member="two"} 1.5`,
		`member_missing_blobs{member="one"} 0`,
		`member_missing_blobs{member="two"} 3`,
		`member_missing_contents{member="one"} 0`,
		`member_missing_contents{member="two"} 2`,
		`member_missing_live_isos{member="one"} 0`,
		`member_missing_live_isos{member="two"} 1`,
		`member_missing_records{member="one"} 0`,
		`member_missing_records{member="three"} 9`,
		`member_missing_records{member="two"} 4`,
	)
}

// TestCollector_withoutEtcd requires that nothing is shown that only etcd knows.
func TestCollector_withoutEtcd(t *testing.T) {
	w := newWatched(t)
	w.give(&membership.Status{Problem: "Etcd does not answer.",
		Members: []membership.Member{
			{Name: "one", Role: membership.RoleFollower, Answered: true},
			{Name: "two", Role: membership.RoleFollower, Behind: 7, Problem: "It does not answer."},
		},
		Servers: []membership.Server{{URL: "http://x", Problem: "It does not answer."}},
	})
	w.requireScraped(t,
		`etcd_healthy{server="http://x"} 0`,
		`has_leader 0`,
		`leader_changes_total 3`,
		`leads 0`,
		`member_lag_seconds{member="one"} 0`,
		`member_missing_blobs{member="one"} 0`,
		`member_missing_contents{member="one"} 0`,
		`member_missing_live_isos{member="one"} 0`,
		`member_missing_records{member="one"} 0`,
	)
}

func TestCollector_leaderKnowsThatItLeads(t *testing.T) {
	w := newWatched(t)
	w.leads = true
	w.give(&membership.Status{})
	w.requireScraped(t, `has_leader 1`, `leader_changes_total 3`, `leads 1`)
}

func away(name string) *membership.Status {
	return &membership.Status{Problem: "-", Servers: []membership.Server{{URL: name, Problem: "It does not answer."}}}
}

func TestCollector_scrapesShareAStatus(t *testing.T) {
	w := newWatched(t)
	w.give(away("first"))
	require.Contains(t, lines(t, w), `etcd_healthy{server="first"} 0`)
	w.clock.Advance(4 * time.Second)
	require.Contains(t, lines(t, w), `etcd_healthy{server="first"} 0`)
	require.Len(t, w.asked, 1, "a status that is new enough is shown again")
	w.clock.Advance(time.Second)
	w.give(away("second"))
	require.Contains(t, lines(t, w), `etcd_healthy{server="second"} 0`)
	require.Len(t, w.asked, 2)
}

// TestCollector_doesNotWaitLong requires that a scrape ends while the status is read, with the
// last one as long as Prometheus would show it.
func TestCollector_doesNotWaitLong(t *testing.T) {
	w := newWatched(t)
	slow := func() (scraped []string) {
		ended := make(chan []string)
		go func() { ended <- lines(t, w) }()
		require.NoError(t, w.clock.BlockUntilContext(t.Context(), 1))
		w.clock.Advance(time.Second)
		return <-ended
	}
	require.Len(t, slow(), 3, "without a status, it is shown who leads")
	<-w.asked
	w.status <- away("first")
	require.Contains(t, lines(t, w), `etcd_healthy{server="first"} 0`)
	w.clock.Advance(time.Minute)
	require.Contains(t, slow(), `etcd_healthy{server="first"} 0`)
	w.clock.Advance(5 * time.Minute)
	require.Len(t, slow(), 3, "the last status is too old")
	<-w.asked
	require.Empty(t, w.asked, "a status is not read twice at a time")
}
