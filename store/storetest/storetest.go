// Package storetest copies databases for tests.
package storetest

import (
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/store"
)

// CopyRows writes the rows of a database to an empty directory, as a new follower gets them.
func CopyRows(t testing.TB, db *store.DB, dir string) {
	t.Helper()
	snapshot, err := db.Snapshot()
	require.NoError(t, err)
	var rows []store.StoredRow
	require.NoError(t, snapshot.Rows(t.Context(), func(row store.StoredRow) error {
		rows = append(rows, store.StoredRow{Bucket: row.Bucket, Key: slices.Clone(row.Key),
			Value: slices.Clone(row.Value)})
		return nil
	}))
	require.NoError(t, snapshot.Close())
	require.NoError(t, store.CreateFrom(dir, func() (store.StoredRow, error) {
		if len(rows) == 0 {
			return store.StoredRow{}, io.EOF
		}
		row := rows[0]
		rows = rows[1:]
		return row, nil
	}))
}
