package store

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"
)

// A sync that fails after the meta page was written cannot be brought about from outside, so what follows it is tried by itself.
func TestACommitWhoseLastSyncFailedIsKeptIfItsMetaPageCanBeWrittenAgain(t *testing.T) {
	db, err := Open(t.Context(), t.TempDir(), Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	require.NoError(t, db.Update(t.Context(), func(tx *Tx) error { return NewIndex("x").Add(tx, "a") }))
	committed := 0
	require.NoError(t, db.bolt.View(func(tx *bolt.Tx) error {
		committed = tx.ID()
		return nil
	}))
	before, err := os.ReadFile(db.path)
	require.NoError(t, err)
	cause := errors.New("input/output error")

	require.NoError(t, db.failed(committed, cause), "readers see it, and now the disk has it")
	after, err := os.ReadFile(db.path)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(after), len(before), "space may have been set aside meanwhile")
	require.Equal(t, before, after[:len(before)])

	var lost *WriteError
	require.ErrorAs(t, db.failed(committed+1, cause), &lost)
	require.ErrorIs(t, lost, cause)
	require.False(t, lost.Unknown)
	require.ErrorContains(t, lost, "nothing of the change was kept: check the disk and the kernel's log")

	require.NoError(t, os.Rename(db.path, db.path+".away"))
	require.ErrorAs(t, db.failed(committed, cause), &lost)
	require.True(t, lost.Unknown)
	require.ErrorContains(t, lost, "whether the change was kept shows at the next start")
}
