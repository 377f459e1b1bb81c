package store_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"landfall/store"
)

// together starts the updates while the writer is busy, so that they share a transaction in the order given, and returns their errors. An update that ended
// its goroutine leaves errEnded, one that panicked what it panicked with.
func together(t *testing.T, db *store.DB, fns ...func(*store.Tx) error) []error {
	t.Helper()
	gate := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		if err := db.Update(context.Background(), func(*store.Tx) error { <-gate; return nil }); err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	errs := make([]error, len(fns))
	for i, fn := range fns {
		running.Go(func() {
			errs[i] = errEnded
			defer func() {
				if reason := recover(); reason != nil {
					errs[i] = reason.(error)
				}
			}()
			errs[i] = db.Update(context.Background(), fn)
		})
		synctest.Wait()
	}
	close(gate)
	running.Wait()
	return errs
}

var errEnded = errors.New("the goroutine ended")

func TestAFunctionThatFailsDoesNotDisturbTheOthersOfItsTransaction(t *testing.T) {
	failure := errors.New("no")
	index, deadlines := store.NewIndex("by-name"), store.NewDeadlines("timers")
	for name, bad := range map[string]func(*store.Tx) error{
		"before it writes": func(*store.Tx) error { return failure },
		"after it wrote": func(tx *store.Tx) error {
			return errors.Join(put("a", cluster{Name: "bad"})(tx), remove("kept")(tx), put("bad", cluster{})(tx),
				index.Add(tx, "bad"), index.Remove(tx, "kept"), deadlines.Set(tx, "kept", later), failure)
		},
		"by a panic": func(tx *store.Tx) error {
			if err := put("bad", cluster{})(tx); err != nil {
				return err
			}
			panic(failure)
		},
		"by ending its goroutine": func(tx *store.Tx) error {
			if err := put("bad", cluster{})(tx); err != nil {
				return err
			}
			runtime.Goexit()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := open(t, t.TempDir())
				update(t, db, func(tx *store.Tx) error {
					return errors.Join(put("kept", cluster{Hosts: 1})(tx), index.Add(tx, "kept"), deadlines.Set(tx, "kept", now))
				})
				w := db.Watch(t.Context(), db.Revision())
				errs := together(t, db, put("a", cluster{Name: "a"}), bad, put("b", cluster{Name: "b"}))
				require.NoError(t, errs[0])
				require.NoError(t, errs[2])
				if name == "by ending its goroutine" {
					require.ErrorIs(t, errs[1], errEnded)
				} else {
					require.ErrorIs(t, errs[1], failure)
				}
				require.Equal(t, []string{"a", "b", "kept"}, keys(t, db, ""))
				require.EqualValues(t, 3, db.Revision())
				require.Equal(t, []store.Change{{Revision: 2, Key: "/clusters/a"}, {Revision: 3, Key: "/clusters/b"}}, <-w.C())
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

func TestUpdatesThatWaitTogetherSeeWhatThoseBeforeThemWrote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := open(t, t.TempDir())
		exists := errors.New("exists")
		create := func(tx *store.Tx) error {
			if clusters.Exists(tx, "a") {
				return exists
			}
			return put("a", cluster{})(tx)
		}
		errs := together(t, db, create, create)
		require.NoError(t, errs[0])
		require.ErrorIs(t, errs[1], exists)
	})
}

func TestAnUpdateWhoseContextEndsInLineIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := open(t, t.TempDir())
		gate := make(chan struct{})
		var running sync.WaitGroup
		running.Go(func() {
			if err := db.Update(context.Background(), func(*store.Tx) error { <-gate; return nil }); err != nil {
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
		require.ErrorIs(t, err, context.Canceled, "it does not wait for the writer")
		close(gate)
		running.Wait()
		require.ErrorIs(t, db.Update(ctx, put("a", cluster{})), context.Canceled)
		update(t, db, put("b", cluster{}))
		require.Equal(t, []string{"b"}, keys(t, db, ""))
	})
}

func TestCloseFinishesTheUpdateThatRunsAndRefusesThoseInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		db := open(t, dir)
		gate := make(chan struct{})
		var first, second, closed error
		var running sync.WaitGroup
		running.Go(func() {
			first = db.Update(context.Background(), func(tx *store.Tx) error {
				<-gate
				return put("a", cluster{})(tx)
			})
		})
		synctest.Wait()
		running.Go(func() { second = db.Update(context.Background(), put("b", cluster{})) })
		synctest.Wait()
		running.Go(func() { closed = db.Close() })
		synctest.Wait()
		close(gate)
		running.Wait()
		require.NoError(t, first)
		require.NoError(t, closed)
		require.ErrorIs(t, second, store.ErrClosed)
		require.Equal(t, []string{"a"}, keys(t, open(t, dir), ""))
	})
}

func TestManyWritersLoseNoUpdate(t *testing.T) {
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
