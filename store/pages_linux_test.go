package store_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/store"
)

// resident returns the number of KiB of a file that are mapped and resident in this process.
func resident(t *testing.T, file string) (kibibytes int) {
	maps, err := os.ReadFile("/proc/self/smaps")
	require.NoError(t, err)
	_, mapping, found := bytes.Cut(maps, []byte(file+"\n"))
	require.True(t, found)
	size := regexp.MustCompile(`Rss:\s+(\d+) kB`).FindSubmatch(mapping)
	require.NotNil(t, size)
	kibibytes, err = strconv.Atoi(string(size[1]))
	require.NoError(t, err)
	return kibibytes
}

func TestReleaseMemory_pagesAreReturned(t *testing.T) {
	dir := t.TempDir()
	db, err := store.Open(t.Context(), dir, store.Options{NoSync: true})
	require.NoError(t, err)
	rows := store.NewBucket[[]byte]("rows", 1)
	const count = 40
	large := bytes.Repeat([]byte("row"), 10_000)
	write := func(i int) error {
		return db.Update(t.Context(), func(tx *store.Tx) error { return rows.Put(tx, strconv.Itoa(i), &large) })
	}
	read := func() error {
		return db.View(func(tx *store.Tx) error {
			return rows.Each(tx, "", func(key string, value *[]byte) error {
				if !bytes.Equal(large, *value) {
					t.Errorf("the row %s has another value", key)
				}
				return nil
			})
		})
	}
	for i := range count {
		require.NoError(t, write(i))
	}
	require.NoError(t, db.Close()) // the rows are now in the file
	db, err = store.Open(t.Context(), dir, store.Options{NoSync: true})
	require.NoError(t, err)
	require.NoError(t, read())
	path, err := filepath.EvalSymlinks(filepath.Join(dir, "landfall.db"))
	require.NoError(t, err)
	require.Greater(t, resident(t, path), count*len(large)/1024/2)
	require.NoError(t, db.ReleaseMemory())
	require.Less(t, resident(t, path), count*len(large)/1024/4)

	var group sync.WaitGroup // reads run while the file grows
	group.Go(func() {
		for i := range 2 * count {
			if err := write(i); err != nil {
				t.Error(err)
			}
		}
	})
	group.Go(func() {
		for range 3 {
			if err := read(); err != nil {
				t.Error(err)
			}
		}
	})
	for range 20 {
		require.NoError(t, db.ReleaseMemory())
	}
	group.Wait()
	require.NoError(t, read())
	require.NoError(t, db.Close())
	require.ErrorIs(t, db.ReleaseMemory(), store.ErrClosed)
}
