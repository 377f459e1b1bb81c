package ams

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"landfall/appliance/ams/outbox"
	"landfall/store"
)

// registerSilently registers a cluster and does not notify the relay.
func (s *site) registerSilently(name string) string {
	s.Helper()
	id, now := uuid.NewString(), s.clock.Now().UTC()
	require.NoError(s, s.db.Update(s.Context(), func(tx *store.Tx) error {
		return outbox.PutDesired(tx, id, &outbox.Desired{Generation: 1, Phase: outbox.Reserved,
			Fields: outbox.Fields{DisplayName: name}, CreatedAt: now, ChangedAt: now})
	}))
	return id
}

// damage makes a row unreadable.
func (s *site) damage(prefix, key string) {
	s.Helper()
	require.NoError(s, s.db.Update(s.Context(), func(tx *store.Tx) error {
		return store.NewBucket[string](strings.Trim(prefix, "/"), 1).Put(tx, key, new("damaged"))
	}))
}

// The change log was compacted before the relay read it, and the queued clusters cannot be read at
// first.
func TestRelay_compactedWatchAndFailedRead(t *testing.T) {
	s := newSite(t)
	s.reserved("one")
	revision := s.db.Revision()
	missed := s.registerSilently("missed")
	identity := s.relay.identity
	s.damage(identities.Prefix(), identityKey)
	require.NoError(t, s.db.Compact(t.Context(), s.db.Revision()))
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	group.Go(func() { s.relay.watch(ctx, revision) })
	require.NoError(t, s.clock.BlockUntilContext(ctx, 1)) // the read failed
	require.True(t, s.idle())
	require.NoError(t, s.relay.storeIdentity(ctx, identity))
	s.clock.Advance(rescanInterval)
	<-s.relay.wake
	s.settle(soon)
	s.requireRow(missed, "Reserved", map[string]any{"display_name": "missed"})

	later := s.registerSilently("later")
	<-s.relay.wake
	s.settle(soon)
	s.requireRow(later, "Reserved", map[string]any{"display_name": "later"})
}

// A relay that starts with a damaged identity reports nothing, because the credentials may belong
// to another organization. It goes on after the damage was repaired.
func TestRelay_damagedIdentityAtStart(t *testing.T) {
	s := newSite(t)
	s.reserved("one")
	identity := s.relay.identity
	waiting := s.registerSilently("waiting")
	s.damage(identities.Prefix(), identityKey)
	s.relay = New(s.relay.options)
	requests := len(s.ams.Requests())
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- s.relay.Run(ctx) }()
	require.NoError(t, s.clock.BlockUntilContext(ctx, 1))
	status, err := s.relay.Status(ctx, Selection{})
	require.NoError(t, err)
	require.Equal(t, Offline, status.State)
	require.Contains(t, status.Problem, identities.Prefix()+identityKey+" in the database")
	_, _, err = s.relay.ExportFile(ctx)
	require.ErrorContains(t, err, "read the organization of the site")
	require.Len(t, s.ams.Requests(), requests)

	require.NoError(t, s.db.Update(ctx, func(tx *store.Tx) error {
		return identities.Put(tx, identityKey, &identity)
	}))
	s.clock.Advance(rescanInterval)
	require.Eventually(t, func() bool { return len(s.ams.RowsOf(waiting)) == 1 }, time.Minute, time.Millisecond)
	stop()
	require.NoError(t, <-ended)
	require.Equal(t, identity.String(), s.relay.identity.String())
}

// A damaged row of one cluster does not stop the indexes for the others.
func TestOutbox_indexBesideDamagedRow(t *testing.T) {
	s := newSite(t)
	damaged := s.reserved("one")
	s.reserved("two")
	s.damage(outbox.RecordedRows.Prefix(), damaged)
	require.NoError(t, s.db.Update(t.Context(), outbox.Index))
	require.NoError(t, s.db.View(func(tx *store.Tx) error {
		all, err := outbox.AllWaiting(tx)
		require.Len(t, all, 1)
		require.Equal(t, damaged, all[0].ClusterID)
		return err
	}))
}

// A damaged row of one cluster stops neither the start after a restore nor the reports of the
// others.
func TestRelay_damagedRowOfOneCluster(t *testing.T) {
	s := newSite(t)
	damaged, healthy := s.reserved("damaged"), s.reserved("healthy")
	s.damage(outbox.RecordedRows.Prefix(), damaged)
	s.rename(healthy, "renamed")

	require.NoError(t, s.relay.Reverify(t.Context()))
	require.True(t, s.recorded(healthy).Reverify)
	status, err := s.relay.Status(t.Context(), Selection{})
	require.NoError(t, err)
	require.Len(t, status.Clusters, 2)
	require.Equal(t, 1, status.Attention)
	require.Equal(t, 1, status.Waiting)
	s.requireStopped(damaged, outbox.Attention, outbox.RecordedRows.Prefix()+damaged+" in the database")
	found, err := s.relay.Subscriptions(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, healthy, found[0]["cluster_id"])
	_, err = s.relay.Subscriptions(t.Context(), damaged)
	require.True(t, store.IsDamaged(err), "a read of the one subscription reports the damage: %v", err)
	plans, err := s.relay.Plan(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, plans, 1)
	file, err := ReadCourier(bytes.NewReader(s.export()), Export, nil)
	require.NoError(t, err)
	require.Len(t, file.Entries, 1)
	require.Equal(t, healthy, file.Entries[0].ClusterID)
	require.NoError(t, s.db.View(func(tx *store.Tx) error {
		_, err := outbox.RecordedRows.Get(tx, damaged)
		require.True(t, store.IsDamaged(err), "the damaged row is kept for the repair")
		all, err := outbox.AllWaiting(tx)
		require.Len(t, all, 2)
		return err
	}))
}

// lose replaces the recorded state of a cluster, as the repair of a damaged row does.
func (s *site) lose(id string) {
	s.Helper()
	require.NoError(s, s.db.Update(s.Context(), func(tx *store.Tx) error {
		return errors.Join(outbox.RecordedRows.Delete(tx, id), outbox.Lost(tx, id, s.clock.Now().UTC()))
	}))
	s.restart()
}

// AMS's search does not find a subscription for some minutes after its creation. If the row with
// its ID is lost meanwhile, the relay must not create a second one.
func TestRelay_lostRowOfNewSubscription(t *testing.T) {
	s := newSite(t)
	s.ams.SearchLag, s.ams.RepeatMakesAnother = 10*time.Minute, true
	id := s.reserved("one")
	subscription := s.recorded(id).SubscriptionID
	s.lose(id)
	s.rename(id, "two")
	s.settle(soon)
	s.requireRow(id, "Reserved", map[string]any{"display_name": "two"})
	require.Equal(t, subscription, s.recorded(id).SubscriptionID)

	// The subscription is gone, too: the relay creates another one after the quarantine.
	s.ams.Remove(subscription)
	s.lose(id)
	s.settle(soon)
	s.requireRow(id, "Reserved", map[string]any{"display_name": "two"})
}
