package store_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"landfall/store"
)

// BenchmarkOpen opens databases of about 60 and 250 MB, with their pages in the cache of the system
// and without.
func BenchmarkOpen(b *testing.B) {
	for _, size := range []int{60, 250} {
		dir := b.TempDir()
		db, err := store.Open(b.Context(), dir, store.Options{})
		require.NoError(b, err)
		row, inventory := strings.Repeat("x", 3_000), strings.Repeat("x", 25_000)
		for first := 0; first < size*128; first += 400 {
			update(b, db, func(tx *store.Tx) error {
				var errs []error
				for i := first; i < first+400; i++ {
					text := row
					if i%8 == 0 {
						text = inventory
					}
					// in no order, as the IDs of hosts
					errs = append(errs, documents.Put(tx, fmt.Sprintf("%08d", i*7919%100_003), &document{i, text}))
				}
				return errors.Join(errs...)
			})
		}
		require.NoError(b, db.Close())
		path := filepath.Join(dir, store.FileName)
		info, err := os.Stat(path)
		require.NoError(b, err)
		for _, cached := range []bool{true, false} {
			b.Run(fmt.Sprintf("MB=%d/cached=%t", size, cached), func(b *testing.B) {
				b.SetBytes(info.Size())
				for b.Loop() {
					if !cached {
						b.StopTimer()
						dropCache(b, path)
						b.StartTimer()
					}
					db, err := store.Open(b.Context(), dir, store.Options{})
					require.NoError(b, err)
					require.NoError(b, db.Close())
				}
			})
		}
	}
}

// dropCache makes the system forget the pages of a file.
func dropCache(b *testing.B, path string) {
	file, err := os.Open(path)
	require.NoError(b, err)
	require.NoError(b, unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED))
	require.NoError(b, file.Close())
}
