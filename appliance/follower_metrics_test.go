package appliance

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access"
	"landfall/appliance/access/tokens"
	"landfall/appliance/fleet"
	"landfall/appliance/fleet/membership"
	"landfall/appliance/fleet/metrics"
	"landfall/appliance/monitoring"
	"landfall/appliance/storage"
	"landfall/web/console"
	"landfall/web/follower"
)

// Changes implements metrics.Leaders.
func (c *copied) Changes() uint64 { return 0 }

// lagging is the status of a fleet with a member that lacks records.
type lagging struct{}

// Status implements membership.Service.
func (lagging) Status(context.Context) (*membership.Status, error) {
	return &membership.Status{Members: []membership.Member{
		{Name: "one", Role: membership.RoleLeader},
		{Name: "two", Role: membership.RoleFollower, Behind: 5, LagSeconds: 2},
	}}, nil
}

// observe returns the metrics of the fleet at one of its members.
func (c *copied) observe(t *testing.T, leads bool, clock clockwork.Clock) prometheus.Collector {
	t.Helper()
	collector := metrics.New(metrics.Options{Of: lagging{}, Leaders: c, Leads: func() bool { return leads && c.Led() },
		Clock: clock})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		collector.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return collector
}

// scrape is what a scrape of a member got.
type scrape map[string]*dto.MetricFamily

func parseScrape(t testing.TB, answer *httptest.ResponseRecorder) scrape {
	t.Helper()
	require.Equal(t, http.StatusOK, answer.Code, answer.Body.String())
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	require.NoError(t, err)
	return families
}

// value returns the value of the metric with labels, which are names and values in turns.
func (s scrape) value(t testing.TB, name string, labels ...string) float64 {
	t.Helper()
	require.Contains(t, s, name)
	for _, m := range s[name].Metric {
		if len(labels) == 0 || slices.ContainsFunc(m.Label, func(l *dto.LabelPair) bool {
			return l.GetName() == labels[0] && l.GetValue() == labels[1]
		}) {
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	t.Fatalf("%s has no value for %s", name, labels)
	return 0
}

// ofLeader are the beginnings of the names of metrics that only a leader and a single machine have.
var ofLeader = []string{"landfall_ams_", "landfall_http_", "landfall_interrup", "landfall_ready", "landfall_replica_",
	"landfall_tracing_"}

func TestFollowerMetrics_areItsOwn(t *testing.T) {
	c := newCopied(t, clockwork.NewFakeClockAt(time.Now().UTC()))
	c.newHost(t, c.env)
	c.use(t, "viewer")
	c.catchUp(t)
	require.NoError(t, os.WriteFile(c.followerDir+"/own", make([]byte, 12345), 0o600))
	requireOwn := func() {
		t.Helper()
		own := parseScrape(t, c.askHere(t, console.MetricsPath, "viewer"))
		leader := parseScrape(t, c.request(t, http.MethodGet, console.MetricsPath, "", c.callers["viewer"]))
		require.InDelta(t, 1, own.value(t, "landfall_build_info", "version", "of the follower"), 0)
		require.InDelta(t, c.db.Activity().Commits, own.value(t, "landfall_store_commits_total"), 0)
		require.GreaterOrEqual(t, own.value(t, "landfall_data_bytes", "part", "database"), 12345.0)
		require.InDelta(t, 0, own.value(t, "landfall_fleet_leads"), 0)
		require.InDelta(t, 2, own.value(t, "landfall_fleet_member_lag_seconds", "member", "two"), 0)
		require.NotZero(t, own.value(t, "process_start_time_seconds"))
		require.Contains(t, own, "go_goroutines")
		for _, name := range []string{"landfall_clusters", "landfall_hosts", "landfall_bmc_servers"} {
			require.Equal(t, leader[name].String(), own[name].String())
		}
		for name := range leader {
			_, has := own[name]
			only := slices.ContainsFunc(ofLeader, func(begin string) bool { return strings.HasPrefix(name, begin) })
			require.NotEqual(t, only, has, name)
		}
		if c.Led() {
			require.InDelta(t, 1, leader.value(t, "landfall_fleet_leads"), 0)
		}
	}
	requireOwn()
	for _, path := range []string{"//metrics", "/%6Detrics"} {
		own := parseScrape(t, c.askHere(t, path, "viewer"))
		require.InDelta(t, 0, own.value(t, "landfall_fleet_leads"), 0, path)
	}
	c.led.Store(false)
	requireOwn()
}

func TestFollowerMetrics_needCredentials(t *testing.T) {
	c := newCopied(t, clockwork.NewFakeClockAt(time.Now().UTC()))
	c.catchUp(t)
	requireSame := func() {
		t.Helper()
		for name, as := range c.callers {
			want := c.request(t, http.MethodGet, console.MetricsPath, "", as)
			got := c.askHere(t, console.MetricsPath, name)
			require.Equal(t, want.Code, got.Code, name)
			require.Equal(t, want.Header().Get("WWW-Authenticate"), got.Header().Get("WWW-Authenticate"), name)
			if got.Code != http.StatusOK {
				require.NotContains(t, got.Body.String(), "landfall_", name)
			}
		}
		require.Equal(t, http.StatusUnauthorized, c.askHere(t, console.MetricsPath, "nobody").Code)
		require.Equal(t, http.StatusForbidden, c.askHere(t, console.MetricsPath, "agent").Code)
		require.Equal(t, http.StatusOK, c.askHere(t, console.MetricsPath, "viewer").Code)
	}
	requireSame()
	c.led.Store(false)
	requireSame()
}

func TestFollowerMetrics_leaderMayKnowMore(t *testing.T) {
	c := newCopied(t, clockwork.NewFakeClockAt(time.Now().UTC()))
	c.addToken(t, "new", access.Viewer, access.Scope{})
	own := parseScrape(t, c.askHere(t, console.MetricsPath, "new"))
	require.InDelta(t, 0, own.value(t, "landfall_fleet_leads"), 0, "only the leader knows the token")
	c.led.Store(false)
	require.Equal(t, http.StatusUnauthorized, c.askHere(t, console.MetricsPath, "new").Code)
	c.catchUp(t)
	for c.askHere(t, console.MetricsPath, "new").Code != http.StatusOK {
		require.NoError(t, t.Context().Err(), "the copy has the token")
	}
}

func TestFollowerMetrics_leaderLearnsOfUses(t *testing.T) {
	clock := clockwork.NewFakeClockAt(time.Now().UTC())
	c := newCopied(t, clock)
	c.catchUp(t)
	ask := func() int64 {
		require.Equal(t, http.StatusOK, c.askHere(t, console.MetricsPath, "viewer").Code)
		return c.asked.Load()
	}
	require.Equal(t, int64(1), ask())
	require.Equal(t, int64(1), ask())
	clock.Advance(time.Minute)
	require.Equal(t, int64(2), ask())
	listed := c.clients.tokens.List()
	i := slices.IndexFunc(listed, func(token tokens.Token) bool { return token.Name == "viewer" })
	require.WithinDuration(t, clock.Now(), listed[i].LastUse, time.Millisecond)
	c.stub = true // the leader does not answer
	clock.Advance(time.Minute)
	require.Equal(t, int64(3), ask())
}

// TestFollowerMetrics_withoutACopy asks a member that waits for a snapshot: the leader decides who
// reads its metrics.
func TestFollowerMetrics_withoutACopy(t *testing.T) {
	clock := clockwork.NewFakeClockAt(time.Now().UTC())
	c := newCopied(t, clock)
	of, err := monitoring.NewMetrics(monitoring.Parts{Version: "of the follower",
		Usage: storage.NewUsage(c.followerDir, clock), Others: []prometheus.Collector{c.observe(t, false, clock)}})
	require.NoError(t, err)
	options := follower.MetricsOptions{Of: of, Leader: c, Logger: slog.New(slog.DiscardHandler)}
	waiting, err := follower.NewMetrics(options)
	require.NoError(t, err)
	c.handler = waiting.Handler(fleet.Main, c.forward(c.server))
	own := parseScrape(t, c.askHere(t, console.MetricsPath, "viewer"))
	require.InDelta(t, 1, own.value(t, "landfall_build_info", "version", "of the follower"), 0)
	require.InDelta(t, 0, own.value(t, "landfall_fleet_leads"), 0)
	require.Contains(t, own, "landfall_disk_free_bytes")
	require.NotContains(t, own, "landfall_clusters")
	require.Equal(t, http.StatusUnauthorized, c.askHere(t, console.MetricsPath, "nobody").Code)
	require.Equal(t, http.StatusUnauthorized, c.askHere(t, console.MetricsPath, "agent").Code)
	c.ask(t, http.MethodGet, clustersPath, "", "viewer")
	require.Equal(t, int64(1), c.forwarded.Load(), "everything else goes to the leader")
	c.led.Store(false)
	require.Equal(t, http.StatusServiceUnavailable, c.askHere(t, console.MetricsPath, "viewer").Code)

	options.Open = true
	open, err := follower.NewMetrics(options)
	require.NoError(t, err)
	c.handler = open.Handler(fleet.Main, c.forward(c.server))
	require.Equal(t, http.StatusOK, c.askHere(t, console.MetricsPath, "nobody").Code)
}
