package store_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"landfall/store"
)

// damageRow flips a bit in the stored value of a row of a closed database.
func damageRow(t testing.TB, dir, bucket, key string) {
	t.Helper()
	require.NoError(t, boltUpdate(filepath.Join(dir, store.FileName), func(tx *bolt.Tx) error {
		rows := tx.Bucket([]byte(bucket))
		value := bytes.Clone(rows.Get([]byte(key)))
		require.NotEmpty(t, value, key)
		value[len(value)-3] ^= 4
		return rows.Put([]byte(key), value)
	}))
}

// damagedDB returns a database with the clusters one, two and three, of which two is damaged.
func damagedDB(t *testing.T) *store.DB {
	t.Helper()
	dir, options := t.TempDir(), withKeys(newRing(t))
	db := openWith(t, dir, options)
	for _, key := range []string{"one", "two", "three"} {
		update(t, db, put(key, cluster{Name: key}))
		update(t, db, func(tx *store.Tx) error { return objects.Put(tx, key, []byte(key)) })
	}
	require.NoError(t, db.Close())
	damageRow(t, dir, "data", "/clusters/two")
	damageRow(t, dir, "data", "/objects/two")
	return openWith(t, dir, options)
}

func TestDamage_listsGoOnWithoutTheRow(t *testing.T) {
	db := damagedDB(t)
	var found []string
	view(t, db, func(tx *store.Tx) error {
		_, err := clusters.Get(tx, "two")
		require.True(t, store.IsDamaged(err), err)
		require.NotErrorIs(t, err, store.ErrNotFound)
		require.True(t, clusters.Exists(tx, "two"))
		rows, count, more, err := objects.Range(tx, store.Range{})
		require.NoError(t, err)
		require.Len(t, rows, 2)
		require.Equal(t, 2, count)
		require.False(t, more)
		return clusters.Each(tx, "", func(key string, _ *cluster) error { found = append(found, key); return nil })
	})
	require.Equal(t, []string{"one", "three"}, found)
	require.Len(t, db.Damage(), 2)
	require.Equal(t, "/clusters/two", db.Damage()[0].Key)
	require.Len(t, db.DamageNoticed(), 1)
}

func TestDamage_writeReplacesTheRowAndKeepsItsBytes(t *testing.T) {
	db := damagedDB(t)
	view(t, db, func(tx *store.Tx) error {
		return clusters.Each(tx, "", func(string, *cluster) error { return nil })
	})
	update(t, db, put("two", cluster{Name: "again"}))
	update(t, db, func(tx *store.Tx) error { return objects.Delete(tx, "two") })
	require.Empty(t, db.Damage())
	view(t, db, func(tx *store.Tx) error {
		again, err := clusters.Get(tx, "two")
		require.NoError(t, err)
		require.Equal(t, "again", again.Name)
		var kept []string
		require.NoError(t, store.Asides.Each(tx, "", func(_ string, aside *store.Aside) error {
			require.NotEmpty(t, aside.Stored)
			require.NotEmpty(t, aside.Reason)
			kept = append(kept, aside.Key)
			return nil
		}))
		require.Equal(t, []string{"/clusters/two", "/objects/two"}, kept)
		return nil
	})
}

func TestDamage_derivedValuesAreMissing(t *testing.T) {
	db := damagedDB(t)
	derived := clusters.Derived()
	view(t, db, func(tx *store.Tx) error {
		_, err := derived.Get(tx, "two")
		require.ErrorIs(t, err, store.ErrNotFound)
		same, err := derived.Holds(tx, "two", &cluster{Name: "two"})
		require.NoError(t, err)
		require.False(t, same)
		return nil
	})
	require.Len(t, db.Damage(), 2, "it is noticed nevertheless")
}

// TestDamage_changeLog damages an entry of the change log. Older states end there, and present rows
// stay readable.
func TestDamage_changeLog(t *testing.T) {
	dir, options := t.TempDir(), withKeys(newRing(t))
	db := openWith(t, dir, options)
	for n := range 3 {
		update(t, db, func(tx *store.Tx) error { return objects.Put(tx, "a", fmt.Append(nil, "value ", n)) })
	}
	require.NoError(t, db.Close())
	damageRow(t, dir, "log", "\x00\x00\x00\x00\x00\x00\x00\x02")
	db = openWith(t, dir, options)
	view(t, db, func(tx *store.Tx) error {
		now, err := objects.Get(tx, "a")
		require.NoError(t, err)
		require.Equal(t, "value 2", string(now.Value))
		_, _, _, err = objects.Range(tx, store.Range{At: 1})
		require.ErrorIs(t, err, store.ErrCompacted)
		return tx.History(func(string) bool { return true }, func(*store.Step) error { return nil })
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	watch := objects.Watch(ctx, db, 1, store.Range{})
	for range watch.C() {
		continue
	}
	require.ErrorIs(t, watch.Err(), store.ErrCompacted)
	require.NotEmpty(t, db.Damage())
}

func TestDamage_fileContentIsNoticed(t *testing.T) {
	dir, options := t.TempDir(), withKeys(newRing(t))
	db := openWith(t, dir, options)
	content := strings.Repeat(secret, 8000)
	staged, err := db.Stage(t.Context(), strings.NewReader(content))
	require.NoError(t, err)
	update(t, db, func(tx *store.Tx) error { return sealedFiles.Put(tx, "big", staged, now) })
	path := filepath.Join(dir, "blobs", staged.SHA256()[:2], staged.SHA256()+".sealed")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	text[len(text)/2] ^= 1
	require.NoError(t, os.WriteFile(path, text, 0o600))
	file, _, err := sealedFiles.Open(db, "big")
	require.NoError(t, err)
	read, err := io.ReadAll(file)
	require.True(t, store.IsDamaged(err), err)
	require.True(t, strings.HasPrefix(content, string(read)))
	require.NoError(t, file.Close())
	require.Equal(t, "/sealed/big", db.Damage()[0].Key)
	require.NoError(t, os.Remove(path))
	_, _, err = sealedFiles.Open(db, "big")
	require.True(t, store.IsDamaged(err), err)
}

// TestDamage_rotationGoesOn rotates the data key while a row is damaged.
func TestDamage_rotationGoesOn(t *testing.T) {
	db := damagedDB(t)
	require.NoError(t, db.Reseal(t.Context()))
	require.Equal(t, []string{"one", "three", "two"}, keys(t, db, ""))
}
