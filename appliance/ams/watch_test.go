package ams

import (
	"context"
	"strings"
	"sync"
	"testing"

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

// The change log was compacted before the relay read it, and the queued clusters cannot be read at
// first.
func TestRelay_compactedWatchAndFailedRead(t *testing.T) {
	s := newSite(t)
	s.reserved("one")
	revision := s.db.Revision()
	missed := s.registerSilently("missed")
	identity, unreadable := s.relay.identity, "not an identity"
	identityRow := store.NewBucket[string](strings.Trim(identities.Prefix(), "/"), 1)
	require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error {
		return identityRow.Put(tx, identityKey, &unreadable)
	}))
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
