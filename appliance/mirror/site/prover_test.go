package site

import (
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/store"
)

func TestProvenBlobs_expire(t *testing.T) {
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	clock := clockwork.NewFakeClock()
	blobs := &provenBlobs{db: db, clock: clock}
	require.NoError(t, blobs.Mark(t.Context(), "registry/a@sha256:1"))
	require.True(t, blobs.Has("registry/a@sha256:1"))
	blobs.clock = clockwork.NewFakeClockAt(clock.Now().Add(-time.Hour))
	require.False(t, blobs.Has("registry/a@sha256:1"), "the clock was corrected")
	blobs.clock = clock
	clock.Advance(blobProofLifetime)
	require.False(t, blobs.Has("registry/a@sha256:1"))
	require.NoError(t, blobs.Mark(t.Context(), "registry/a@sha256:2"))
	require.NoError(t, db.View(func(tx *store.Tx) error {
		var keys []string
		err := blobProofs.Each(tx, "", func(key string, _ *time.Time) error { keys = append(keys, key); return nil })
		require.Equal(t, []string{blobKey("registry/a@sha256:2")}, keys, "old records are deleted")
		return err
	}))
}
