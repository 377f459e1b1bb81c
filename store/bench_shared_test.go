package store_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/store"
	"landfall/store/storetest"
	"landfall/store/wal/waltest"
)

// fileLog is a shared log in a file that is synced after each record, as etcd syncs its own log.
type fileLog struct{ file *os.File }

func (l *fileLog) Append(_ context.Context, _ uint64, operations []byte) error {
	if _, err := l.file.Write(operations); err != nil {
		return err
	}
	return store.Datasync(l.file)
}

// BenchmarkShared compares updates of one 2 KB value through a shared log with the rate of that log
// itself for one writer. Batches of both alternate.
func BenchmarkShared(b *testing.B) {
	for _, writers := range []int{1, 32} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			open := func(name string) *fileLog {
				file, err := os.Create(filepath.Join(b.TempDir(), name))
				require.NoError(b, err)
				b.Cleanup(func() { require.NoError(b, file.Close()) })
				return &fileLog{file}
			}
			shared, bare := open("shared"), open("bare")
			db := openWith(b, b.TempDir(), store.Options{Shared: shared})
			text := strings.Repeat("x", 2048)
			ours := func(i int) error {
				return db.Update(context.Background(), func(tx *store.Tx) error {
					return documents.Put(tx, fmt.Sprintf("%08d", i), &document{i, text})
				})
			}
			theirs := func(int) error { return bare.Append(context.Background(), 0, []byte(text)) }
			var ourTime, theirTime time.Duration
			const batch = 64
			b.ResetTimer()
			for done := 0; done < b.N; done += batch {
				ourTime += spread(b, writers, done, min(b.N, done+batch), ours)
				theirTime += spread(b, 1, done, min(b.N, done+batch), theirs)
			}
			b.ReportMetric(float64(b.N)/ourTime.Seconds(), "commits/s")
			b.ReportMetric(float64(b.N)/theirTime.Seconds(), "log-records/s")
			b.ReportMetric(theirTime.Seconds()/ourTime.Seconds(), "ratio")
		})
	}
}

// BenchmarkApply applies records of one 2 KB value to a follower.
func BenchmarkApply(b *testing.B) {
	for _, batch := range []int{1, 64} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			log := new(waltest.Log)
			leader := openWith(b, b.TempDir(), store.Options{Shared: log, NoSync: true})
			put := func(i int) {
				update(b, leader, func(tx *store.Tx) error {
					return documents.Put(tx, fmt.Sprintf("%08d", i%10_000), &document{i, strings.Repeat("x", 2048)})
				})
			}
			put(0)
			dir := b.TempDir()
			storetest.CopyRows(b, leader, dir)
			follower := openWith(b, dir, store.Options{Follow: true})
			for i := range b.N {
				put(i + 1)
			}
			records := log.After(1)
			var took []time.Duration
			b.ResetTimer()
			for part := range slices.Chunk(records, batch) {
				start := time.Now()
				require.NoError(b, follower.Apply(b.Context(), part))
				took = append(took, time.Since(start))
			}
			b.StopTimer()
			slices.Sort(took)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
}
