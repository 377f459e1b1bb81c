package store_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"landfall/store"
)

// follow reads a watch until it receives the revision or the watch ends.
func follow(w *store.Watcher, until uint64) (seen []store.Change) {
	for batch := range w.C() {
		seen = append(seen, batch...)
		if batch[len(batch)-1].Revision >= until {
			break
		}
	}
	return seen
}

func TestWatch_replaysLogThenFollows(t *testing.T) {
	db := open(t, t.TempDir())
	update(t, db, put("a", cluster{}))
	update(t, db, put("b", cluster{}))
	w := db.Watch(t.Context(), 1)
	update(t, db, remove("a"))
	require.Equal(t, []store.Change{{Revision: 2, Key: "/clusters/b"}, {Revision: 3, Key: "/clusters/a",
		Deleted: true}}, follow(w, 3))
}

func TestWatch_prefixes(t *testing.T) {
	db := open(t, t.TempDir())
	write := func(key string) {
		update(t, db, put(key, cluster{}))
		update(t, db, func(tx *store.Tx) error { return documents.Put(tx, key, &document{}) })
	}
	write("a")
	documentsOnly := db.Watch(t.Context(), 0, documents.Prefix())
	both := db.Watch(t.Context(), 0, "/clusters/b", documents.Prefix())
	write("b")
	require.Equal(t, []store.Change{{Revision: 2, Key: "/documents/a"}, {Revision: 4, Key: "/documents/b"}},
		follow(documentsOnly, 4))
	require.Equal(t, []store.Change{{Revision: 2, Key: "/documents/a"}, {Revision: 3, Key: "/clusters/b"},
		{Revision: 4, Key: "/documents/b"}}, follow(both, 4))
}

// A view must not contain a change that Revision and Watch do not know yet: a client of a fleet
// gets Revision with an answer, and a client of Kubernetes watches from the revision of a list.
func TestWatch_knowsTheRevisionOfEachView(t *testing.T) {
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	written := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		defer close(written)
		for range 5000 {
			assert.NoError(t, db.Update(t.Context(), put("a", cluster{})))
		}
	})
	var seen uint64
	look := func(tx *store.Tx) error {
		seen = tx.Revision()
		return nil
	}
	for isWriting := true; isWriting; {
		select {
		case <-written:
			isWriting = false
		default:
		}
		view(t, db, look)
		require.GreaterOrEqual(t, db.Revision(), seen)
		view(t, db, look)
		ctx, cancel := context.WithCancel(t.Context())
		watcher := db.Watch(ctx, seen)
		cancel()
		follow(watcher, math.MaxUint64)
		require.ErrorIs(t, watcher.Err(), context.Canceled)
	}
	running.Wait()
}

func TestWatch_concurrentWritesAreDeliveredOnce(t *testing.T) {
	db := open(t, t.TempDir())
	const writers, rounds, perUpdate = 4, 60, 5
	const total = writers * rounds * perUpdate
	var running sync.WaitGroup
	for w := range writers {
		running.Go(func() {
			for i := range rounds {
				err := db.Update(context.Background(), func(tx *store.Tx) error {
					for j := range perUpdate {
						if err := put(fmt.Sprintf("%d/%d/%d", w, i, j), cluster{})(tx); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 20 {
		running.Go(func() {
			from := db.Revision()
			for i, change := range follow(db.Watch(t.Context(), from), total) {
				if change.Revision != from+1+uint64(i) {
					t.Errorf("revision %d is number %d of the changes after %d", change.Revision, i, from)
					return
				}
			}
		})
	}
	running.Wait()
}

func TestWatch_slowWatcherGetsCoalescedChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := open(t, t.TempDir())
		w := db.Watch(t.Context(), 0)
		const rounds, perUpdate = 50, 100
		for i := range rounds {
			update(t, db, func(tx *store.Tx) error {
				for j := range perUpdate {
					if err := put(fmt.Sprint(j), cluster{Hosts: 1 + i})(tx); err != nil {
						return err
					}
				}
				return nil
			})
		}
		synctest.Wait()
		seen := follow(w, rounds*perUpdate)
		require.Less(t, len(seen), 2000, "%d changes were coalesced", rounds*perUpdate)
		newest := map[string]uint64{}
		for i, change := range seen {
			require.True(t, i == 0 || change.Revision > seen[i-1].Revision)
			newest[change.Key] = change.Revision
		}
		require.Len(t, newest, perUpdate)
		for j := range perUpdate {
			require.EqualValues(t, (rounds-1)*perUpdate+1+j, newest[fmt.Sprintf("/clusters/%d", j)])
		}
	})
}

func TestWatch_endsWithContextAndDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := open(t, t.TempDir())
		ctx, cancel := context.WithCancel(t.Context())
		idle, undelivered, left := db.Watch(ctx, 0), db.Watch(ctx, 0), db.Watch(t.Context(), 0)
		require.NoError(t, left.Err())
		update(t, db, put("a", cluster{}))
		<-idle.C()
		synctest.Wait()
		cancel()
		synctest.Wait()
		for _, w := range []*store.Watcher{idle, undelivered} {
			_, more := <-w.C()
			require.False(t, more)
			require.ErrorIs(t, w.Err(), context.Canceled)
		}
		require.NoError(t, db.Close())
		_, more := <-left.C()
		require.False(t, more)
		require.ErrorIs(t, left.Err(), store.ErrClosed)
	})
}

func TestWatch_compactedOrFutureRevisionIsRefused(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	update(t, db, func(tx *store.Tx) error {
		for i := range 2500 {
			if err := put(fmt.Sprint(i), cluster{})(tx); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, db.Compact(t.Context(), 2200))
	require.NoError(t, db.Compact(t.Context(), 100), "compacting an earlier revision has no effect")
	require.NoError(t, db.Close())
	db = open(t, dir)
	ends := func(from uint64) error {
		w := db.Watch(t.Context(), from)
		_, more := <-w.C()
		require.False(t, more)
		return w.Err()
	}
	require.ErrorIs(t, ends(2199), store.ErrCompacted)
	require.ErrorIs(t, ends(0), store.ErrCompacted)
	require.ErrorIs(t, ends(2501), store.ErrFutureRevision)
	require.Len(t, follow(db.Watch(t.Context(), 2200), 2500), 300)

	require.NoError(t, db.Compact(t.Context(), 1<<60))
	require.ErrorIs(t, ends(2499), store.ErrCompacted)
	require.NoError(t, db.Close())
	db = open(t, dir)
	w := db.Watch(t.Context(), 2500)
	update(t, db, remove("0"))
	require.Equal(t, []store.Change{{Revision: 2501, Key: "/clusters/0", Deleted: true}}, follow(w, 2501))
}

func TestWatch_deliversOnlyCommittedChanges(t *testing.T) {
	db := openVersioned(t, t.TempDir())
	changes, values := db.Watch(t.Context(), 0), things.Watch(t.Context(), db, 0, store.Range{})
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		for i := range 50 {
			if !assert.NoError(t, db.Update(t.Context(), func(tx *store.Tx) error {
				return things.Put(tx, fmt.Sprint(i),
					[]byte("{}"))
			})) {
				return
			}
		}
	})
	committed := func() (revision uint64) {
		assert.NoError(t, db.View(func(tx *store.Tx) error { revision = tx.Revision(); return nil }))
		return revision
	}
	for one, other := uint64(0), uint64(0); one < 50 || other < 50; {
		select {
		case batch := <-changes.C():
			one = batch[len(batch)-1].Revision
			require.LessOrEqual(t, one, committed())
		case batch := <-values.C():
			other = batch[len(batch)-1].Revision
			require.LessOrEqual(t, other, committed())
		}
	}
}
