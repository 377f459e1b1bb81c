//go:build etcd

package sequence

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/fleet/etcdtest"
	"landfall/store"
	"landfall/store/storetest"
	"landfall/store/wal"
)

// valueSize is the size of a record of a created cluster, in bytes.
const valueSize = 2000

type benchRow struct {
	Value []byte `json:"value"`
}

var benchRows = store.NewBucket[benchRow]("bench", 1)

// Lengths of the rounds, in values and in updates of each writer.
const (
	roundOfEtcd    = 100
	roundOfWriters = 48
)

// BenchmarkFleet measures updates of a leader's database with two followers, and compares them with
// the rate at which one client writes values of that size to the same etcd: x-etcd. Both run in
// alternating rounds. The followers' lag is the time from the end of an update until a follower has
// applied it, and lag-alone-p99-ms that of an update while no other one runs.
func BenchmarkFleet(b *testing.B) {
	for _, writers := range []int{1, 32} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) { measureFleet(b, writers) })
	}
}

func measureFleet(b *testing.B, writers int) {
	server := etcdtest.Start(b, etcdtest.Options{Sync: true})
	s := open(b, server.URL(), func(o *Options) { o.Lease = DefaultLease })
	require.NoError(b, s.Create(b.Context(), "fleet-1", Position{}))
	db := openStore(b, b.TempDir(), store.Options{Shared: lead(b, s, "leader")})
	update(b, db, "first")
	ctx, cancel := context.WithCancel(b.Context())
	var following sync.WaitGroup
	var followers []*measuredFollower
	for range 2 {
		f := &measuredFollower{db: copyStore(b, db), of: open(b, server.URL(), func(o *Options) {
			o.Prefix = s.Prefix
		})}
		followers = append(followers, f)
		following.Go(func() { f.run(ctx) })
	}
	// etcd brings a new watch up to date every 100 ms, as long as it lacks something.
	for n := range 20 {
		update(b, db, fmt.Sprint("before ", n))
		<-time.After(20 * time.Millisecond)
	}
	value := string(bytes.Repeat([]byte("x"), valueSize))
	var alone, fleet time.Duration
	values, updates, first := 0, 0, db.Sequence()
	for b.Loop() {
		began := time.Now()
		for range roundOfEtcd {
			_, err := s.client.Put(b.Context(), fmt.Sprint("/alone/", values), value)
			require.NoError(b, err)
			values++
		}
		alone += time.Since(began)
		began = time.Now()
		var group sync.WaitGroup
		for writer := range writers {
			group.Go(func() {
				for n := range roundOfWriters {
					update(b, db, fmt.Sprint(writer, " ", updates+n))
					ended := time.Now()
					for _, f := range followers {
						f.ended.LoadOrStore(db.Sequence(), ended)
					}
				}
			})
		}
		group.Wait()
		fleet += time.Since(began)
		updates += writers * roundOfWriters
	}
	records := db.Sequence() - first
	<-time.After(100 * time.Millisecond) // for the followers
	cancel()
	following.Wait()
	all := slices.Sorted(slices.Values(slices.Concat(followers[0].lags, followers[1].lags)))
	require.NotEmpty(b, all)
	etcdRate, rate := float64(values)/alone.Seconds(), float64(updates)/fleet.Seconds()
	b.ReportMetric(etcdRate, "etcd/s")
	b.ReportMetric(rate, "updates/s")
	b.ReportMetric(rate/etcdRate, "x-etcd")
	b.ReportMetric(float64(updates)/float64(records), "updates/record")
	b.ReportMetric(all[len(all)/2].Seconds()*1000, "lag-p50-ms")
	b.ReportMetric(all[len(all)*99/100].Seconds()*1000, "lag-p99-ms")
	b.ReportMetric(0, "ns/op")
}

// measuredFollower notes how long after the leader it has applied a record.
type measuredFollower struct {
	db    *store.DB
	of    *Sequence
	ended sync.Map // number of a record: the time at which its first update ended
	lags  []time.Duration
}

func (f *measuredFollower) run(ctx context.Context) {
	_ = f.of.Follow(ctx, f.db.Position(), func(records []wal.Record) error {
		if err := f.db.Apply(ctx, records); err != nil {
			return err
		}
		for _, r := range records {
			// A record that is not noted yet was applied before its update ended.
			lag := time.Duration(0)
			if at, found := f.ended.Load(r.Number); found {
				lag = time.Since(at.(time.Time))
			}
			f.lags = append(f.lags, lag)
		}
		return nil
	})
}

// benchValue has the size of the row of a created cluster when it is encoded in base64.
var benchValue = bytes.Repeat([]byte("x"), valueSize*3/4)

func update(b *testing.B, db *store.DB, key string) {
	err := db.Update(context.Background(), func(tx *store.Tx) error {
		return benchRows.Put(tx, key, &benchRow{benchValue})
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
	storetest.CopyRows(t, db, dir)
	return openStore(t, dir, store.Options{Follow: true})
}
