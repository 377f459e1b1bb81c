package store_test

import (
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"landfall/store"
)

// TestActivity_hangingDisk opens a store on a disk whose sync hangs and then fails.
func TestActivity_hangingDisk(t *testing.T) {
	clock := clockwork.NewFakeClock()
	var hang atomic.Bool
	hangs, release := make(chan struct{}, 1), make(chan struct{})
	sync := func(file *os.File) error {
		if !hang.CompareAndSwap(true, false) {
			return store.Datasync(file)
		}
		hangs <- struct{}{}
		<-release
		return errors.New("input/output error")
	}
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{Clock: clock}.OnDisk(sync, (*bolt.DB).Update))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	rows := store.NewBucket[string]("hosts", 1)
	write := func(key string) error {
		return db.Update(t.Context(), func(tx *store.Tx) error { return rows.Put(tx, key, &key) })
	}
	require.NoError(t, write("first"))
	before := db.Activity()
	require.Zero(t, before.StalledSince, "no update runs")
	require.NoError(t, before.Failure)

	hang.Store(true)
	began, ended := clock.Now(), make(chan error)
	go func() { ended <- write("second") }()
	<-hangs
	clock.Advance(100 * time.Second)
	require.Equal(t, began.UnixNano(), db.Activity().StalledSince.UnixNano())
	require.NoError(t, db.View(func(*store.Tx) error { return nil }), "reads go on")
	close(release)
	require.ErrorContains(t, <-ended, "input/output error")
	failed := db.Activity()
	require.Zero(t, failed.StalledSince)
	require.ErrorContains(t, failed.Failure, "input/output error")
	require.Equal(t, before.Failed+1, failed.Failed)
	require.GreaterOrEqual(t, failed.Writing, 100*time.Second)

	require.NoError(t, write("second"))
	require.NoError(t, db.Activity().Failure, "the disk works again")
	require.Equal(t, before.Commits+1, db.Activity().Commits)
}
