//go:build etcd

package sequence

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/fleet/etcdtest"
	"landfall/store"
	"landfall/store/wal"
)

// valueSize is the size of a record of a created cluster, in bytes.
const valueSize = 2000

type benchRow struct {
	Value []byte `json:"value"`
}

var benchRows = store.NewBucket[benchRow]("bench", 1)

// BenchmarkFleet measures updates of a leader's database with two followers, and compares them with
// the rate at which one client writes values of that size to the same etcd: x-etcd. The followers'
// lag is the time from the end of an update until a follower has applied it.
func BenchmarkFleet(b *testing.B) {
	for _, writers := range []int{1, 32} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			server := etcdtest.Start(b, etcdtest.Options{Sync: true})
			alone := etcdRate(b, server)
			s := open(b, server.URL(), func(o *Options) { o.Lease = DefaultLease })
			require.NoError(b, s.Create(b.Context(), "fleet-1", Position{}))
			leader := lead(b, s, "leader")
			db := openStore(b, b.TempDir(), store.Options{Shared: leader})
			update(b, db, "first")
			var done sync.Map // number of a record: the time at which its update ended
			lags := [2][]time.Duration{}
			var followers sync.WaitGroup
			ctx, cancel := context.WithCancel(b.Context())
			for i := range lags {
				copied := copyStore(b, db)
				follower := open(b, server.URL(), func(o *Options) { o.Prefix = s.Prefix })
				followers.Go(func() {
					_ = follower.Follow(ctx, copied.Position(), func(records []wal.Record) error {
						if err := copied.Apply(ctx, records); err != nil {
							return err
						}
						for _, r := range records {
							if at, found := done.Load(r.Number); found {
								lags[i] = append(lags[i], max(0, time.Since(at.(time.Time))))
							} else {
								lags[i] = append(lags[i], 0) // the follower was first
							}
						}
						return nil
					})
				})
			}
			b.ResetTimer()
			var next atomic.Int64
			var group sync.WaitGroup
			for range writers {
				group.Go(func() {
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						update(b, db, fmt.Sprint(n))
						done.LoadOrStore(db.Sequence(), time.Now())
					}
				})
			}
			group.Wait()
			b.StopTimer()
			time.Sleep(100 * time.Millisecond) // for the followers
			cancel()
			followers.Wait()
			all := slices.Sorted(slices.Values(slices.Concat(lags[0], lags[1])))
			require.NotEmpty(b, all)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/alone, "x-etcd")
			b.ReportMetric(float64(b.N)/float64(db.Sequence()), "updates/record")
			b.ReportMetric(all[len(all)*99/100].Seconds()*1000, "lag-p99-ms")
		})
	}
}

// etcdRate returns the number of values that one client writes in a second.
func etcdRate(b *testing.B, server *etcdtest.Server) float64 {
	b.Helper()
	s := open(b, server.URL())
	value := string(bytes.Repeat([]byte("x"), valueSize))
	began, count := time.Now(), 0
	for ; time.Since(began) < 2*time.Second; count++ {
		_, err := s.client.Put(b.Context(), fmt.Sprint("/alone/", count), value)
		require.NoError(b, err)
	}
	return float64(count) / time.Since(began).Seconds()
}

func update(b *testing.B, db *store.DB, key string) {
	err := db.Update(context.Background(), func(tx *store.Tx) error {
		return benchRows.Put(tx, key, &benchRow{bytes.Repeat([]byte("x"), valueSize*3/4)}) // in base64
	})
	if err != nil {
		b.Error(err)
	}
}

func openStore(t testing.TB, dir string, options store.Options) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), dir, options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// copyStore returns a follower with the rows of a database.
func copyStore(t testing.TB, db *store.DB) *store.DB {
	t.Helper()
	dir := t.TempDir()
	copyRows(t, db, dir)
	return openStore(t, dir, store.Options{Follow: true})
}

func copyRows(t testing.TB, db *store.DB, dir string) {
	t.Helper()
	snapshot, err := db.Snapshot()
	require.NoError(t, err)
	defer func() { require.NoError(t, snapshot.Close()) }()
	var rows []store.StoredRow
	require.NoError(t, snapshot.Rows(t.Context(), func(row store.StoredRow) error {
		row.Key, row.Value = bytes.Clone(row.Key), bytes.Clone(row.Value)
		rows = append(rows, row)
		return nil
	}))
	require.NoError(t, store.CreateFrom(dir, func() (store.StoredRow, error) {
		if len(rows) == 0 {
			return store.StoredRow{}, io.EOF
		}
		row := rows[0]
		rows = rows[1:]
		return row, nil
	}))
}
