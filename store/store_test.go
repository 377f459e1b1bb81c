package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/store"
)

type cluster struct {
	Name  string            `json:"name"`
	Hosts int               `json:"hosts"`
	Tags  map[string]string `json:"tags,omitempty"`
}

var clusters = store.NewBucket[cluster]("clusters", 1)

// open opens the database in dir and closes it when the test ends.
func open(t testing.TB, dir string) *store.DB {
	t.Helper()
	return openWith(t, dir, store.Options{})
}

func openWith(t testing.TB, dir string, options store.Options) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), dir, options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func update(t testing.TB, db *store.DB, fn func(*store.Tx) error) {
	t.Helper()
	require.NoError(t, db.Update(context.Background(), fn))
}

func view(t testing.TB, db *store.DB, fn func(*store.Tx) error) {
	t.Helper()
	require.NoError(t, db.View(fn))
}

func put(key string, c cluster) func(*store.Tx) error {
	return func(tx *store.Tx) error { return clusters.Put(tx, key, &c) }
}

func remove(key string) func(*store.Tx) error {
	return func(tx *store.Tx) error { return clusters.Delete(tx, key) }
}

// keys lists the clusters' keys that begin with prefix.
func keys(t testing.TB, db *store.DB, prefix string) []string {
	t.Helper()
	var found []string
	view(t, db, func(tx *store.Tx) error {
		found = nil
		return clusters.Keys(tx, prefix, func(key string) error {
			found = append(found, key)
			return nil
		})
	})
	return found
}

func TestAValuePutIsReadBackAndSurvivesReopening(t *testing.T) {
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

func TestEachChangeRaisesTheRevisionByOneAndTheSameBytesAreNoChange(t *testing.T) {
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
		require.EqualValues(t, 4, tx.Revision())
		modified, err := clusters.Modified(tx, "a")
		require.NoError(t, err)
		require.EqualValues(t, 3, modified)
		_, err = clusters.Modified(tx, "b")
		require.ErrorIs(t, err, store.ErrNotFound)
		return nil
	})
}

func TestAFunctionThatFailsWritesNothingAndItsErrorComesBackAsItIs(t *testing.T) {
	db := open(t, t.TempDir())
	update(t, db, put("a", cluster{Name: "a"}))
	failure := errors.New("no")
	err := db.Update(t.Context(), func(tx *store.Tx) error {
		require.NoError(t, errors.Join(put("a", cluster{Name: "changed"})(tx), put("b", cluster{})(tx), remove("a")(tx)))
		require.EqualValues(t, 4, tx.Revision())
		return failure
	})
	require.Same(t, failure, err)
	require.EqualValues(t, 1, db.Revision())
	require.Equal(t, []string{"a"}, keys(t, db, ""))
}

func TestAViewSeesOneRevisionWhateverIsCommittedMeanwhile(t *testing.T) {
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

func TestDeadlinesComeInOrderOfTime(t *testing.T) {
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
