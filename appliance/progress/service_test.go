package progress

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/event"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/store"
)

func newService(t *testing.T) *Service {
	clock := clockwork.NewFakeClockAt(start)
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "store"), store.Options{NoSync: true, Clock: clock})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return NewService(Options{DB: db, Clock: clock, Logger: slog.New(slog.DiscardHandler),
		Events: func(event.Filter) (*event.Page, error) { return &event.Page{}, nil }})
}

// put stores a cluster that was installed in the given time.
func put(t *testing.T, s *Service, id string, took time.Duration) {
	row := &record.Cluster{}
	row.API.ID, row.API.Name, row.API.ControlPlaneCount = conv.Pointer(strfmt.UUID(id)), "cluster "+id, 1
	row.API.Status, row.API.StatusInfo = conv.Pointer(lifecycle.ClusterInstalled), conv.Pointer("")
	row.API.InstallStartedAt, row.API.InstallCompletedAt = strfmt.DateTime(start), strfmt.DateTime(start.Add(took))
	err := s.DB.Update(t.Context(), func(tx *store.Tx) error { return record.Clusters.Put(tx, id, row) })
	require.NoError(t, err)
}

// recorded returns the durations of the recorded installations, the oldest first.
func recorded(t *testing.T, s *Service) []string {
	var list []string
	err := s.DB.View(func(tx *store.Tx) error {
		return finished.Each(tx, "", func(_ string, past *Past) error {
			list = append(list, (time.Duration(past.Seconds) * time.Second).String())
			return nil
		})
	})
	require.NoError(t, err)
	return list
}

func run(t *testing.T, s *Service) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	return func() {
		cancel()
		require.NoError(t, <-ended)
	}
}

func TestRun_recordsFinishedInstallations(t *testing.T) {
	s := newService(t)
	put(t, s, "before", time.Minute)
	stop := run(t, s)
	put(t, s, "during", time.Hour)
	require.Eventually(t, func() bool { return len(recorded(t, s)) == 2 }, time.Minute, time.Millisecond)
	stop()
	require.Equal(t, []string{"1m0s", "1h0m0s"}, recorded(t, s))
	stop = run(t, s)
	stop()
	require.Equal(t, []string{"1m0s", "1h0m0s"}, recorded(t, s), "an installation is recorded once")
}

// TestRun_damagedHost starts with an installation that ended without a damaged host.
func TestRun_damagedHost(t *testing.T) {
	s := newService(t)
	put(t, s, "whole", time.Minute)
	put(t, s, "damaged", time.Hour)
	require.NoError(t, s.DB.Update(t.Context(), func(tx *store.Tx) error {
		return errors.Join(store.NewBucket[string]("hosts", 1).Put(tx, "env/host", new("damaged")),
			record.ClusterHosts.Add(tx, "damaged/env/host"))
	}))
	shown, err := s.Progress("damaged")
	require.NoError(t, err)
	require.Equal(t, lifecycle.ClusterInstalled, shown.Status)
	stop := run(t, s)
	require.Eventually(t, func() bool { return len(recorded(t, s)) == 2 }, time.Minute, time.Millisecond)
	stop()
}

// TestRun_goesOnAfterErrors holds that an installation whose events can't be read ends neither the
// service nor the appliance.
func TestRun_goesOnAfterErrors(t *testing.T) {
	s := newService(t)
	put(t, s, "before", time.Minute)
	whole := s.Events
	s.Events = func(of event.Filter) (*event.Page, error) {
		if of.ClusterID == "before" {
			return nil, errors.New("the events can't be read")
		}
		return whole(of)
	}
	stop := run(t, s)
	put(t, s, "during", time.Hour)
	require.Eventually(t, func() bool { return len(recorded(t, s)) == 1 }, time.Minute, time.Millisecond)
	stop()
}

func TestRun_keepsTheNewestRecords(t *testing.T) {
	s := newService(t)
	for i := range keepPast + 3 {
		put(t, s, strconv.Itoa(i), time.Duration(i+1)*time.Minute)
	}
	stop := run(t, s)
	put(t, s, "last", 10*time.Hour)
	require.Eventually(t, func() bool {
		list := recorded(t, s)
		return len(list) == keepPast && list[keepPast-1] == "10h0m0s"
	}, time.Minute, time.Millisecond)
	stop()
	require.Equal(t, "5m0s", recorded(t, s)[0])
}

func TestProgress_unknownCluster(t *testing.T) {
	_, err := newService(t).Progress(clusterID)
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	require.ErrorContains(t, err, clusterID)
}

func TestProgress_estimateByRecords(t *testing.T) {
	s := newService(t)
	put(t, s, "past", time.Hour)
	require.NoError(t, s.recordAll(t.Context()))
	put(t, s, "now", 0)
	row := &record.Cluster{}
	row.API.ID, row.API.ControlPlaneCount = conv.Pointer(strfmt.UUID("now")), 1
	row.API.Status, row.API.StatusInfo = conv.Pointer(lifecycle.ClusterPreparing), conv.Pointer("")
	row.API.InstallStartedAt = strfmt.DateTime(start)
	require.NoError(t, s.DB.Update(t.Context(), func(tx *store.Tx) error {
		return record.Clusters.Put(tx, "now", row)
	}))
	p, err := s.Progress("now")
	require.NoError(t, err)
	require.Equal(t, 1, p.Estimate.Installations)
	require.InDelta(t, 3600, p.Estimate.Longest, 0)
}
