package integrity_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"landfall/appliance/integrity"
	"landfall/appliance/keyring"
	"landfall/store"
)

// TestDerive_contents starts with a lost index of the contents. All files keep theirs.
func TestDerive_contents(t *testing.T) {
	s := newScrubbed(t)
	require.NoError(t, s.db.Close())
	file, err := bolt.Open(filepath.Join(s.dir, store.FileName), 0o600, &bolt.Options{Timeout: time.Second})
	require.NoError(t, err)
	require.NoError(t, file.Update(func(tx *bolt.Tx) error {
		return errors.Join(tx.DeleteBucket([]byte("index")), func() error {
			_, err := tx.CreateBucket([]byte("index"))
			return err
		}())
	}))
	require.NoError(t, file.Close())
	s.clock.Advance(2 * time.Hour)
	db, err := store.Open(t.Context(), s.dir, store.Options{Keys: keyring.New(s.dir, keyring.Options{}).Open,
		NoSync: true, Clock: s.clock})
	require.NoError(t, err)
	require.NoError(t, integrity.Derive(t.Context(), db, s.clock.Now()))
	require.NoError(t, db.CollectBlobs(t.Context()))
	report, err := db.Check(t.Context())
	require.NoError(t, err)
	require.Empty(t, report.Problems)
	require.Equal(t, 3, report.Files)
	require.NoError(t, db.Close())
}
