package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/store"
)

var things = store.NewVersions("things", 1)

func openVersioned(t testing.TB, dir string) *store.DB {
	return openWith(t, dir, store.Options{Versioned: "things"})
}

func hold(key, value string) func(*store.Tx) error {
	return func(tx *store.Tx) error { return things.Put(tx, key, []byte(value)) }
}

func drop(key string) func(*store.Tx) error {
	return func(tx *store.Tx) error { return things.Delete(tx, key) }
}

// rangeOf reads a range and returns rows as "key=value@created,modified,version".
func rangeOf(t testing.TB, db *store.DB, r store.Range) (rows []string, count int, more bool) {
	view(t, db, func(tx *store.Tx) (err error) {
		var found []store.KeyValue
		found, count, more, err = things.Range(tx, r)
		for _, row := range found {
			rows = append(rows, fmt.Sprintf("%s=%s@%d,%d,%d", row.Key, row.Value, row.Created, row.Modified,
				row.Version))
		}
		return err
	})
	return rows, count, more
}

// changesOf reads a watch until the revision and returns changes as "revision key before>after".
func changesOf(w *store.ValueWatcher, until uint64) (seen []string) {
	for batch := range w.C() {
		for _, c := range batch {
			seen = append(seen, line(c))
		}
		if batch[len(batch)-1].Revision >= until {
			break
		}
	}
	return seen
}

func line(c store.ValueChange) string {
	return fmt.Sprintf("%d %s %s@%d>%s@%d", c.Revision, c.Key, c.Before.Value, c.Before.Modified, c.After.Value,
		c.After.Modified)
}

func TestVersions_readAtOlderRevisions(t *testing.T) {
	dir := t.TempDir()
	db := openVersioned(t, dir)
	update(t, db, hold("a", "one"))
	update(t, db, hold("b", "bee"))
	update(t, db, put("elsewhere", cluster{Name: "raises the revision too"}))
	update(t, db, hold("a", "two"))
	update(t, db, drop("b"))
	update(t, db, hold("b", "wasp"))
	for at, want := range [][]string{
		1: {"a=one@1,1,1"},
		2: {"a=one@1,1,1", "b=bee@2,2,1"},
		3: {"a=one@1,1,1", "b=bee@2,2,1"},
		4: {"a=two@1,4,2", "b=bee@2,2,1"},
		5: {"a=two@1,4,2"},
		6: {"a=two@1,4,2", "b=wasp@6,6,1"},
	} {
		rows, _, _ := rangeOf(t, db, store.Range{At: uint64(at)})
		if at == 0 {
			want = []string{"a=two@1,4,2", "b=wasp@6,6,1"}
		}
		require.Equal(t, want, rows, "at revision %d", at)
	}
	require.NoError(t, db.Close())
	rows, _, _ := rangeOf(t, openVersioned(t, dir), store.Range{At: 2})
	require.Equal(t, []string{"a=one@1,1,1", "b=bee@2,2,1"}, rows, "after reopening")
}

func TestVersions_rangeLimitAndCount(t *testing.T) {
	db := openVersioned(t, t.TempDir())
	for _, key := range []string{"a/1", "a/2", "a/3", "b/1"} {
		update(t, db, hold(key, "x"))
	}
	update(t, db, drop("a/2"))
	rows, count, more := rangeOf(t, db, store.Range{From: "a/", End: things.End("a/"), Limit: 1, Count: true})
	require.Equal(t, []string{"a/1=x@1,1,1"}, rows)
	require.Equal(t, 2, count)
	require.True(t, more)
	rows, count, more = rangeOf(t, db, store.Range{From: "a/1\x00", End: things.End("a/"), Limit: 2, Count: true,
		At: 4})
	require.Equal(t, []string{"a/2=x@2,2,1", "a/3=x@3,3,1"}, rows)
	require.Equal(t, 2, count)
	require.False(t, more)
	rows, _, more = rangeOf(t, db, store.Range{Limit: 2, KeysOnly: true})
	require.Equal(t, []string{"a/1=@1,1,1", "a/3=@3,3,1"}, rows)
	require.True(t, more)
}

func TestVersions_compactedOrFutureRevisionIsRefused(t *testing.T) {
	db := openVersioned(t, t.TempDir())
	for i := range 5 {
		update(t, db, hold("a", fmt.Sprint(i)))
	}
	require.NoError(t, db.Compact(t.Context(), 3))
	read := func(at uint64) error {
		return db.View(func(tx *store.Tx) error {
			_, _, _, err := things.Range(tx, store.Range{At: at})
			return err
		})
	}
	require.ErrorIs(t, read(2), store.ErrCompacted)
	require.NoError(t, read(3))
	require.ErrorIs(t, read(6), store.ErrFutureRevision)
	for from, want := range map[uint64]error{2: store.ErrCompacted, 6: store.ErrFutureRevision} {
		w := things.Watch(t.Context(), db, from, store.Range{})
		_, open := <-w.C()
		require.False(t, open)
		require.ErrorIs(t, w.Err(), want)
	}
	require.Equal(t, []string{"4 a 2@3>3@4", "5 a 3@4>4@5"}, changesOf(things.Watch(t.Context(), db, 3, store.Range{}),
		5))
}

func TestVersions_unversionedPastCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	update(t, db, hold("a", "one"))
	update(t, db, hold("a", "two"))
	require.NoError(t, db.Close())
	db = openVersioned(t, dir)
	update(t, db, hold("a", "three"))
	rows, _, _ := rangeOf(t, db, store.Range{At: 2})
	require.Equal(t, []string{"a=two@1,2,2"}, rows)
	require.ErrorIs(t, db.View(func(tx *store.Tx) error {
		_, _, _, err := things.Range(tx, store.Range{At: 1})
		return err
	}), store.ErrCompacted)
}

func TestVersionsWatch_oneChangePerUpdateAndKey(t *testing.T) {
	db := openVersioned(t, t.TempDir())
	live := things.Watch(t.Context(), db, 0, store.Range{})
	update(t, db, hold("a", "one"))
	update(t, db, func(tx *store.Tx) error {
		return errors.Join(hold("a", "between")(tx), hold("short", "lived")(tx), hold("a", "two")(tx),
			drop("short")(tx), hold("b", "bee")(tx))
	})
	require.Error(t, db.Update(t.Context(), func(tx *store.Tx) error {
		return errors.Join(hold("a", "never")(tx), errors.New("no"))
	}))
	update(t, db, drop("a"))
	want := []string{"1 a @0>one@1", "4 a one@1>two@4", "6 b @0>bee@6", "7 a two@4>@0"}
	require.Equal(t, want, changesOf(live, 7), "while the changes are made")
	require.Equal(t, want, changesOf(things.Watch(t.Context(), db, 0, store.Range{}), 7), "from the log")
	require.Equal(t, want[1:], changesOf(things.Watch(t.Context(), db, 1, store.Range{}), 7), "from a revision on")
	require.Equal(t, want[2:3], changesOf(things.Watch(t.Context(), db, 0, store.Range{From: "b", End: "c"}), 6),
		"of a range")
}

func TestVersionsWatch_slowWatcherReadsFromLog(t *testing.T) {
	db := openVersioned(t, t.TempDir())
	w := things.Watch(t.Context(), db, 0, store.Range{})
	const updates, each = 60, 100
	for i := range updates {
		update(t, db, func(tx *store.Tx) error {
			for j := range each {
				if err := hold(fmt.Sprint(j), fmt.Sprint(i))(tx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	next := uint64(1)
	for batch := range w.C() {
		for _, c := range batch {
			require.Equal(t, next, c.Revision)
			next++
		}
		if next > updates*each {
			break
		}
	}
	require.Eventually(t, func() bool {
		revision, ok := w.Progress()
		return ok && revision == updates*each
	}, time.Minute, time.Millisecond)
}

// TestVersionsWatch_agreesWithLists writes at random while watches start and end. It applies the
// changes of each watch to the list at the watch's start and compares the result with the list at
// the end.
func TestVersionsWatch_agreesWithLists(t *testing.T) {
	db := openVersioned(t, t.TempDir())
	const writers, updates = 3, 120
	var writing, watching sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for n := range writers {
		writing.Go(func() {
			random := rand.New(rand.NewPCG(uint64(n), 7))
			for range updates {
				if err := db.Update(ctx, func(tx *store.Tx) error {
					for range random.IntN(4) {
						key := fmt.Sprintf("%d/%d", random.IntN(3), random.IntN(10))
						do := hold(key, strings.Repeat(fmt.Sprint(random.IntN(9)), random.IntN(900)))
						if random.IntN(3) == 0 {
							do = drop(key)
						}
						if err := do(tx); err != nil {
							return err
						}
					}
					return put(fmt.Sprint(random.IntN(5)), cluster{Hosts: random.IntN(1000)})(tx)
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	state := func(tx *store.Tx, at uint64) map[string]string {
		rows, _, _, err := things.Range(tx, store.Range{At: at})
		if err != nil {
			t.Error(err)
		}
		held := make(map[string]string)
		for _, row := range rows {
			held[row.Key] = fmt.Sprintf("%s@%d", row.Value, row.Modified)
		}
		return held
	}
	done := make(chan uint64)
	for range 6 {
		watching.Go(func() {
			var from uint64
			var held map[string]string
			if err := db.View(func(tx *store.Tx) error {
				from = tx.Revision()
				held = state(tx, 0)
				return nil
			}); err != nil {
				t.Error(err)
			}
			w := things.Watch(ctx, db, from, store.Range{})
			last, end, stopped := from, uint64(0), done
			for end == 0 || last < end {
				select {
				case end = <-stopped:
					stopped = nil // leave the value for the other watchers
				case batch, ok := <-w.C():
					if !ok {
						t.Error(w.Err())
						return
					}
					for _, c := range batch {
						last = c.Revision
						before := ""
						if c.Before.Value != nil {
							before = fmt.Sprintf("%s@%d", c.Before.Value, c.Before.Modified)
						}
						if held[c.Key] != before {
							t.Errorf("revision %d of %s has the previous value %q, want %q", c.Revision, c.Key,
								held[c.Key],
								before)
						}
						if delete(held, c.Key); c.After.Value != nil {
							held[c.Key] = fmt.Sprintf("%s@%d", c.After.Value, c.After.Modified)
						}
					}
				}
			}
			if err := db.View(func(tx *store.Tx) error {
				if now := state(tx, last); len(now) != len(held) || fmt.Sprint(now) != fmt.Sprint(held) {
					t.Errorf("the watch results in %v, the list at its revision is %v", held, now)
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	writing.Wait()
	update(t, db, hold("last", "one"))
	last := db.Revision()
	for range 6 {
		done <- last
	}
	watching.Wait()
}

func TestVersions_deadlineIsClearedWithValue(t *testing.T) {
	db := openVersioned(t, t.TempDir())
	due := func() (keys []string) {
		view(t, db, func(tx *store.Tx) error {
			list, err := things.Expiry().Due(tx, now.Add(time.Hour), 0)
			for _, d := range list {
				keys = append(keys, d.Key)
			}
			return err
		})
		slices.Sort(keys)
		return keys
	}
	for _, key := range []string{"a", "b", "c"} {
		update(t, db, func(tx *store.Tx) error {
			return errors.Join(things.Put(tx, key, []byte("x")), things.Expiry().Set(tx, key, now))
		})
	}
	require.Equal(t, []string{"a", "b", "c"}, due())
	update(t, db, hold("a", "y"))
	update(t, db, drop("b"))
	require.Equal(t, []string{"c"}, due())
}

func TestVersionsWatch_handled(t *testing.T) {
	db := openVersioned(t, t.TempDir())
	update(t, db, hold("a", "1"))
	from := db.Revision()
	w := things.Watch(t.Context(), db, from, store.Range{})
	handled := func(last uint64) func() bool {
		return func() bool {
			to, ok := w.Handled(last)
			return ok && to == db.Revision()
		}
	}
	require.Eventually(t, handled(from), time.Minute, time.Millisecond, "nothing has changed")
	update(t, db, hold("a", "2"))
	_, ok := w.Handled(from)
	require.False(t, ok, "the change is pending")
	last := (<-w.C())[0].Revision
	require.Eventually(t, handled(last), time.Minute, time.Millisecond)
	_, ok = w.Handled(from)
	require.False(t, ok, "the change was received, but not handled")
	update(t, db, put("other", cluster{Name: "one"}))
	require.Greater(t, db.Revision(), last)
	require.True(t, handled(last)(), "the change of another bucket needs no work")
}
