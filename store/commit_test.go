package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
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

func TestGroupCommit_failedUpdateDoesNotAffectOthers(t *testing.T) {
	failure := errors.New("no")
	index, deadlines := store.NewIndex("by-name"), store.NewDeadlines("timers")
	for name, bad := range map[string]func(*store.Tx) error{
		"fails before a write": func(*store.Tx) error { return failure },
		"fails after a write": func(tx *store.Tx) error {
			return errors.Join(put("a", cluster{Name: "bad"})(tx), remove("kept")(tx), put("bad", cluster{})(tx),
				index.Add(tx, "bad"), index.Remove(tx, "kept"), deadlines.Set(tx, "kept", later), failure)
		},
		"panics": func(tx *store.Tx) error {
			if err := put("bad", cluster{})(tx); err != nil {
				return err
			}
			panic(failure)
		},
		"ends its goroutine": func(tx *store.Tx) error {
			if err := put("bad", cluster{})(tx); err != nil {
				return err
			}
			runtime.Goexit()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db, letGo := openHeld(t, t.TempDir(), new(heldDisk))
				wait := inLine(db, func(tx *store.Tx) error {
					return errors.Join(put("a", cluster{Name: "a"})(tx), index.Add(tx, "kept"),
						deadlines.Set(tx, "kept", now))
				}, bad, put("b", cluster{Name: "b"}))
				w := db.Watch(t.Context(), db.Revision())
				require.NoError(t, letGo())
				errs := wait()
				require.NoError(t, errs[0])
				require.NoError(t, errs[2])
				if name == "ends its goroutine" {
					require.ErrorIs(t, errs[1], errEnded)
				} else {
					require.ErrorIs(t, errs[1], failure)
				}
				require.Equal(t, []string{"a", "b", "held", "kept"}, keys(t, db, ""))
				require.EqualValues(t, 4, db.Revision())
				var changes []store.Change
				for len(changes) < 3 {
					changes = append(changes, <-w.C()...)
				}
				require.Equal(t, []store.Change{{Revision: 2, Key: "/clusters/held"}, {Revision: 3, Key: "/clusters/a"},
					{Revision: 4, Key: "/clusters/b"}}, changes)
				view(t, db, func(tx *store.Tx) error {
					got, err := clusters.Get(tx, "a")
					require.NoError(t, err)
					require.Equal(t, "a", got.Name)
					require.True(t, index.Exists(tx, "kept"))
					require.False(t, index.Exists(tx, "bad"))
					at, _, err := deadlines.Next(tx)
					require.NoError(t, err)
					require.Equal(t, now, at)
					return nil
				})
			})
		})
	}
}

func TestGroupCommit_updatesSeeUncommittedRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, letGo := openHeld(t, t.TempDir(), new(heldDisk))
		exists := errors.New("exists")
		create := func(key string) func(tx *store.Tx) error {
			return func(tx *store.Tx) error {
				if clusters.Exists(tx, key) {
					return exists
				}
				return put(key, cluster{})(tx)
			}
		}
		wait := inLine(db, create("held"), create("a"), create("a"))
		require.Equal(t, []string{"kept"}, keys(t, db, ""), "other transactions do not see the rolled back rows")
		require.EqualValues(t, 1, db.Revision())
		require.NoError(t, letGo())
		errs := wait()
		require.ErrorIs(t, errs[0], exists)
		require.NoError(t, errs[1])
		require.ErrorIs(t, errs[2], exists)
	})
}

func TestGroupCommit_laterGroupIsRolledBackToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		db, letGo := openHeld(t, dir, &heldDisk{err: &os.PathError{Op: "fdatasync", Path: "log", Err: syscall.EIO}})
		w := db.Watch(t.Context(), db.Revision())
		checked := false
		wait := inLine(db,
			func(tx *store.Tx) error { checked = clusters.Exists(tx, "held"); return nil },
			func(*store.Tx) error { return errors.New("rejected because of the rows read") },
			put("kept", cluster{Hosts: 2}),
			func(tx *store.Tx) error { return remove("kept")(tx) })
		failed := append([]error{letGo()}, wait()...)
		require.True(t, checked)
		for i, err := range failed {
			var failure *store.WriteError
			require.ErrorAs(t, err, &failure, "%d", i)
			require.ErrorIs(t, err, syscall.EIO)
			require.False(t, failure.Unknown)
			require.True(t, i < 3 || strings.Contains(err.Error(), "an earlier change was rolled back"), err)
		}
		require.EqualValues(t, 1, db.Revision())
		update(t, db, put("next", cluster{}))
		require.Equal(t, []store.Change{{Revision: 5, Key: "/clusters/next"}}, <-w.C(),
			"no other change uses the revisions of a failed update")
		for _, db := range []*store.DB{db, open(t, killed(t, dir))} {
			require.Equal(t, []string{"kept", "next"}, keys(t, db, ""))
			view(t, db, func(tx *store.Tx) error {
				kept, err := clusters.Get(tx, "kept")
				require.NoError(t, err)
				require.Equal(t, 1, kept.Hosts)
				return nil
			})
		}
	})
}

func TestUpdate_contextEndsWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := open(t, t.TempDir())
		release := make(chan struct{})
		var running sync.WaitGroup
		running.Go(func() {
			if err := db.Update(context.Background(), func(*store.Tx) error { <-release; return nil }); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		var err error
		running.Go(func() { err = db.Update(ctx, put("a", cluster{})) })
		synctest.Wait()
		cancel()
		synctest.Wait()
		require.ErrorIs(t, err, context.Canceled, "Update must not wait for the writer")
		close(release)
		running.Wait()
		require.ErrorIs(t, db.Update(ctx, put("a", cluster{})), context.Canceled)
		update(t, db, put("b", cluster{}))
		require.Equal(t, []string{"b"}, keys(t, db, ""))
	})
}

func TestClose_finishesRunningAndRefusesWaitingUpdates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		db := open(t, dir)
		release := make(chan struct{})
		var first, second, closed error
		var running sync.WaitGroup
		running.Go(func() {
			first = db.Update(context.Background(), func(tx *store.Tx) error {
				<-release
				return put("a", cluster{})(tx)
			})
		})
		synctest.Wait()
		running.Go(func() { second = db.Update(context.Background(), put("b", cluster{})) })
		synctest.Wait()
		running.Go(func() { closed = db.Close() })
		synctest.Wait()
		close(release)
		running.Wait()
		require.NoError(t, first)
		require.NoError(t, closed)
		require.ErrorIs(t, second, store.ErrClosed)
		require.Equal(t, []string{"a"}, keys(t, open(t, dir), ""))
	})
}

func TestClose_waitsForDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		db, letGo := openHeld(t, dir, new(heldDisk))
		wait := inLine(db, put("a", cluster{}), put("b", cluster{}))
		closed := make(chan error, 1)
		go func() { closed <- db.Close() }()
		synctest.Wait()
		require.ErrorIs(t, db.Update(t.Context(), put("late", cluster{})), store.ErrClosed)
		require.NoError(t, letGo())
		require.Equal(t, []error{nil, nil}, wait())
		require.NoError(t, <-closed)
		require.Equal(t, []string{"a", "b", "held", "kept"}, keys(t, open(t, dir), ""))
	})
}

func TestGroupCommit_failingDiskWithManyWriters(t *testing.T) {
	var calls atomic.Uint64
	syncs := func(file *os.File) error {
		// Two of seven syncs of the log fail: the second, and the third, which discards the record
		// of the second.
		if n := calls.Add(1) % 7; filepath.Base(file.Name()) != store.FileName && (n == 2 || n == 3) {
			return &os.PathError{Op: "fdatasync", Path: file.Name(), Err: syscall.EIO}
		}
		return nil
	}
	dir := t.TempDir()
	db := openWith(t, dir, store.Options{}.OnDisk(syncs, (*bolt.DB).Update))
	const writers, rounds = 8, 150
	var running sync.WaitGroup
	var acknowledged [writers]int
	for w := range writers {
		running.Go(func() {
			for range rounds {
				err := db.Update(context.Background(), func(tx *store.Tx) error {
					for _, key := range []string{"all", fmt.Sprint(w)} {
						c, err := clusters.Get(tx, key)
						if errors.Is(err, store.ErrNotFound) {
							c, err = &cluster{}, nil
						}
						if err != nil {
							return err
						}
						c.Hosts++
						if err := clusters.Put(tx, key, c); err != nil {
							return err
						}
					}
					return nil
				})
				if err == nil {
					acknowledged[w]++
				}
			}
		})
	}
	running.Wait()
	require.NoError(t, db.Close())
	db = open(t, dir)
	all := 0
	view(t, db, func(tx *store.Tx) error {
		for w, want := range acknowledged {
			require.Positive(t, want)
			c, err := clusters.Get(tx, fmt.Sprint(w))
			require.NoError(t, err)
			require.Equal(t, want, c.Hosts)
			all += want
		}
		c, err := clusters.Get(tx, "all")
		require.NoError(t, err)
		require.Equal(t, all, c.Hosts)
		return nil
	})
	require.Less(t, all, writers*rounds)
	require.Greater(t, db.Revision(), uint64(2*all), "no other change uses the revisions of a failed update")
}

func TestGroupCommit_manyWritersLoseNoUpdate(t *testing.T) {
	db := open(t, t.TempDir())
	failure := errors.New("no")
	const writers, rounds = 16, 40
	var running sync.WaitGroup
	for w := range writers {
		running.Go(func() {
			for i := range rounds {
				err := db.Update(context.Background(), func(tx *store.Tx) error {
					c, err := clusters.Get(tx, "counter")
					if errors.Is(err, store.ErrNotFound) {
						c, err = &cluster{}, nil
					}
					if err != nil {
						return err
					}
					c.Hosts++
					if err := clusters.Put(tx, "counter", c); err != nil {
						return err
					}
					if i%4 == 3 {
						return failure
					}
					return put(fmt.Sprintf("%d/%d", w, i), cluster{Hosts: c.Hosts})(tx)
				})
				if (i%4 == 3) != errors.Is(err, failure) {
					t.Errorf("update %d of writer %d: %v", i, w, err)
				}
			}
		})
	}
	running.Wait()
	view(t, db, func(tx *store.Tx) error {
		counter, err := clusters.Get(tx, "counter")
		require.NoError(t, err)
		require.Equal(t, writers*rounds*3/4, counter.Hosts)
		return nil
	})
	require.Len(t, keys(t, db, ""), 1+writers*rounds*3/4)
	require.EqualValues(t, 2*writers*rounds*3/4, db.Revision())
}
