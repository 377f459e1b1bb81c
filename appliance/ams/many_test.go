package ams

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"

	"landfall/appliance/ams/outbox"
	"landfall/store"
)

var clusters = flag.Int("clusters", 1000,
	"number of clusters that wait while the site is offline; make test uses 10000")

// skippingClock advances immediately to the end of each wait.
type skippingClock struct{ *clockwork.FakeClock }

// After implements clockwork.Clock.
func (c skippingClock) After(d time.Duration) <-chan time.Time {
	c.Advance(d)
	done := make(chan time.Time, 1)
	done <- c.Now()
	return done
}

// pace limits the relay's calls per second, on a clock that advances by itself.
func (s *site) pace(rate float64) {
	s.relay.options.Workers = 1
	s.relay.options.Client = NewClient(ClientOptions{
		URL: amsURL, TokenURL: ssoURL, Transport: s.wire, Credentials: s.secret, Clock: skippingClock{s.clock},
		Logger: slog.New(slog.DiscardHandler), Rate: rate,
	})
}

// registerMany writes the desired state of many clusters, some thousand in each transaction.
func registerMany(tb testing.TB, db *store.DB, count int, now time.Time) {
	tb.Helper()
	for from := 0; from < count; from += 1000 {
		require.NoError(tb, db.Update(tb.Context(), func(tx *store.Tx) error {
			for i := from; i < min(from+1000, count); i++ {
				at := now.Add(time.Duration(i) * time.Millisecond)
				d := outbox.Desired{Generation: 1, Phase: outbox.Reserved,
					Fields: outbox.Fields{DisplayName: fmt.Sprintf("cluster-%05d", i)}, CreatedAt: at, ChangedAt: at}
				if err := outbox.PutDesired(tx, uuid.NewSHA1(uuid.Nil, fmt.Append(nil, i)).String(), &d); err != nil {
					return err
				}
			}
			return nil
		}))
	}
}

func TestRelay_manyClusters(t *testing.T) {
	t.Run("36 thousands of records, and the connection returns", func(t *testing.T) {
		s := newSite(t)
		s.pace(10)
		s.ams.FullAnswers = true
		registerMany(t, s.db, *clusters, s.clock.Now())
		require.NoError(t, s.scan())
		began := s.clock.Now()
		for rounds := 0; !s.idle(); rounds++ {
			require.Less(t, rounds, *clusters, "the relay makes progress")
			next := s.relay.step(context.Background())
			if rounds == 3 { // a person reads the status while the relay works
				started := time.Now()
				page, err := s.relay.Status(t.Context(), Selection{Limit: 50})
				require.NoError(t, err)
				require.Len(t, page.Clusters, 50)
				require.Equal(t, *clusters, page.Waiting+page.Sent)
				require.NotZero(t, page.SecondsLeft)
				require.Less(t, time.Since(started), 5*time.Second)
			}
			if wait := next.Sub(s.clock.Now()); wait > 0 && !s.idle() {
				s.clock.Advance(wait)
			}
		}
		requests := s.ams.Requests("search", "create")
		require.Len(t, requests, 2**clusters, "a search and a creation for each cluster")
		const second = 10 // calls
		for i, r := range requests[second:] {
			require.GreaterOrEqual(t, r.At.Sub(requests[i].At), 990*time.Millisecond, "ten calls take a second")
		}
		require.Less(t, s.clock.Now().Sub(began), time.Duration(2**clusters)*120*time.Millisecond,
			"the relay uses the permitted rate")
		names := make(map[any]bool)
		for _, row := range s.ams.Rows() {
			require.Equal(t, "Reserved", row["status"])
			names[row["display_name"]] = true
		}
		require.Len(t, names, *clusters)
		first, last := requests[0].Query.Get("search"), requests[len(requests)-2].Query.Get("search")
		require.Contains(t, first, uuid.NewSHA1(uuid.Nil, []byte("0")).String(),
			"the longest waiting cluster is reported first")
		require.Contains(t, last, uuid.NewSHA1(uuid.Nil, fmt.Append(nil, *clusters-1)).String())
	})
}

func TestRelay_hundredRenamesCostOneCall(t *testing.T) {
	s := newSite(t)
	known := s.reserved("known")
	s.offline()
	fresh := s.register("fresh")
	for i := range 100 {
		s.rename(known, fmt.Sprintf("known-%d", i))
		s.rename(fresh, fmt.Sprintf("fresh-%d", i))
	}
	s.settle(time.Minute)
	s.online()
	s.reset()
	s.settle(soon)
	require.Len(t, s.ams.Requests("update"), 1)
	require.Len(t, s.ams.Requests("create"), 1)
	s.requireRow(known, "Reserved", map[string]any{"display_name": "known-99"})
	s.requireRow(fresh, "Reserved", map[string]any{"display_name": "fresh-99"})
}

// Plan returns the calls that the relay then sends.
func TestPlan_matchesTheCallsMade(t *testing.T) {
	s := newSite(t)
	known := s.active("known")
	s.offline()
	s.rename(known, "renamed")
	fresh := s.register("fresh")
	s.install(fresh, "5e0d2b0f-9f59-4f3c-a4b4-0c5f5d3e8a11", "fresh.test")
	gone := s.register("gone")
	s.delete(gone)
	plans, err := s.relay.Plan(t.Context(), "")
	require.NoError(t, err)
	planned := map[string][]string{}
	for _, plan := range plans {
		planned[plan.Name] = plan.Calls
	}
	id := s.recorded(known).SubscriptionID
	require.Equal(t, map[string][]string{
		"renamed": {"change subscription " + id + ": name renamed"},
		"fresh": {
			"search for an existing subscription", "create a subscription named fresh, for site",
			"change subscription (new): cluster's own id 5e0d2b0f-9f59-4f3c-a4b4-0c5f5d3e8a11, console's URL " +
				"https://console-openshift-console.apps.fresh.test, status Active",
		},
	}, planned)
	s.online()
	s.reset()
	s.settle(soon)
	require.Len(t, s.ams.Requests("create"), 1)
	require.Len(t, s.ams.Requests("update"), 2)
	plans, err = s.relay.Plan(t.Context(), "")
	require.NoError(t, err)
	require.Empty(t, plans)
}

func TestRelay_indexesOldDatabase(t *testing.T) {
	s := newSite(t)
	sent, waiting := s.reserved("sent"), s.register("waiting")
	require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error {
		for _, id := range []string{sent, waiting} { // as an earlier release wrote them
			d, r, err := entry(tx, id)
			if err != nil {
				return err
			}
			if err := outbox.Remove(tx, id); err != nil {
				return err
			}
			if err := outbox.DesiredRows.Put(tx, id, &d); err != nil {
				return err
			}
			if id == sent {
				if err := outbox.RecordedRows.Put(tx, id, &r); err != nil {
					return err
				}
			}
		}
		return nil
	}))
	id := s.row(sent)["id"].(string)
	_, err := s.relay.Subscription(t.Context(), id)
	require.ErrorIs(t, err, ErrNoSubscription)
	require.NoError(t, s.relay.index(t.Context()))
	_, err = s.relay.Subscription(t.Context(), id)
	require.NoError(t, err)
	require.NoError(t, s.db.View(func(tx *store.Tx) error {
		all, err := outbox.AllWaiting(tx)
		require.Len(t, all, 1)
		require.Equal(t, waiting, all[0].ClusterID)
		return err
	}))
}

func TestRelay_editedValues(t *testing.T) {
	s := newSite(t)
	id := s.reserved("one")
	require.NoError(t, s.relay.Edit(t.Context(), id, "Ann", outbox.Fields{DisplayName: "the northern pier"}))
	s.settle(soon)
	s.requireRow(id, "Reserved", map[string]any{"display_name": "the northern pier"})
	require.Contains(t, s.events[len(s.events)-2], "Requested by Ann.")
	require.ErrorIs(t, s.relay.Edit(t.Context(), id, "Ann", outbox.Fields{ConsoleURL: "pier"}), ErrEdit)
	require.ErrorIs(t, s.relay.Edit(t.Context(), id, "Ann", outbox.Fields{ExternalClusterID: "pier"}), ErrEdit)
	require.ErrorIs(t, s.relay.Edit(t.Context(), uuid.NewString(), "Ann", outbox.Fields{DisplayName: "x"}), ErrNothing)
}

func TestRelay_prometheusMetrics(t *testing.T) {
	var meter *Metrics
	s := newSite(t, func(o *Options) { meter = o.Metrics })
	s.reserved("sent")
	s.register("waiting")
	s.relay.options.Metrics.Called(Call{Op: "create", Status: 200, Took: time.Second})
	s.relay.options.Metrics.Called(Call{Op: "create"})
	require.Nil(t, meter, "the relay creates its own metrics")
	s.clock.Advance(time.Minute)
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(s.relay))
	families, err := registry.Gather()
	require.NoError(t, err)
	var text bytes.Buffer
	for _, family := range families {
		_, err := expfmt.MetricFamilyToText(&text, family)
		require.NoError(t, err)
	}
	for _, line := range []string{
		`landfall_ams_outbox_clusters{state="waiting"} 1`, `landfall_ams_outbox_clusters{state="sent"} 1`,
		`landfall_ams_oldest_waiting_seconds 60`,
		`landfall_ams_relay_state{state="online"} 1`, `landfall_ams_relay_state{state="offline"} 0`,
		`landfall_ams_requests_total{code="200",op="create"} 1`,
		`landfall_ams_requests_total{code="none",op="create"} 1`,
		`landfall_ams_request_duration_seconds_sum{op="create"} 1`, `landfall_ams_attempts_total{outcome="told"} 1`,
	} {
		require.Contains(t, text.String(), line+"\n")
	}
}
