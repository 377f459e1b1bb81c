package store_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/store"
)

func TestDryRun_changesNothing(t *testing.T) {
	db := open(t, t.TempDir())
	update(t, db, put("east", cluster{Name: "east"}))
	before := db.Revision()
	tried := store.DryRun(t.Context())
	require.True(t, store.IsDryRun(tried))
	require.False(t, store.IsDryRun(t.Context()))

	err := db.Update(tried, func(tx *store.Tx) error {
		require.NoError(t, put("west", cluster{Name: "west"})(tx))
		require.NoError(t, remove("east")(tx))
		require.False(t, clusters.Exists(tx, "east"), "the update itself reads its writes")
		return nil
	})
	require.ErrorIs(t, err, store.ErrDryRun)
	failure := errors.New("the cluster is invalid")
	require.Equal(t, failure, db.Update(tried, func(*store.Tx) error { return failure }))
	require.Equal(t, before, db.Revision())
	require.Equal(t, []string{"east"}, keys(t, db, ""))
}
