package store_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"landfall/store"
)

// document is a value of about 2 KB, the size of a host's row.
type document struct {
	Serial int    `json:"serial"`
	Text   string `json:"text"`
}

var documents = store.NewBucket[document]("documents", 1)

// BenchmarkUpdate compares synced updates of one 2 KB value with plain calls of bbolt.Update.
// Batches of both alternate, so that a disk of varying speed affects both equally.
func BenchmarkUpdate(b *testing.B) {
	for _, writers := range []int{1, 8} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			db := open(b, b.TempDir())
			bare, err := bolt.Open(filepath.Join(b.TempDir(), "bare.db"), 0o600, nil)
			require.NoError(b, err)
			defer func() { require.NoError(b, bare.Close()) }()
			text := strings.Repeat("x", 2048)
			ours := func(i int) error {
				return db.Update(context.Background(), func(tx *store.Tx) error {
					return documents.Put(tx, fmt.Sprintf("%08d", i), &document{i, text})
				})
			}
			theirs := func(i int) error {
				return bare.Update(func(tx *bolt.Tx) error {
					bucket, err := tx.CreateBucketIfNotExists([]byte("documents"))
					if err != nil {
						return err
					}
					return bucket.Put(fmt.Appendf(nil, "%08d", i), []byte(text))
				})
			}
			var ourTime, theirTime time.Duration
			const batch = 40
			b.ResetTimer()
			for done := 0; done < b.N; done += batch {
				ourTime += spread(b, writers, done, min(b.N, done+batch), ours)
				theirTime += spread(b, writers, done, min(b.N, done+batch), theirs)
			}
			b.ReportMetric(float64(b.N)/ourTime.Seconds(), "commits/s")
			b.ReportMetric(float64(b.N)/theirTime.Seconds(), "bbolt-commits/s")
			b.ReportMetric(theirTime.Seconds()/ourTime.Seconds(), "ratio")
		})
	}
}

// spread calls fn for the numbers from first to end-1, divided among several goroutines, and
// returns the elapsed time.
func spread(b *testing.B, writers, first, end int, fn func(int) error) time.Duration {
	start := time.Now()
	var running sync.WaitGroup
	for w := range writers {
		running.Go(func() {
			for i := first + w; i < end; i += writers {
				if err := fn(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
	return time.Since(start)
}

// BenchmarkGet reads one 2 KB value per view.
func BenchmarkGet(b *testing.B) {
	db := open(b, b.TempDir())
	update(b, db, func(tx *store.Tx) error {
		return documents.Put(tx, "a", &document{1, strings.Repeat("x", 2000)})
	})
	b.ReportAllocs()
	for b.Loop() {
		view(b, db, func(tx *store.Tx) error {
			_, err := documents.Get(tx, "a")
			return err
		})
	}
}

// BenchmarkGetCached reads one 2 KB value per view from a cached bucket.
func BenchmarkGetCached(b *testing.B) {
	db := open(b, b.TempDir())
	bucket := documents.Cached()
	update(b, db, func(tx *store.Tx) error { return bucket.Put(tx, "a", &document{1, "x"}) })
	b.ReportAllocs()
	for b.Loop() {
		view(b, db, func(tx *store.Tx) error {
			_, err := bucket.Get(tx, "a")
			return err
		})
	}
}
