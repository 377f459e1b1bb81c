package store_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"landfall/store"
)

var heap = store.NewBucket[string]("heap", 1)

// heapKeys returns the keys of a model that start with a prefix, in order.
func heapKeys(m map[string]string, prefix string) []string {
	keys := []string{}
	for key := range m {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// changeRows changes some rows at random, in the database and in the model.
func changeRows(random *rand.Rand, tx *store.Tx, m map[string]string) error {
	key, value := fmt.Sprintf("%d/%d", random.IntN(4), random.IntN(12)), strings.Repeat("v", random.IntN(1500))
	if random.IntN(5) < 2 {
		delete(m, key)
		return heap.Delete(tx, key)
	}
	m[key] = value
	return heap.Put(tx, key, &value)
}

// requireHeap requires that the transaction contains the rows of the model, read from the start,
// from the end and from the middle.
func requireHeap(t *testing.T, tx *store.Tx, m map[string]string) {
	t.Helper()
	for _, prefix := range []string{"", "0/", "1/1", "3/", "4"} {
		want := heapKeys(m, prefix)
		var forward, backward []string
		require.NoError(t, heap.Each(tx, prefix, func(key string, value *string) error {
			forward = append(forward, key)
			require.Equal(t, m[key], *value)
			return nil
		}))
		require.NoError(t, heap.EachReverse(tx, prefix, func(key string, value *string) error {
			backward = append(backward, key)
			require.Equal(t, m[key], *value)
			return nil
		}))
		slices.Reverse(backward)
		require.Equal(t, want, append([]string{}, forward...))
		require.Equal(t, want, append([]string{}, backward...))
	}
	var behind []string
	require.NoError(t, heap.KeysAfter(tx, "1/5", func(key string) error {
		behind = append(behind, key)
		return nil
	}))
	require.Equal(t, slices.DeleteFunc(heapKeys(m, ""), func(key string) bool { return key <= "1/5" }),
		append([]string{}, behind...))
}

func TestLevels_rowsAreFoundInEachLevel(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { throughLevels(t, rand.New(rand.NewPCG(seed, 8))) })
		})
	}
}

func throughLevels(t *testing.T, random *rand.Rand) {
	dir, g, m := t.TempDir(), newCommitBlocker(), map[string]string{}
	db, err := store.Open(t.Context(), dir, store.Options{}.OnDisk(noSync, g.update))
	require.NoError(t, err)
	since, frozen := 0, 0 // number of rounds with an immutable memtable
	for round := range 200 {
		next := maps.Clone(m)
		update(t, db, func(tx *store.Tx) error {
			for range random.IntN(4) {
				if err := changeRows(random, tx, next); err != nil {
					return err
				}
			}
			requireHeap(t, tx, next)
			return nil
		})
		m = next
		view(t, db, func(tx *store.Tx) error { requireHeap(t, tx, m); return nil })
		synctest.Wait()
		if g.holds() == 0 {
			since = round
			g.set(true)
		} else if frozen++; round >= since+2 { // before the log is full
			g.set(false)
			synctest.Wait()
		}
		if round%50 == 49 {
			left := killed(t, dir)
			g.set(false)
			require.NoError(t, db.Close())
			if round%100 == 99 {
				dir = left
			}
			db, err = store.Open(t.Context(), dir, store.Options{}.OnDisk(noSync, g.update))
			require.NoError(t, err)
			view(t, db, func(tx *store.Tx) error { requireHeap(t, tx, m); return nil })
		}
	}
	g.set(false)
	require.NoError(t, db.Close())
	requireSound(t, dir)
	require.Greater(t, frozen, 20)
}

func TestLevels_iterationContinuesAfterWrites(t *testing.T) {
	for seed := range uint64(4) {
		for _, back := range []bool{false, true} {
			t.Run(fmt.Sprint("seed ", seed, " back ", back), func(t *testing.T) {
				t.Parallel()
				random := rand.New(rand.NewPCG(seed, 9))
				m := map[string]string{}
				db := openWith(t, t.TempDir(), store.Options{}.OnDisk(noSync, (*bolt.DB).Update))
				walk := heap.Each
				if back {
					walk = heap.EachReverse
				}
				for range 80 {
					update(t, db, func(tx *store.Tx) error {
						prefix := []string{"", "1/", "2"}[random.IntN(3)]
						at, visited := "", false
						// next is the next key that the iteration must return; "" at the end.
						next := func() string {
							ahead := slices.DeleteFunc(heapKeys(m, prefix), func(key string) bool {
								return visited && (back && key >= at || !back && key <= at)
							})
							switch {
							case len(ahead) == 0:
								return ""
							case back:
								return ahead[len(ahead)-1]
							}
							return ahead[0]
						}
						require.NoError(t, walk(tx, prefix, func(key string, value *string) error {
							require.Equal(t, next(), key)
							require.Equal(t, m[key], *value)
							at, visited = key, true
							for range random.IntN(3) {
								if err := changeRows(random, tx, m); err != nil {
									return err
								}
							}
							return nil
						}))
						require.Empty(t, next())
						return changeRows(random, tx, m)
					})
				}
			})
		}
	}
}

func TestLevels_openViewsKeepTheirRevision(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 10))
	g := newCommitBlocker()
	db := openWith(t, t.TempDir(), store.Options{}.OnDisk(noSync, g.update))
	m := map[string]string{}
	var descend func(depth int)
	descend = func(depth int) {
		if depth == 0 {
			return
		}
		seen := maps.Clone(m)
		view(t, db, func(tx *store.Tx) error {
			for range 30 {
				update(t, db, func(tx *store.Tx) error { return changeRows(random, tx, m) })
			}
			descend(depth - 1)
			requireHeap(t, tx, seen)
			return nil
		})
	}
	descend(8)
	require.Greater(t, g.commits(), 3)
}

func TestLevels_viewStartedDuringCheckpoint(t *testing.T) {
	between := func() {}
	db := openWith(t, t.TempDir(), store.Options{}.OnDisk(noSync, (*bolt.DB).Update).BeforeViews(func() { between() }).
		AlwaysCheckpoint())
	value := ""
	write := func() {
		value += "v"
		update(t, db, func(tx *store.Tx) error {
			for _, key := range []string{"a", value, "z"} {
				if err := heap.Put(tx, key, &value); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for commits := range 6 {
		write()
		between = func() {
			between = func() {}
			for range commits {
				write() // each update waits for the checkpoint of an earlier update
			}
		}
		view(t, db, func(tx *store.Tx) error {
			a, err := heap.Get(tx, "a")
			require.NoError(t, err)
			z, err := heap.Get(tx, "z")
			require.NoError(t, err)
			require.Equal(t, a, z)
			require.EqualValues(t, 3*len(*a), tx.Revision())
			require.True(t, heap.Exists(tx, *a))
			require.False(t, heap.Exists(tx, *a+"v"))
			count := 0
			require.NoError(t, heap.Keys(tx, "v", func(string) error { count++; return nil }))
			require.Equal(t, len(*a), count)
			return nil
		})
	}
}

func TestLevels_noViewSeesHalfAnUpdate(t *testing.T) {
	db := openWith(t, t.TempDir(), store.Options{NoSync: true}.OnDisk(noSync, (*bolt.DB).Update).AlwaysCheckpoint())
	var done atomic.Bool
	var writers, readers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			for i := range 150 {
				if err := db.Update(context.Background(), func(tx *store.Tx) error {
					value := fmt.Sprint(w, i)
					for _, key := range []string{"a", "b", fmt.Sprint("c", i%50)} {
						if err := heap.Put(tx, key, &value); err != nil {
							return err
						}
					}
					return heap.Delete(tx, fmt.Sprint("c", (i+25)%50))
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 4 {
		readers.Go(func() {
			for last := uint64(0); !done.Load(); {
				if err := db.View(func(tx *store.Tx) error {
					least := last
					if last = tx.Revision(); last < least {
						t.Errorf("got revision %d after revision %d", last, least)
					}
					if last == 0 {
						return nil
					}
					a, err := heap.Get(tx, "a")
					if err != nil {
						return err
					}
					b, err := heap.Get(tx, "b")
					if err != nil {
						return err
					}
					if *a != *b {
						t.Errorf("%s and %s at revision %d", *a, *b, last)
					}
					modified, err := heap.Modified(tx, "b")
					if modified > last || modified+2 < last {
						t.Errorf("b is of revision %d at revision %d", modified, last)
					}
					return err
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	done.Store(true)
	readers.Wait()
}
