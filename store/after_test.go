package store_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"landfall/store"
)

// started is an update that runs.
type started struct {
	err  error
	done sync.WaitGroup
}

// startAfter starts an update that may become durable when ready yields nil, and returns when it
// waits for that.
func startAfter(t *testing.T, db *store.DB, ready <-chan error, fn func(*store.Tx) error) *started {
	t.Helper()
	s := &started{}
	ctx := store.After(t.Context(), func() error { return <-ready })
	s.done.Go(func() { s.err = db.Update(ctx, fn) })
	synctest.Wait()
	return s
}

func TestAfter_updateBecomesDurableOnlyWhenReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		db := open(t, dir)
		update(t, db, put("first", cluster{}))
		ready := make(chan error)
		late := startAfter(t, db, ready, put("late", cluster{}))
		seen := false
		wait := inLine(db, func(tx *store.Tx) error {
			seen = clusters.Exists(tx, "late")
			return put("other", cluster{})(tx)
		})
		require.True(t, seen, "other updates run meanwhile")
		require.Equal(t, []string{"first"}, keys(t, db, ""), "readers do not see it")
		require.Equal(t, []string{"first"}, keys(t, open(t, killed(t, dir)), ""), "the disk does not have it")
		ready <- nil
		late.done.Wait()
		require.NoError(t, late.err)
		require.Equal(t, []error{nil}, wait())
		require.Equal(t, []string{"first", "late", "other"}, keys(t, open(t, killed(t, dir)), ""))
	})
}

func TestAfter_errorRollsUpdateBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		db := open(t, dir)
		update(t, db, put("first", cluster{Hosts: 1}))
		ready, failure := make(chan error), errors.New("the record of the begin is not on the disk")
		late := startAfter(t, db, ready, func(tx *store.Tx) error {
			return errors.Join(put("late", cluster{})(tx), remove("first")(tx))
		})
		wait := inLine(db, put("late", cluster{Hosts: 2})) // may have read rows of the update
		ready <- failure
		late.done.Wait()
		require.Equal(t, failure, late.err)
		require.ErrorIs(t, wait()[0], failure)
		require.EqualValues(t, 1, db.Revision())
		require.NoError(t, db.Activity().Failure, "the disk did not fail")
		w := db.Watch(t.Context(), db.Revision())
		update(t, db, put("next", cluster{}))
		require.Equal(t, []store.Change{{Revision: 5, Key: "/clusters/next"}}, <-w.C(),
			"no other change uses the revisions of a failed update")
		for _, db := range []*store.DB{db, open(t, killed(t, dir))} {
			require.Equal(t, []string{"first", "next"}, keys(t, db, ""))
		}
	})
}

func TestAfter_failedUpdateAndReadWaitForNothing(t *testing.T) {
	db := open(t, t.TempDir())
	ctx := store.After(t.Context(), func() error { panic("nothing becomes durable") })
	failure := errors.New("no")
	require.ErrorIs(t, db.Update(ctx, func(tx *store.Tx) error {
		return errors.Join(put("a", cluster{})(tx), failure)
	}), failure)
	require.NoError(t, db.Update(ctx, func(*store.Tx) error { return nil }))
	require.ErrorIs(t, db.Update(store.DryRun(ctx), put("a", cluster{})), store.ErrDryRun)
	require.Empty(t, keys(t, db, ""))
}
