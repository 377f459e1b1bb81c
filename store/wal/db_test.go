package wal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"weak"

	"github.com/stretchr/testify/require"

	"landfall/randtest"
)

// requireRows requires that a transaction contains the rows of a model, read forward, backward and
// by key.
func requireRows(t *testing.T, tx *Tx, model map[string]string) {
	t.Helper()
	want := slices.Sorted(maps.Keys(model))
	var forward, backward []string
	c := tx.Cursor(Data)
	for key, value := c.Seek(nil); key != nil; key, value = c.Next() {
		forward = append(forward, string(key))
		require.Equal(t, model[string(key)], string(value))
		require.Equal(t, value, tx.Get(Data, key))
	}
	for key, _ := c.SeekBefore(nil); key != nil; key, _ = c.Next() {
		backward = append(backward, string(key))
	}
	slices.Reverse(backward)
	require.Equal(t, want, forward)
	require.Equal(t, want, backward)
}

func TestDB_rowsMatchModelAcrossCheckpointsAndKills(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	dir, model := t.TempDir(), map[string]string{"0": ""}
	db := openDB(t, dir)
	require.NoError(t, db.Update(t.Context(), updateFunc(func(tx *Tx) error {
		return tx.Put(Data, []byte("0"),
			[]byte{})
	})))
	failure := errors.New("refused")
	for round := range 400 {
		next := maps.Clone(model)
		fails := random.IntN(4) == 0
		err := db.Update(t.Context(), updateFunc(func(tx *Tx) error {
			for range 1 + random.IntN(5) {
				key := fmt.Sprint(random.IntN(60))
				if random.IntN(3) == 0 && key != "0" {
					delete(next, key)
					require.NoError(t, tx.Delete(Data, []byte(key)))
					continue
				}
				next[key] = strings.Repeat("v", random.IntN(900))
				require.NoError(t, tx.Put(Data, []byte(key), []byte(next[key])))
			}
			requireRows(t, tx, next)
			if fails {
				return failure
			}
			return nil
		}))
		if fails {
			require.ErrorIs(t, err, failure)
		} else {
			require.NoError(t, err)
			model = next
		}
		view(t, db, func(tx *Tx) {
			requireRows(t, tx, model)
			require.ErrorIs(t, tx.Put(Data, []byte("a"), nil), ErrReadOnly)
		})
		switch round % 80 {
		case 30: // a kill leaves the files of an open database
			killed := t.TempDir()
			require.NoError(t, db.Update(t.Context(), updateFunc(func(*Tx) error { return nil })))
			db.quiesce()
			if db.running != nil {
				<-db.running.done
			}
			for _, name := range append([]string{"test.db"}, FileNames[:]...) {
				text, err := os.ReadFile(filepath.Join(dir, name))
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(filepath.Join(killed, name), text, 0o600))
			}
			db.resume()
			require.NoError(t, db.Close())
			dir, db = killed, openDB(t, killed)
		case 60:
			require.NoError(t, db.Close())
			require.NoFileExists(t, filepath.Join(dir, FileNames[0]))
			require.ErrorIs(t, db.Update(t.Context(), updateFunc(func(*Tx) error { return nil })), ErrClosed)
			db = openDB(t, dir)
		}
	}
	require.NoError(t, db.Close())
}

func TestReleaseMemory_memtableIsFreed(t *testing.T) {
	db := openDB(t, t.TempDir())
	put := updateFunc(func(tx *Tx) error { return tx.Put(Data, []byte("a"), []byte("b")) })
	require.NoError(t, db.Update(t.Context(), put))
	active := weak.Make(db.memtables.Load().active)
	held := func() bool {
		runtime.GC()
		return active.Value() != nil
	}
	require.True(t, held())
	require.NoError(t, db.ReleaseMemory())
	require.False(t, held())
	view(t, db, func(tx *Tx) { requireRows(t, tx, map[string]string{"a": "b"}) })
	require.NoError(t, db.Close())
}

// Updates that fail insert rows between those that others read at the same time.
func TestRollback_leavesNoRows(t *testing.T) {
	db := openDB(t, t.TempDir())
	failure := errors.New("the update fails")
	fails := func(keys ...string) {
		t.Helper()
		err := db.Update(t.Context(), updateFunc(func(tx *Tx) error {
			for _, key := range keys {
				if err := tx.Put(Data, []byte(key), []byte("not committed")); err != nil {
					return err
				}
			}
			return failure
		}))
		require.ErrorIs(t, err, failure)
	}
	fails("a", "b", "a")
	require.True(t, db.memtables.Load().active.empty())

	model := make(map[string]string)
	require.NoError(t, db.Update(t.Context(), updateFunc(func(tx *Tx) error {
		for i := range 50 {
			key := fmt.Sprintf("%03d", 2*i)
			model[key] = "committed"
			if err := tx.Put(Data, []byte(key), []byte("committed")); err != nil {
				return err
			}
		}
		return nil
	})))
	var readers sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for range 3 {
		readers.Go(func() {
			for ctx.Err() == nil {
				view(t, db, func(tx *Tx) { requireRows(t, tx, model) })
			}
		})
	}
	random := randtest.New(t, 0)
	for range 2000 {
		var keys []string
		for range 1 + random.IntN(8) {
			keys = append(keys, fmt.Sprintf("%03d", random.IntN(110)))
		}
		fails(keys...)
	}
	stop()
	readers.Wait()
	require.NoError(t, db.Close())
}
