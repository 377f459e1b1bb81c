package absence_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/registry"
	"landfall/appliance/registry/absence"
	"landfall/store"
)

// Case 54 (the list is in registry/faults_test.go): the appliance stops while clusters use its
// registry. Each cluster then shows since when the registry was away. command/leaving_test.go tests
// the question with their names.
func TestFault54_awayWhileClustersDepend(t *testing.T) {
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	clock := clockwork.NewFakeClock()
	depending, host := []registry.Dependent{}, "192.0.2.7:5000"
	open := func() *absence.Log {
		return absence.Open(t.Context(), db, clock, host,
			func() ([]registry.Dependent, error) { return depending, nil }, slog.New(slog.DiscardHandler))
	}
	run := func(log *absence.Log) (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- log.Run(ctx) }()
		return func() { cancel(); require.NoError(t, <-ended) }
	}
	of := func(log *absence.Log, id string) []absence.Absence {
		found, err := log.Of(id)
		require.NoError(t, err)
		return found
	}
	stop := run(open())
	stop()
	clock.Advance(time.Hour)
	log := open()
	require.Empty(t, of(log, "one"), "nobody depended on it")
	depending = []registry.Dependent{{ID: "one"}}
	stop = run(log)
	clock.Advance(time.Hour)
	stop()
	left := clock.Now().UTC()
	clock.Advance(3 * time.Hour)
	log = open()
	require.Equal(t, []absence.Absence{{From: left, To: clock.Now().UTC(), Clusters: []string{"one"}}}, of(log, "one"))
	require.Empty(t, of(log, "two"))
	require.Len(t, of(open(), "one"), 1, "a second start at the same time adds none")
}

// Case 34 (the list is in registry/faults_test.go): the address of the laptop changes. The
// appliance names the clusters that use the former one. The tests of authority and siteservice
// check that the certificate and the DNS record change too.
func TestFault34_addressChanges(t *testing.T) {
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	old := registry.Dependent{ID: "one", Name: "one", Domain: "site.test"}
	depending := []registry.Dependent{old}
	at := func(host string) []string {
		log := absence.Open(t.Context(), db, clockwork.NewFakeClock(), host,
			func() ([]registry.Dependent, error) { return depending, nil }, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, log.Run(ctx))
		notes, err := log.Misled(depending)
		require.NoError(t, err)
		return notes
	}
	require.Empty(t, at("192.0.2.7:5000"))
	depending = append(depending, registry.Dependent{ID: "two", Name: "two", Domain: "site.test"})
	notes := at("192.0.2.9:5000")
	require.Len(t, notes, 1, "the new cluster has the new address")
	require.Contains(t, notes[0], "one.site.test was installed with the registry at 192.0.2.7:5000, which is at "+
		"192.0.2.9:5000 now")
	require.Empty(t, at("192.0.2.7:5000")[1:], "the second cluster is named when the address is back")
}

// The appliance goes on when the time can't be stored, such as on a full disk.
func TestLog_notStored(t *testing.T) {
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true})
	require.NoError(t, err)
	require.NoError(t, db.Close())
	log := absence.Open(t.Context(), db, clockwork.NewFakeClock(), "192.0.2.7:5000",
		func() ([]registry.Dependent, error) { return nil, nil }, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, log.Run(ctx))
}
