package ams

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/ams/amstest"
	"landfall/appliance/sitekey"
	"landfall/store"
)

// BenchmarkRelay_tenThousandWaiting measures ten thousand waiting clusters at a site without a
// connection: disk space, memory, the time of a start and the idle load. Then the connection
// returns and all clusters are reported without a rate limit.
func BenchmarkRelay_tenThousandWaiting(b *testing.B) {
	const count, watched = 10_000, 3 * time.Second
	figures := map[string]float64{} // b.Loop resets the metrics that were reported before it
	dir := b.TempDir()
	clock := clockwork.NewRealClock()
	open := func() *store.DB {
		db, err := store.Open(b.Context(), dir, store.Options{Clock: clock, NoSync: true})
		require.NoError(b, err)
		return db
	}
	db := open()
	before := diskOf(b, dir)
	registerMany(b, db, count, clock.Now().UTC().Add(-time.Hour))
	require.NoError(b, db.Close()) // releases the preallocated part of the file
	figures["disk-MB"] = float64(diskOf(b, dir)-before) / 1e6

	db = open()
	defer func() { require.NoError(b, db.Close()) }()
	key, err := sitekey.LoadOrCreate(dir)
	require.NoError(b, err)
	ams := amstest.New(clock)
	ams.FullAnswers = true
	secret := &memoryCredentials{}
	quiet := slog.New(slog.DiscardHandler)
	client := NewClient(ClientOptions{
		URL: amsURL, TokenURL: ssoURL, Transport: amstest.Transport{Handler: ams}, Credentials: secret, Clock: clock,
		Logger: quiet,
	})
	relay := New(Options{DB: db, Clusters: ownStates{db}, Client: client, URL: amsURL, Credentials: secret,
		Clock:  clock,
		Logger: quiet, Key: key})
	heap := heapOf()
	began := time.Now()
	require.NoError(b, relay.index(b.Context()))
	indexed := time.Now()
	_, err = relay.scan()
	require.NoError(b, err)
	figures["index-once-ms"] = float64(indexed.Sub(began).Microseconds()) / 1000
	figures["start-ms"] = float64(time.Since(indexed).Microseconds()) / 1000
	figures["memory-MB"] = float64(heapOf()-heap) / 1e6

	for unit, measure := range map[string]func() error{
		"page-ms": func() error {
			_, err := relay.Status(b.Context(), Selection{Limit: 50})
			return err
		},
		"list-ms": func() error {
			_, err := relay.Subscriptions(b.Context(), "")
			return err
		},
	} {
		began = time.Now()
		require.NoError(b, measure())
		figures[unit] = float64(time.Since(began).Microseconds()) / 1000
	}

	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	for relay.restState() != NoCredentials {
		<-clock.After(10 * time.Millisecond)
	}
	spent := cpu(b)
	<-clock.After(watched)
	figures["offline-CPU-ms/s"] = float64((cpu(b) - spent).Microseconds()) / 1000 / watched.Seconds()

	for b.Loop() { // the other clusters no longer wait
		secret.mu.Lock()
		secret.secret = Secret{OfflineToken: ams.AddAccount(ours)}
		secret.mu.Unlock()
		began = time.Now()
		relay.Connect(0)
		for {
			relay.mu.Lock()
			left := len(relay.jobs)
			relay.mu.Unlock()
			if left == 0 {
				break
			}
			<-clock.After(20 * time.Millisecond)
		}
	}
	cancel()
	require.NoError(b, <-ended)
	require.Len(b, ams.Requests("create"), count)
	b.ReportMetric(count/max(0.001, time.Since(began).Seconds()), "clusters/s")
	for unit, figure := range figures {
		b.ReportMetric(figure, unit)
	}
	b.ReportMetric(0, "ns/op")
}

func (r *Relay) restState() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// ownStates implements Clusters without an engine.
type ownStates struct{ db *store.DB }

func (o ownStates) RecordSubscription(ctx context.Context, _, _, _ string, _ bool, write func(*store.Tx) error) error {
	return o.db.Update(ctx, write)
}

// diskOf returns the size of the files in a directory, in bytes.
func diskOf(b *testing.B, dir string) (size int64) {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(b, err)
	for _, name := range files {
		info, err := os.Stat(name)
		require.NoError(b, err)
		size += info.Size()
	}
	return size
}

func heapOf() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func cpu(b *testing.B) time.Duration {
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
