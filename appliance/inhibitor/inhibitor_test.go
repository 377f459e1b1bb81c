package inhibitor_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/record"
	"landfall/appliance/inhibitor"
	"landfall/store"
)

// lines collects a log.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func run(t *testing.T, clock clockwork.Clock, installing *atomic.Bool, command []string, log *lines) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	i := inhibitor.New(inhibitor.Options{Installing: func() (bool, error) { return installing.Load(), nil },
		Woke: func(context.Context, time.Duration) {}, Command: command, Clock: clock,
		Logger: slog.New(slog.NewTextHandler(log, nil))})
	go func() { ended <- i.Run(ctx) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-ended) })
}

// Case 35 (the list is in registry/faults_test.go): an inhibitor is held while an installation
// runs, and released after it.
func TestFault35_inhibitorIsHeld(t *testing.T) {
	clock, file := clockwork.NewFakeClock(), filepath.Join(t.TempDir(), "held")
	installing, log := new(atomic.Bool), new(lines)
	run(t, clock, installing, []string{"sh", "-c", "touch " + file + "; cat; rm " + file}, log)
	exists := func() bool { _, err := os.Stat(file); return err == nil }
	later := func(what string, held bool) {
		t.Helper()
		require.Eventually(t, func() bool {
			clock.Advance(10 * time.Second)
			return exists() == held
		}, time.Minute, 10*time.Millisecond, what)
	}
	require.NoError(t, clock.BlockUntilContext(t.Context(), 1))
	require.False(t, exists())
	installing.Store(true)
	later("it is held", true)
	installing.Store(false)
	later("it is released", false)
}

// Case 35: Ctrl+C on the terminal of the appliance does not end the inhibitor, because the
// appliance may continue.
func TestFault35_ownProcessGroup(t *testing.T) {
	file := filepath.Join(t.TempDir(), "group")
	installing := new(atomic.Bool)
	installing.Store(true)
	run(t, clockwork.NewFakeClock(), installing,
		[]string{"sh", "-c", "cut -d ' ' -f 5 /proc/$$/stat > " + file + ".new; mv " + file + ".new " + file + "; cat"},
		new(lines))
	var group []byte
	require.Eventually(t, func() bool {
		group, _ = os.ReadFile(file)
		return len(group) > 0
	}, time.Minute, 10*time.Millisecond)
	require.NotEqual(t, strconv.Itoa(syscall.Getpgrp()), string(bytes.TrimSpace(group)))
}

// Case 35: without an inhibitor, the log says so once.
func TestFault35_noInhibitor(t *testing.T) {
	clock, installing, log := clockwork.NewFakeClock(), new(atomic.Bool), new(lines)
	installing.Store(true)
	run(t, clock, installing, []string{filepath.Join(t.TempDir(), "systemd-inhibit")}, log)
	said := func() bool { return bytes.Contains([]byte(log.String()), []byte("can't be kept from sleeping")) }
	require.Eventually(t, said, time.Minute, 10*time.Millisecond)
	for range 3 {
		clock.Advance(10 * time.Second)
	}
	require.Equal(t, 1, bytes.Count([]byte(log.String()), []byte("can't be kept from sleeping")))
	require.Contains(t, log.String(), "keep the lid open")
}

// Case 35: after a sleep, somebody looks at the clock.
func TestFault35_wakes(t *testing.T) {
	clock, slept := clockwork.NewFakeClock(), new(atomic.Int64)
	woke := make(chan time.Duration, 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	i := inhibitor.New(inhibitor.Options{Installing: func() (bool, error) { return false, nil },
		Woke:  func(_ context.Context, by time.Duration) { woke <- by; cancel() },
		Jump:  func(time.Time) time.Duration { return time.Duration(slept.Load()) },
		Clock: clock, Logger: slog.New(slog.DiscardHandler)})
	go func() { ended <- i.Run(ctx) }()
	require.NoError(t, clock.BlockUntilContext(t.Context(), 1))
	slept.Store(int64(time.Hour))
	clock.Advance(10 * time.Second)
	require.Equal(t, time.Hour, <-woke)
	require.NoError(t, <-ended)
}

func TestInstalling_statesOfTheClusters(t *testing.T) {
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	for _, c := range []struct {
		status     string
		installing bool
	}{
		{models.ClusterStatusReady, false},
		{models.ClusterStatusPreparingForInstallation, true},
		{models.ClusterStatusInstalling, true},
		{models.ClusterStatusInstallingPendingUserAction, true},
		{models.ClusterStatusFinalizing, true},
		{models.ClusterStatusInstalled, false},
		{models.ClusterStatusError, false},
	} {
		require.NoError(t, db.Update(t.Context(), func(tx *store.Tx) error {
			for id, status := range map[string]string{"a": models.ClusterStatusReady, "b": c.status,
				"c": models.ClusterStatusInstalled} {
				row := &record.Cluster{API: models.Cluster{Status: &status}}
				if err := record.Clusters.Put(tx, id, row); err != nil {
					return err
				}
			}
			return nil
		}))
		found, err := inhibitor.Installing(db)
		require.NoError(t, err)
		require.Equal(t, c.installing, found, c.status)
	}
}
