package replica_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/backup"
	"landfall/appliance/keyring"
	"landfall/appliance/replica"
	"landfall/store"
)

// benchSite opens a data directory whose updates are synced, and keeps a replica if dir is not "".
func benchSite(b *testing.B, dir string) (*store.DB, *replica.Service) {
	b.Helper()
	data := b.TempDir()
	keys := keyring.New(data, keyring.Options{})
	db, err := store.Open(b.Context(), data, store.Options{Keys: keys.Open})
	require.NoError(b, err)
	options := replica.Options{DB: db, Dir: data, Name: "bench", Program: "bench", Keys: keys,
		Clock: clockwork.NewRealClock(), Logger: slog.New(slog.DiscardHandler),
		Settings: replica.Settings{Keep: time.Hour, SnapshotInterval: time.Hour}}
	if dir != "" {
		options.Settings.Target = replica.Directory{Path: dir}
	}
	service, err := replica.New(b.Context(), options)
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- service.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		require.NoError(b, errors.Join(<-ended, service.Close(), db.Close()))
	})
	return db, service
}

// BenchmarkUpdates writes rows of 3 KiB with 16 writers, without and with a replica on the same
// disk. log/op is what the replica takes for an update, in bytes.
func BenchmarkUpdates(b *testing.B) {
	for _, name := range []string{"without", "with"} {
		b.Run(name, func(b *testing.B) {
			dir := ""
			if name == "with" {
				dir = b.TempDir()
			}
			db, service := benchSite(b, dir)
			var next atomic.Int64
			text := strings.Repeat("x", 3000)
			b.SetParallelism(8)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					n := int(next.Add(1))
					err := db.Update(b.Context(), func(tx *store.Tx) error {
						return items.Put(tx, fmt.Sprint(n%5000), &item{n, text})
					})
					if err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.StopTimer()
			if state := service.State(); state != nil {
				b.ReportMetric(float64(state.Written)/float64(b.N), "log/op")
			}
		})
	}
}

// BenchmarkRestore restores a replica of 50,000 rows of 3 KiB and a log of 20,000 updates after its
// snapshot.
func BenchmarkRestore(b *testing.B) {
	const rows, updates, batch = 50_000, 20_000, 100
	dir := b.TempDir()
	db, service := benchSite(b, dir)
	text := strings.Repeat("x", 3000)
	for n := 0; n < rows+updates; n += batch {
		require.NoError(b, db.Update(b.Context(), func(tx *store.Tx) error {
			for i := n; i < n+batch; i++ {
				if err := items.Put(tx, fmt.Sprint(i%rows), &item{i, text}); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	now := time.Now()
	require.Eventually(b, func() bool { return service.State().Shipped.After(now) }, time.Minute, time.Millisecond)
	for b.Loop() {
		to := filepath.Join(b.TempDir(), "data")
		_, err := replica.Reader{Directory: replica.Directory{Path: dir}}.Restore(b.Context(), time.Time{},
			backup.Target{Dir: to, Now: time.Now})
		require.NoError(b, err)
		require.NoError(b, os.RemoveAll(to))
	}
}
