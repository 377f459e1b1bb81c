package record_test

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"landfall/appliance/hosted/arm"
	"landfall/appliance/hosted/record"
	"landfall/store"
)

func open(t *testing.T, dir string) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), dir, store.Options{NoSync: true})
	require.NoError(t, err)
	return db
}

func TestEachCluster_goesOnAfterDamagedRow(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	require.NoError(t, db.Update(t.Context(), func(tx *store.Tx) error {
		for _, name := range []string{"a", "b", "c"} {
			c := &record.Cluster{CID: "cid-" + name, Prefix: name}
			c.ID = arm.ID{Subscription: "s", Group: "g", Cluster: name}
			if err := record.PutCluster(tx, c); err != nil {
				return err
			}
		}
		return nil
	}))
	require.NoError(t, db.Close())
	file, err := bolt.Open(filepath.Join(dir, store.FileName), 0o600, &bolt.Options{Timeout: time.Minute})
	require.NoError(t, err)
	require.NoError(t, file.Update(func(tx *bolt.Tx) error {
		rows, key := tx.Bucket([]byte("data")), []byte("/hosted-clusters/cid-b")
		value := bytes.Clone(rows.Get(key))
		require.NotEmpty(t, value)
		value[len(value)-1] ^= 4
		return rows.Put(key, value)
	}))
	require.NoError(t, file.Close())
	db = open(t, dir)
	var found []string
	require.NoError(t, db.View(func(tx *store.Tx) error {
		return record.EachCluster(tx, "", "", func(c *record.Cluster) error {
			found = append(found, c.ID.Cluster)
			return nil
		})
	}))
	require.Equal(t, []string{"a", "c"}, found)
	require.NoError(t, db.Close())
}
