package backup_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"landfall/appliance/backup"
	"landfall/appliance/doctor"
	"landfall/appliance/keyring"
	"landfall/store"
)

// newService returns a service that writes a backup to a stick in each hour, and keeps two.
func newService(t *testing.T, stick string) (*backup.Service, *clockwork.FakeClock) {
	t.Helper()
	dir := t.TempDir()
	clock := clockwork.NewFakeClockAt(now)
	keys := keyring.New(dir, keyring.Options{})
	db, err := store.Open(t.Context(), dir, store.Options{Keys: keys.Open, NoSync: true, Clock: clock})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	service, err := backup.NewService(t.Context(), backup.Options{DB: db, Dir: dir, Program: "test", Keys: keys,
		Schedule: backup.Schedule{Dir: stick, Interval: time.Hour, Keep: 2},
		Hold:     func(context.Context) error { return nil }, Clock: clock, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return service, clock
}

// TestService_waitsForTheMedium plugs a stick in after the backup was due, and waits for the next
// backups.
func TestService_waitsForTheMedium(t *testing.T) {
	stick := filepath.Join(t.TempDir(), "stick")
	service, clock := newService(t, stick)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- service.Run(ctx) }()
	names := func() []string {
		all, err := (&backup.Repository{Dir: stick}).Names()
		require.NoError(t, err)
		return all
	}
	require.NoError(t, clock.BlockUntilContext(ctx, 1))
	require.Empty(t, names())
	require.NoError(t, os.Mkdir(stick, 0o700))
	for _, want := range []int{1, 2, 2} {
		require.Eventually(t, func() bool {
			clock.Advance(time.Minute)
			state := service.State()
			require.Empty(t, state.Problem())
			return len(names()) == want && !state.Last.IsZero()
		}, time.Minute, time.Millisecond)
		clock.Advance(time.Hour)
	}
	cancel()
	require.NoError(t, <-ended)
}

// A directory with a wrong name is not told apart from a medium that is away. It fails after an
// interval.
func TestService_missingDirectoryFails(t *testing.T) {
	stick := filepath.Join(t.TempDir(), "stick")
	service, clock := newService(t, stick)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- service.Run(ctx) }()
	begun := clock.Now()
	await := func(what string, is func(failure string) bool) {
		t.Helper()
		require.Eventually(t, func() bool {
			clock.Advance(time.Minute)
			failure := service.State().Failure
			require.True(t, failure == "" || clock.Since(begun) >= time.Hour)
			return is(failure)
		}, time.Minute, time.Millisecond, what)
	}
	await("the failure", func(failure string) bool { return failure != "" })
	failure := service.State().Failure
	require.Contains(t, failure, "directory "+stick+" has been missing since ")
	require.Contains(t, failure, "correct backup.directory")
	require.NoError(t, os.Mkdir(stick, 0o700))
	await("the end of the failure", func(failure string) bool { return failure == "" })
	cancel()
	require.NoError(t, <-ended)
}

// A failed removal of old backups is shown until a removal succeeds, which is tried at each look.
func TestService_oldBackupsStay(t *testing.T) {
	stick := t.TempDir()
	service, clock := newService(t, stick)
	look := func(after time.Duration) *backup.State {
		t.Helper()
		clock.Advance(after)
		require.NoError(t, service.Look(t.Context()))
		return service.State()
	}
	look(0)
	require.Empty(t, look(time.Hour).Problem())
	finding := service.Finding()
	require.Equal(t, doctor.Green, finding.Status)
	require.Contains(t, finding.Result, stick+": the newest backup was written at ")
	repository := &backup.Repository{Dir: stick}
	names, err := repository.Names()
	require.NoError(t, err)
	require.Len(t, names, 2)
	list := filepath.Join(stick, "backups", names[1]+".objects")
	whole, err := os.ReadFile(list)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(list, []byte("damaged"), 0o600))
	third := look(time.Hour)
	require.Contains(t, third.PruneFailure, "Remove old backups: no object is removed")
	require.Empty(t, third.Failure)
	finding = service.Finding()
	require.Equal(t, doctor.Amber, finding.Status)
	require.Equal(t, "Old backups stay, so the directory fills up. "+third.PruneFailure, finding.Advice)
	require.Equal(t, 1.0, testutil.ToFloat64(only{service, "landfall_backup_failing"}))

	require.Equal(t, third, look(time.Minute), "it fails again")
	require.NoError(t, os.WriteFile(list, whole, 0o600))
	again := look(time.Minute)
	require.Empty(t, again.Problem())
	require.Equal(t, third.Last, again.Last, "no later backup was needed")
	require.Zero(t, testutil.ToFloat64(only{service, "landfall_backup_failing"}))
	require.Equal(t, float64(third.Last.Unix()),
		testutil.ToFloat64(only{service, "landfall_backup_last_timestamp_seconds"}))
}

// While a person reads the backups, none is removed.
func TestService_shortLockIsNotShownForLong(t *testing.T) {
	stick := t.TempDir()
	service, clock := newService(t, stick)
	for range 3 {
		clock.Advance(time.Hour)
		require.NoError(t, service.Look(t.Context()))
	}
	repository := &backup.Repository{Dir: stick}
	service.Keep(1)
	unlock := repository.LockForReading()
	service.Prune(t.Context(), repository)
	require.Contains(t, service.State().PruneFailure, "another backup is being written")
	require.NoError(t, unlock())
	require.NoError(t, service.Look(t.Context()))
	require.Empty(t, service.State().Problem())
	names, err := repository.Names()
	require.NoError(t, err)
	require.Len(t, names, 1)
}

// only is a collector of one metric of a service.
type only struct {
	*backup.Service
	name string
}

func (o only) Describe(chan<- *prometheus.Desc) {}

func (o only) Collect(to chan<- prometheus.Metric) {
	all := make(chan prometheus.Metric, 10)
	o.Service.Collect(all)
	close(all)
	for one := range all {
		if strings.Contains(one.Desc().String(), strconv.Quote(o.name)) {
			to <- one
		}
	}
}

// A file has the place of a directory, so no backup can be written.
func TestService_failureIsShown(t *testing.T) {
	stick := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(stick, "objects"), nil, 0o600))
	service, _ := newService(t, stick)
	require.Empty(t, service.State().Problem())
	require.Error(t, service.Look(t.Context()))
	require.Contains(t, service.State().Problem(),
		"The last attempt failed, and no backup was written since the start. ")
	require.Equal(t, doctor.Amber, service.Finding().Status)
	require.NoError(t, os.Remove(filepath.Join(stick, "objects")))
	require.NoError(t, service.Look(t.Context()))
	require.Empty(t, service.State().Problem())
}

func TestService_noScheduleHasNoState(t *testing.T) {
	service, _ := newService(t, "")
	require.Nil(t, service.State())
	require.Nil(t, service.Finding())
	require.Zero(t, testutil.CollectAndCount(service))
}

func TestService_recipientIsChecked(t *testing.T) {
	dir := t.TempDir()
	keys := keyring.New(dir, keyring.Options{})
	_, err := backup.NewService(t.Context(), backup.Options{Dir: dir, Keys: keys, Clock: clockwork.NewFakeClock(),
		Schedule: backup.Schedule{Dir: dir, Recipient: "ssh-rsa"}, Logger: slog.New(slog.DiscardHandler)})
	require.ErrorContains(t, err, "backup.recipient")
}
