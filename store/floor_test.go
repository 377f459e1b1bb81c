package store_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/store"
)

// copied returns a new directory with a copy of a database.
func copied(t *testing.T, from string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(from, store.FileName))
	require.NoError(t, err)
	to := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(to, store.FileName), text, 0o600))
	return to
}

func TestFloor_restoredDatabaseRefusesLostRevisions(t *testing.T) {
	dir := t.TempDir()
	life := func(dir string, floor uint64, fn func(db *store.DB)) {
		t.Helper()
		db, err := store.Open(t.Context(), dir, store.Options{Versioned: "things", Floor: floor})
		require.NoError(t, err)
		fn(db)
		require.NoError(t, db.Close())
	}
	life(dir, 100, func(db *store.DB) { update(t, db, hold("a", "1")) })
	backup := copied(t, dir)
	life(dir, 1_000_000, func(db *store.DB) {
		update(t, db, hold("a", "lost"))
		update(t, db, hold("b", "lost"))
		require.EqualValues(t, 1_000_001, db.Revision())
	})
	const lost = 1_000_001
	refused := func(db *store.DB, want error) {
		t.Helper()
		values := things.Watch(t.Context(), db, lost, store.Range{})
		for range values.C() {
			require.Fail(t, "a watch from a lost revision received a change")
		}
		require.ErrorIs(t, values.Err(), want)
		changes := db.Watch(t.Context(), lost)
		for range changes.C() {
			require.Fail(t, "a watch from a lost revision received a change")
		}
		require.ErrorIs(t, changes.Err(), want)
		require.ErrorIs(t, db.View(func(tx *store.Tx) error {
			_, _, _, err := things.Range(tx, store.Range{At: lost})
			return err
		}), want)
	}
	life(backup, 5_000_000_000_000, func(db *store.DB) {
		require.EqualValues(t, 100, db.Revision(), "opening writes nothing")
		refused(db, store.ErrFutureRevision)
		update(t, db, hold("b", "2"))
		update(t, db, hold("a", "3"))
		require.EqualValues(t, 5_000_000_000_001, db.Revision())
		refused(db, store.ErrCompacted)
		// A watch from a revision of the copy continues across the gap in the revisions.
		require.Equal(t, []string{"5000000000000 b @0>2@5000000000000", "5000000000001 a 1@100>3@5000000000001"},
			changesOf(things.Watch(t.Context(), db, 100, store.Range{}), 5_000_000_000_001))
		require.Equal(t, []store.Change{{Revision: 5_000_000_000_000, Key: "/things/b"},
			{Revision: 5_000_000_000_001, Key: "/things/a"}},
			follow(db.Watch(t.Context(), 100), 5_000_000_000_001))
		rows, _, _ := rangeOf(t, db, store.Range{At: 5_000_000_000_000})
		require.Equal(t, []string{"a=1@100,100,1", "b=2@5000000000000,5000000000000,1"}, rows)
		require.NoError(t, db.Compact(t.Context(), 5_000_000_000_000))
		refused(db, store.ErrCompacted)
		require.Equal(t, []string{"5000000000001 a 1@100>3@5000000000001"},
			changesOf(things.Watch(t.Context(), db, 5_000_000_000_000, store.Range{}), 5_000_000_000_001))
	})
}

func TestFloor_belowRevisionHasNoEffect(t *testing.T) {
	dir := t.TempDir()
	for i, floor := range []uint64{50, 10, 0} {
		db, err := store.Open(t.Context(), dir, store.Options{Versioned: "things", Floor: floor})
		require.NoError(t, err)
		failed := errors.New("the update is rolled back")
		require.ErrorIs(t, db.Update(t.Context(), func(tx *store.Tx) error {
			return errors.Join(hold("b", "1")(tx),
				failed)
		}), failed)
		update(t, db, hold("a", fmt.Sprint(i)))
		require.EqualValues(t, 50+i, db.Revision())
		require.NoError(t, db.Close())
	}
}
