package store_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"landfall/store"
	"landfall/store/seal"
)

const secret = "planted-secret-0123456789"

// withKeys returns options that seal with a ring.
func withKeys(ring *seal.Ring) store.Options {
	return store.Options{
		Keys:      func(bool) (*seal.Ring, error) { return ring, nil },
		History:   store.History{Owner: func(string) string { return "all" }, OwnerBytes: 1 << 20, Bytes: 1 << 20},
		Versioned: "objects", BlobGrace: time.Nanosecond, NoSync: true,
	}
}

func newRing(t testing.TB) *seal.Ring {
	t.Helper()
	ring, err := seal.NewRing(seal.NewKey(1))
	require.NoError(t, err)
	return ring
}

// fill writes a secret to each kind of storage, and replaces and deletes it.
func fill(t *testing.T, db *store.DB) {
	t.Helper()
	big, err := db.Stage(t.Context(), strings.NewReader(strings.Repeat(secret, 8000)))
	require.NoError(t, err)
	small, err := db.Stage(t.Context(), strings.NewReader(secret))
	require.NoError(t, err)
	update(t, db, func(tx *store.Tx) error {
		tx.Note(func() []byte { return []byte(`"` + secret + `"`) })
		return errors.Join(
			clusters.Put(tx, "kept", &cluster{Name: secret}), clusters.Put(tx, "gone", &cluster{Name: secret}),
			clusters.Put(tx, "changed", &cluster{Name: secret}),
			sealedFiles.Put(tx, "big", big, now), sealedFiles.Put(tx, "small", small, now),
			objects.Put(tx, "object", []byte(secret)),
		)
	})
	update(t, db, func(tx *store.Tx) error {
		return errors.Join(clusters.Delete(tx, "gone"), clusters.Put(tx, "changed", &cluster{Name: "new"}),
			objects.Put(tx, "object", []byte("new")))
	})
}

var (
	objects     = store.NewVersions("objects", 1)
	sealedFiles = store.NewFiles("sealed")
)

// requireFilled requires that all values of fill are readable, also the older ones.
func requireFilled(t *testing.T, db *store.DB) {
	t.Helper()
	view(t, db, func(tx *store.Tx) error {
		kept, err := clusters.Get(tx, "kept")
		require.NoError(t, err)
		require.Equal(t, secret, kept.Name)
		past, notes := "", ""
		require.NoError(t, tx.History(func(string) bool { return true }, func(s *store.Step) error {
			notes += string(s.Note)
			for _, c := range s.Changes {
				past += c.Key + string(c.Before)
			}
			return nil
		}))
		require.Contains(t, past, `/clusters/gone{"name":"`+secret)
		require.Contains(t, past, `/clusters/changed{"name":"`+secret)
		require.Contains(t, notes, secret)
		object, err := objects.Get(tx, "object")
		require.NoError(t, err)
		rows, _, _, err := objects.Range(tx, store.Range{From: "object", At: object.Modified - 1})
		require.NoError(t, err)
		require.Equal(t, secret, string(rows[0].Value))
		return nil
	})
	for key, content := range map[string]string{"small": secret, "big": strings.Repeat(secret, 8000)} {
		file, info, err := sealedFiles.Open(db, key)
		require.NoError(t, err)
		require.EqualValues(t, len(content), info.Size)
		text, err := io.ReadAll(file)
		require.NoError(t, err)
		require.Equal(t, content, string(text))
		for _, at := range []int64{0, 5, info.Size / 2, info.Size - 3, info.Size} {
			_, err = file.Seek(at, io.SeekStart)
			require.NoError(t, err)
			text, err = io.ReadAll(file)
			require.NoError(t, err)
			require.Equal(t, content[at:], string(text))
		}
		require.NoError(t, file.Close())
	}
}

// requireNoSecret searches all files below a directory.
func requireNoSecret(t *testing.T, dir string) {
	t.Helper()
	forms := [][]byte{[]byte(secret), []byte(base64.RawStdEncoding.EncodeToString([]byte(secret)))}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		for _, form := range forms {
			require.False(t, bytes.Contains(text, form), "%s contains the secret", path)
		}
		return err
	}))
}

func TestSealing_noFileContainsASecret(t *testing.T) {
	dir, ring := t.TempDir(), newRing(t)
	db := openWith(t, dir, withKeys(ring))
	fill(t, db)
	_, err := db.Stage(t.Context(), io.MultiReader(strings.NewReader(strings.Repeat(secret, 8000)), failing{}))
	require.Error(t, err)
	requireNoSecret(t, dir) // also the write-ahead log
	requireFilled(t, db)
	require.NoError(t, db.ReleaseMemory())
	requireNoSecret(t, dir)
	requireFilled(t, db)
	require.NoError(t, db.Close())
	requireNoSecret(t, dir)
	requireFilled(t, openWith(t, dir, withKeys(ring)))
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("broken off") }

func TestSealing_clearDatabaseIsSealed(t *testing.T) {
	dir := t.TempDir()
	options := withKeys(nil)
	options.Keys = nil
	db := openWith(t, dir, options)
	fill(t, db)
	requireFilled(t, db)
	dead := copyDir(t, dir) // as after kill -9, with rows in the log
	require.NoError(t, db.Close())
	for _, dir := range []string{dir, dead} {
		ring := newRing(t)
		db := openWith(t, dir, withKeys(ring))
		requireFilled(t, db)
		requireNoSecret(t, dir)
		require.NoError(t, db.Close())
		db = openWith(t, dir, withKeys(ring))
		requireFilled(t, db)
		fill(t, db)
		require.NoError(t, db.Close())
		requireNoSecret(t, dir)
	}
}

func TestSealing_wrongKeyChangesNothing(t *testing.T) {
	dir, ring := t.TempDir(), newRing(t)
	db := openWith(t, dir, withKeys(ring))
	fill(t, db)
	require.NoError(t, db.Close())
	before, err := os.ReadFile(filepath.Join(dir, store.FileName))
	require.NoError(t, err)
	without := withKeys(nil)
	without.Keys = nil
	for _, options := range []store.Options{withKeys(newRing(t)), without} {
		_, err = store.Open(t.Context(), dir, options)
		var wrong *store.SealError
		require.ErrorAs(t, err, &wrong)
		require.ErrorContains(t, err, "the data key does not fit the database")
		after, err := os.ReadFile(filepath.Join(dir, store.FileName))
		require.NoError(t, err)
		require.Equal(t, before, after)
	}
	requireFilled(t, openWith(t, dir, withKeys(ring)))
}

func TestReseal_olderKeyIsNotNeeded(t *testing.T) {
	dir, ring := t.TempDir(), newRing(t)
	db := openWith(t, dir, withKeys(ring))
	fill(t, db)
	update(t, db, func(tx *store.Tx) error {
		for i := range 2500 {
			if err := put(fmt.Sprint(i), cluster{Name: secret})(tx); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, ring.Add(seal.NewKey(2)))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, db.Reseal(ended), context.Canceled)
	requireFilled(t, db)

	half := copyDir(t, dir)
	halfway := openWith(t, half, withKeys(ring))
	requireFilled(t, halfway)

	writing := make(chan error)
	go func() {
		for i := range 300 {
			if err := db.Update(t.Context(), put(fmt.Sprint("meanwhile", i), cluster{Name: secret})); err != nil {
				writing <- err
				return
			}
		}
		writing <- nil
	}()
	require.NoError(t, db.Reseal(t.Context()))
	require.NoError(t, <-writing)
	dead := copyDir(t, dir) // as after kill -9
	require.NoError(t, db.Close())
	keys := ring.Keys()
	newest, err := seal.NewRing(keys[1])
	require.NoError(t, err)
	for _, dir := range []string{dead, dir} {
		db := openWith(t, dir, withKeys(newest))
		requireFilled(t, db)
		view(t, db, func(tx *store.Tx) error {
			return clusters.Each(tx, "", func(_ string, c *cluster) error {
				require.NotEmpty(t, c.Name)
				return nil
			})
		})
	}
}

// copyDir returns a copy of a directory.
func copyDir(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	require.NoError(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

func TestSealing_movedRowIsRejected(t *testing.T) {
	dir, ring := t.TempDir(), newRing(t)
	db := openWith(t, dir, withKeys(ring))
	update(t, db, put("one", cluster{Name: secret}))
	require.NoError(t, db.Close())
	require.NoError(t, boltUpdate(filepath.Join(dir, store.FileName), func(tx *bolt.Tx) error {
		rows := tx.Bucket([]byte("data"))
		return rows.Put([]byte("/clusters/two"), rows.Get([]byte("/clusters/one")))
	}))
	db = openWith(t, dir, withKeys(ring))
	view(t, db, func(tx *store.Tx) error {
		_, err := clusters.Get(tx, "two")
		require.True(t, store.IsDamaged(err), err)
		_, err = clusters.Get(tx, "one")
		require.NoError(t, err)
		return nil
	})
}

func TestSealing_modelHoldsWithRotations(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	dir, ring := t.TempDir(), newRing(t)
	db := openWith(t, dir, withKeys(ring).OnDisk(store.Datasync, (*bolt.DB).Update))
	m := newModel()
	for round := range 200 {
		update(t, db, func(tx *store.Tx) error {
			for range random.IntN(12) {
				if err := step(random, tx, m); err != nil {
					return err
				}
			}
			return nil
		})
		switch random.IntN(20) {
		case 0:
			require.NoError(t, ring.Add(seal.NewKey(uint64(round)+2)))
			require.NoError(t, db.Reseal(t.Context()))
		case 1:
			require.NoError(t, db.Close())
			keys := ring.Keys()
			var err error
			ring, err = seal.NewRing(keys[len(keys)-1])
			require.NoError(t, err)
			db = openWith(t, dir, withKeys(ring).OnDisk(store.Datasync, (*bolt.DB).Update))
		}
		view(t, db, func(tx *store.Tx) error { compare(t, tx, m); return nil })
	}
}

// TestVersionsEach_otherReads holds that a read within the iteration does not change the current
// value, whose memory the next row uses again.
func TestVersionsEach_otherReads(t *testing.T) {
	db, err := store.Open(t.Context(), t.TempDir(), withKeys(newRing(t)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	written := map[string]string{}
	update(t, db, func(tx *store.Tx) error {
		for i := range 20 {
			key := fmt.Sprintf("object-%02d", i)
			written[key] = strings.Repeat(fmt.Sprint(i, " "), 1+(i*7919)%3000)
			if err := objects.Put(tx, key, []byte(written[key])); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, db.View(func(tx *store.Tx) error {
		read := map[string]string{}
		err := objects.Each(tx, "object-05", func(row store.KeyValue) error {
			other, err := objects.Get(tx, "object-07")
			require.Equal(t, written["object-07"], string(other.Value))
			read[row.Key] = string(row.Value)
			if len(read) == 10 {
				return store.ErrStop
			}
			return err
		})
		require.Len(t, read, 10)
		for key, value := range read {
			require.Equal(t, written[key], value, key)
		}
		return err
	}))
}
