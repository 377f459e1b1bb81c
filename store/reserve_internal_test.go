package store

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"
)

func TestSpaceIsAddedBehindTheDataWhileItIsWritten(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(t.Context(), dir, Options{})
	require.NoError(t, err)
	rows := NewBucket[string]("rows", 1)
	value := strings.Repeat("x", 50_000)

	extended := make(chan error)
	go func() {
		for size := int64(reserveStep); size <= 12*reserveStep; size += reserveStep {
			if _, err := db.extend(size); err != nil {
				extended <- err
				return
			}
		}
		extended <- nil
	}()
	for i := range 300 { // 15 MB, so that bbolt makes the file longer too
		require.NoError(t, db.Update(t.Context(), func(tx *Tx) error { return rows.Put(tx, strconv.Itoa(i), &value) }))
	}
	require.NoError(t, <-extended)
	require.NoError(t, db.bolt.View(func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			require.NoError(t, err)
		}
		return nil
	}))
	require.NoError(t, db.Close())

	db, err = Open(t.Context(), dir, Options{})
	require.NoError(t, err)
	require.NoError(t, db.View(func(tx *Tx) error {
		for i := range 300 {
			held, err := rows.Get(tx, strconv.Itoa(i))
			require.NoError(t, err)
			require.Equal(t, value, *held)
		}
		return nil
	}))
	require.NoError(t, db.Close())
}

func TestSpaceIsAskedForOnceWhenItBecomesShort(t *testing.T) {
	r := newReserve(10 * reserveLow)
	r.watch(8 * reserveLow)
	require.Empty(t, r.used, "there is enough behind the pages in use")
	r.watch(9*reserveLow + 1)
	r.watch(9*reserveLow + 2)
	require.Len(t, r.used, 1)
	require.EqualValues(t, 9*reserveLow+1, <-r.used)
}

func TestWithoutSpaceToSetAsideTheDatabaseGoesOn(t *testing.T) {
	db, err := Open(t.Context(), t.TempDir(), Options{})
	require.NoError(t, err)
	require.NoError(t, os.Rename(db.path, db.path+".away"))
	_, err = db.extend(reserveHigh)
	require.ErrorIs(t, err, os.ErrNotExist)
	rows := NewBucket[string]("rows", 1)
	value := "x"
	require.NoError(t, db.Update(t.Context(), func(tx *Tx) error { return rows.Put(tx, "a", &value) }))
	require.NoError(t, db.Close())
}
