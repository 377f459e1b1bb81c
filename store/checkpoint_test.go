package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"landfall/store"
)

func TestCheckpoint_failureIsRetriedAndLosesNothing(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			eachHome(t, func(t *testing.T, home home) {
				t.Parallel()
				random, faults := rand.New(rand.NewPCG(seed, 11)), rand.New(rand.NewPCG(seed, 12))
				dir, h, file := t.TempDir(), &history{home: home, models: []*model{newModel()}}, &faultyFile{}
				db := h.open(t, dir, store.Options{}.OnDisk(noSync, file.update))
				require.NoError(t, h.update(random, db))
				failures := 0
				file.set(func() fault {
					f := fault(faults.IntN(3))
					failures += int(min(f, 1))
					return f
				})
				for round := range 125 {
					if err := h.update(random, db); err != nil {
						requireRefusal(t, err)
					}
					view(t, db, func(tx *store.Tx) error {
						require.Equal(t, h.acked.Load(), h.at(t, tx))
						return nil
					})
					if round%25 == 24 {
						h.requireOneOf(t, random, h.left(killed(t, dir)), 0)
					}
				}
				file.set(nil)
				require.Greater(t, failures, 5)
				require.NoError(t, db.Close())
				require.Equal(t, []string{store.FileName}, names(t, dir))
				h.requireOneOf(t, random, h.left(dir), 0)
			})
		})
	}
}

// requireRefusal requires the error of an update that failed because the log is full.
func requireRefusal(t *testing.T, err error) {
	t.Helper()
	var failure *store.WriteError
	require.ErrorAs(t, err, &failure)
	require.False(t, failure.Unknown)
	require.ErrorIs(t, err, syscall.EIO)
	require.ErrorContains(t, err, "changes in the log could not be written to the database")
	require.ErrorContains(t, err, "the change was not saved: check the disk and the kernel's log, then try again")
}

func TestCheckpoint_updatesFailOnlyAtLogLimit(t *testing.T) {
	dir, file := t.TempDir(), &faultyFile{}
	db := openWith(t, dir, store.Options{}.OnDisk(noSync, file.update))
	update(t, db, put("first", cluster{}))
	file.set(always(before))
	taken := 0
	var err error
	for ; taken < 1000; taken++ {
		if err = db.Update(t.Context(), put(fmt.Sprintf("%03d", taken), cluster{})); err != nil {
			break
		}
	}
	requireRefusal(t, err)
	require.Greater(t, taken, 32,
		"a record takes 4 KiB: the first log file holds 32 KiB, the second is full at 128 KiB")
	require.Less(t, taken, 64)
	requireRefusal(t, db.Update(t.Context(), put("refused", cluster{})))
	require.Len(t, keys(t, db, ""), 1+taken)
	require.Len(t, keys(t, open(t, killed(t, dir)), ""), 1+taken)
	file.set(nil)
	update(t, db, put("next", cluster{}))
	require.Len(t, keys(t, db, ""), 2+taken)
}

func TestCheckpoint_updatesWaitViewsDoNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newCommitBlocker()
		db, err := store.Open(t.Context(), t.TempDir(), store.Options{}.OnDisk(noSync, g.update))
		require.NoError(t, err)
		update(t, db, put("first", cluster{}))
		g.set(true)
		var taken atomic.Int64
		var running sync.WaitGroup
		running.Go(func() {
			for i := range 40 {
				if err := db.Update(context.Background(), put(fmt.Sprintf("%03d", i), cluster{})); err != nil {
					t.Error(err)
				}
				taken.Add(1)
			}
		})
		synctest.Wait()
		require.EqualValues(t, 2*8-1, taken.Load(), "two log files of eight blocks")
		require.Len(t, keys(t, db, ""), 1+2*8-1)
		g.set(false)
		running.Wait()
		require.Len(t, keys(t, db, ""), 41)
		require.NoError(t, db.Close())
	})
}

func TestClose_failedCheckpointKeepsLog(t *testing.T) {
	dir, file := t.TempDir(), &faultyFile{}
	db, err := store.Open(t.Context(), dir, store.Options{}.OnDisk(noSync, file.update))
	require.NoError(t, err)
	for i := range 12 {
		update(t, db, put(fmt.Sprint(i), cluster{}))
	}
	file.set(always(before))
	require.ErrorIs(t, db.Close(), syscall.EIO)
	require.Subset(t, names(t, dir), store.LogNames)
	require.Len(t, keys(t, open(t, dir), ""), 12)
}

func TestUpdate_failsWithoutCheckpointOfOldLog(t *testing.T) {
	dir, file := t.TempDir(), &faultyFile{}
	for i := range 3 {
		update(t, open(t, dir), put(fmt.Sprint(i), cluster{}))
		dir = killed(t, dir)
		for _, f := range []fault{before, behind} {
			db, err := store.Open(t.Context(), dir, store.Options{}.OnDisk(noSync, file.update))
			require.NoError(t, err)
			require.Len(t, keys(t, db, ""), i+1, "reading requires no write")
			file.set(always(f))
			require.ErrorIs(t, db.Update(t.Context(), put("refused", cluster{})), syscall.EIO)
			require.ErrorIs(t, db.Close(), syscall.EIO)
			file.set(nil)
		}
	}
	require.Len(t, keys(t, open(t, dir), ""), 3)
}

// order records the syncs of a database's files and the commits to its bbolt file, in order.
type order struct {
	faultyFile
	events []string
	failed int // number of syncs that fail
}

func (o *order) sync(file *os.File) error {
	if filepath.Base(file.Name()) == store.FileName {
		o.events = append(o.events, "sync")
		if o.failed > 0 {
			o.failed--
			return errDisk
		}
	}
	return nil
}

func (o *order) update(b *bolt.DB, fn func(*bolt.Tx) error) error {
	o.events = append(o.events, "commit")
	return o.faultyFile.update(b, fn)
}

func TestCheckpoint_metaPagesAreSyncedFirst(t *testing.T) {
	dir, o := t.TempDir(), &order{}
	requireEvents := func(want string) {
		t.Helper()
		require.Equal(t, want, strings.Join(o.events, " "))
		o.events = nil
	}
	db, err := store.Open(t.Context(), dir, store.Options{}.OnDisk(o.sync, o.update))
	require.NoError(t, err)
	requireEvents("")
	update(t, db, put("a", cluster{}))
	requireEvents("sync commit")
	o.set(always(behind))
	require.ErrorIs(t, db.Close(), syscall.EIO)
	requireEvents("commit")
	o.set(nil)

	db, err = store.Open(t.Context(), dir, store.Options{}.OnDisk(o.sync, o.update))
	require.NoError(t, err)
	o.failed = 1
	require.ErrorIs(t, db.Update(t.Context(), put("b", cluster{})), syscall.EIO)
	requireEvents("sync")
	o.set(always(before))
	require.ErrorIs(t, db.Update(t.Context(), put("b", cluster{})), syscall.EIO)
	requireEvents("sync commit")
	o.set(nil)
	update(t, db, put("b", cluster{}))
	requireEvents("sync commit")
	require.NoError(t, db.Close())
	requireEvents("commit")
	require.Equal(t, []string{"a", "b"}, keys(t, open(t, dir), ""))
}

func TestUpdate_tooLargeKeyIsRefused(t *testing.T) {
	db := open(t, t.TempDir())
	long := strings.Repeat("k", 40_000)
	for name, fn := range map[string]func(*store.Tx) error{
		"bucket": put(long, cluster{}),
		"index":  func(tx *store.Tx) error { return halves.Add(tx, long) },
	} {
		t.Run(name, func(t *testing.T) {
			err := db.Update(t.Context(), fn)
			require.ErrorContains(t, err, "key too large")
			require.Less(t, len(err.Error()), 200)
		})
	}
	require.NoError(t, errors.Join(db.Update(t.Context(), put(long[:30_000], cluster{})), db.Close()))
}

func TestReleaseMemory_fileHasAllRowsAndLogContinues(t *testing.T) {
	dir := t.TempDir()
	db := openWith(t, dir, store.Options{}.OnDisk(noSync, (*bolt.DB).Update))
	require.NoError(t, db.ReleaseMemory())
	for i := range 30 {
		update(t, db, put(fmt.Sprintf("%03d", i), cluster{}))
		if i%3 == 0 {
			require.NoError(t, db.ReleaseMemory())
			require.Len(t, keys(t, open(t, copied(t, dir)), ""), i+1)
		}
		require.Len(t, keys(t, open(t, killed(t, dir)), ""), i+1)
		require.Len(t, keys(t, db, ""), i+1)
	}
}
