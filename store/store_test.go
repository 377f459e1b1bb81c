package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/store"
)

func TestBucket_valueSurvivesReopening(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	want := cluster{Name: "north", Hosts: 3, Tags: map[string]string{"site": "ridge"}}
	update(t, db, put("a", want))
	require.NoError(t, db.Close())

	db = open(t, dir)
	require.EqualValues(t, 1, db.Revision())
	view(t, db, func(tx *store.Tx) error {
		got, err := clusters.Get(tx, "a")
		require.NoError(t, err)
		require.Equal(t, want, *got)
		require.True(t, clusters.Exists(tx, "a"))
		require.False(t, clusters.Exists(tx, "b"))
		_, err = clusters.Get(tx, "b")
		require.ErrorIs(t, err, store.ErrNotFound)
		require.ErrorContains(t, err, "/clusters/b")
		return nil
	})
}

func TestRevision_sameBytesAreNoChange(t *testing.T) {
	db := open(t, t.TempDir())
	update(t, db, func(tx *store.Tx) error {
		return errors.Join(put("a", cluster{Name: "a"})(tx), put("b", cluster{Name: "b"})(tx))
	})
	require.EqualValues(t, 2, db.Revision())
	update(t, db, put("a", cluster{Name: "a"}))
	require.EqualValues(t, 2, db.Revision())
	update(t, db, remove("missing"))
	require.EqualValues(t, 2, db.Revision())
	update(t, db, put("a", cluster{Name: "A"}))
	update(t, db, remove("b"))
	require.EqualValues(t, 4, db.Revision())
	view(t, db, func(tx *store.Tx) error {
		for name, held := range map[string]bool{"A": true, "a": false} {
			is, err := clusters.Holds(tx, "a", &cluster{Name: name})
			require.NoError(t, err)
			require.Equal(t, held, is)
		}
		is, err := clusters.Holds(tx, "b", &cluster{Name: "b"})
		require.NoError(t, err)
		require.False(t, is, "the key was removed from the index")
		require.EqualValues(t, 4, tx.Revision())
		modified, err := clusters.Modified(tx, "a")
		require.NoError(t, err)
		require.EqualValues(t, 3, modified)
		_, err = clusters.Modified(tx, "b")
		require.ErrorIs(t, err, store.ErrNotFound)
		return nil
	})
}

func TestUpdate_failedFunctionWritesNothing(t *testing.T) {
	db := open(t, t.TempDir())
	update(t, db, put("a", cluster{Name: "a"}))
	failure := errors.New("no")
	err := db.Update(t.Context(), func(tx *store.Tx) error {
		require.NoError(t, errors.Join(put("a", cluster{Name: "changed"})(tx), put("b", cluster{})(tx),
			remove("a")(tx)))
		require.EqualValues(t, 4, tx.Revision())
		return failure
	})
	require.Same(t, failure, err)
	require.EqualValues(t, 1, db.Revision())
	require.Equal(t, []string{"a"}, keys(t, db, ""))
}

func TestView_seesOneRevision(t *testing.T) {
	db := open(t, t.TempDir())
	update(t, db, put("a", cluster{Hosts: 1}))
	view(t, db, func(tx *store.Tx) error {
		update(t, db, put("a", cluster{Hosts: 2}))
		got, err := clusters.Get(tx, "a")
		require.NoError(t, err)
		require.Equal(t, 1, got.Hosts)
		require.EqualValues(t, 1, tx.Revision())
		return nil
	})
	require.EqualValues(t, 2, db.Revision())
}

func TestDeadlines_dueInOrderOfTime(t *testing.T) {
	db := open(t, t.TempDir())
	deadlines := store.NewDeadlines("timers")
	start := time.Date(2026, 11, 21, 10, 0, 0, 1, time.UTC)
	update(t, db, func(tx *store.Tx) error {
		return errors.Join(
			deadlines.Set(tx, "late", start.Add(time.Hour)),
			deadlines.Set(tx, "soon", start.Add(2)),
			deadlines.Set(tx, "now", start.In(time.FixedZone("east", 3600))),
			deadlines.Set(tx, "never", time.Time{}.Add(1)),
			deadlines.Set(tx, "late", start.Add(1)),
			deadlines.Clear(tx, "never"),
			deadlines.Clear(tx, "missing"))
	})
	view(t, db, func(tx *store.Tx) error {
		due, err := deadlines.Due(tx, start.Add(1), 0)
		require.NoError(t, err)
		require.Equal(t, []store.Deadline{{Key: "now", At: start}, {Key: "late", At: start.Add(1)}}, due)
		due, err = deadlines.Due(tx, start.Add(time.Hour), 1)
		require.NoError(t, err)
		require.Len(t, due, 1)
		at, ok, err := deadlines.Next(tx)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, start, at)
		return nil
	})
	require.Zero(t, db.Revision())
}

func TestEach_keyOrderPrefixAndStop(t *testing.T) {
	db := open(t, t.TempDir())
	other := store.NewBucket[cluster]("clusters0", 1) // sorts directly after "/clusters/"
	update(t, db, func(tx *store.Tx) error {
		for _, key := range []string{"b/2", "a", "b/1", "c", "b/\xff"} {
			require.NoError(t, clusters.Put(tx, key, &cluster{Hosts: len(key)}))
		}
		return other.Put(tx, "z", &cluster{})
	})
	for _, c := range []struct {
		prefix string
		limit  int
		want   []string
	}{
		{"", 9, []string{"a", "b/1", "b/2", "b/\xff", "c"}},
		{"b/", 9, []string{"b/1", "b/2", "b/\xff"}},
		{"b/\xff", 9, []string{"b/\xff"}},
		{"b", 2, []string{"b/1", "b/2"}},
		{"none", 9, nil},
	} {
		t.Run(fmt.Sprintf("%q up to %d", c.prefix, c.limit), func(t *testing.T) {
			view(t, db, func(tx *store.Tx) error {
				var forward, backward, bare []string
				require.NoError(t, clusters.Each(tx, c.prefix, func(key string, value *cluster) error {
					require.Equal(t, len(key), value.Hosts)
					if forward = append(forward, key); len(forward) == c.limit {
						return store.ErrStop
					}
					return nil
				}))
				require.NoError(t, clusters.EachReverse(tx, c.prefix, func(key string, _ *cluster) error {
					backward = append(backward, key)
					return nil
				}))
				require.NoError(t, clusters.Keys(tx, c.prefix, func(key string) error {
					if bare = append(bare, key); len(bare) == c.limit {
						return fmt.Errorf("enough: %w", store.ErrStop)
					}
					return nil
				}))
				require.Equal(t, c.want, forward)
				require.Equal(t, c.want, bare)
				slices.Reverse(backward)
				if len(c.want) < c.limit {
					require.Equal(t, c.want, backward)
				}
				return nil
			})
		})
	}
	failure := errors.New("no")
	require.Same(t, failure, db.View(func(tx *store.Tx) error {
		return clusters.Each(tx, "", func(string, *cluster) error { return failure })
	}))
}

func TestEach_mayWriteAndDelete(t *testing.T) {
	for _, direction := range []string{"forward", "backward"} {
		t.Run(direction, func(t *testing.T) {
			db := open(t, t.TempDir())
			update(t, db, func(tx *store.Tx) error {
				for i := range 500 {
					require.NoError(t, clusters.Put(tx, fmt.Sprintf("%04d", i), &cluster{Hosts: i,
						Name: strings.Repeat("x", 200)}))
				}
				return nil
			})
			visited := 0
			update(t, db, func(tx *store.Tx) error {
				walk := clusters.Each
				if direction == "backward" {
					walk = clusters.EachReverse
				}
				return walk(tx, "", func(key string, c *cluster) error {
					visited++
					if c.Hosts%3 == 0 {
						return clusters.Put(tx, key, &cluster{Hosts: -1})
					}
					return clusters.Delete(tx, key)
				})
			})
			require.Equal(t, 500, visited)
			require.Len(t, keys(t, db, ""), 167)
		})
	}
}

func TestIndex_raisesNoRevision(t *testing.T) {
	db := open(t, t.TempDir())
	byCluster := store.NewIndex("hosts-by-cluster")
	update(t, db, func(tx *store.Tx) error {
		return errors.Join(byCluster.Add(tx, "c1/h2"), byCluster.Add(tx, "c1/h1"), byCluster.Add(tx, "c1/h1"),
			byCluster.Add(tx, "c2/h3"),
			byCluster.Add(tx, "c1/h4"), byCluster.Remove(tx, "c1/h4"), byCluster.Remove(tx, "c1/h4"))
	})
	view(t, db, func(tx *store.Tx) error {
		var found []string
		require.NoError(t, byCluster.Keys(tx, "c1/", func(key string) error {
			found = append(found, key)
			return nil
		}))
		require.Equal(t, []string{"c1/h1", "c1/h2"}, found)
		require.True(t, byCluster.Exists(tx, "c2/h3"))
		require.False(t, byCluster.Exists(tx, "c1/h4"))
		return nil
	})
	require.Zero(t, db.Revision())
}

func TestUpdate_emptyKeyIsRefused(t *testing.T) {
	db := open(t, t.TempDir())
	for name, fn := range map[string]func(*store.Tx) error{
		"bucket":    put("", cluster{}),
		"index":     func(tx *store.Tx) error { return store.NewIndex("x").Add(tx, "") },
		"deadlines": func(tx *store.Tx) error { return store.NewDeadlines("x").Set(tx, "", time.Now()) },
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, db.Update(t.Context(), fn), "the key is empty")
		})
	}
}

func TestView_cannotWrite(t *testing.T) {
	db := open(t, t.TempDir())
	update(t, db, put("a", cluster{}))
	for name, fn := range map[string]func(*store.Tx) error{
		"put":      put("b", cluster{}),
		"delete":   remove("a"),
		"index":    func(tx *store.Tx) error { return store.NewIndex("x").Add(tx, "a") },
		"deadline": func(tx *store.Tx) error { return store.NewDeadlines("x").Set(tx, "a", time.Now()) },
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, db.View(fn), store.ErrReadOnly)
		})
	}
}

func TestClose_laterCallsReturnErrClosed(t *testing.T) {
	db := open(t, t.TempDir())
	require.NoError(t, db.Close())
	require.NoError(t, db.Close())
	require.ErrorIs(t, db.Update(t.Context(), put("a", cluster{})), store.ErrClosed)
	require.ErrorIs(t, db.View(func(*store.Tx) error { return nil }), store.ErrClosed)
	w := db.Watch(t.Context(), 0)
	_, more := <-w.C()
	require.False(t, more)
	require.ErrorIs(t, w.Err(), store.ErrClosed)
}

func TestBucket_newerSchemaIsNeitherReadNorReplaced(t *testing.T) {
	db := open(t, t.TempDir())
	newer := store.NewBucket[cluster]("clusters", 2)
	update(t, db, func(tx *store.Tx) error { return newer.Put(tx, "a", &cluster{Name: "a"}) })
	for name, fn := range map[string]func(tx *store.Tx) error{
		"get": func(tx *store.Tx) error {
			_, err := clusters.Get(tx, "a")
			return err
		},
		"put":  put("a", cluster{}),
		"each": func(tx *store.Tx) error { return clusters.Each(tx, "", func(string, *cluster) error { return nil }) },
	} {
		t.Run(name, func(t *testing.T) {
			err := db.Update(t.Context(), fn)
			var newerSchema *store.NewerSchemaError
			require.ErrorAs(t, err, &newerSchema)
			require.Equal(t, "/clusters/a", newerSchema.Key)
			require.Equal(t, 2, newerSchema.Version)
			require.ErrorContains(t, err, "use the newer Landfall")
		})
	}
	update(t, db, remove("a"))
	update(t, db, put("a", cluster{Name: "old"}))
	view(t, db, func(tx *store.Tx) error {
		got, err := newer.Get(tx, "a")
		require.NoError(t, err, "a newer program can read an older value")
		require.Equal(t, "old", got.Name)
		return nil
	})
}

var (
	now   = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	later = now.Add(time.Hour)
)
