package backup_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/backup"
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
			at, failure := service.State()
			require.NoError(t, failure)
			return len(names()) == want && !at.IsZero()
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
	await := func(what string, is func(failure error) bool) {
		t.Helper()
		require.Eventually(t, func() bool {
			clock.Advance(time.Minute)
			_, failure := service.State()
			require.True(t, failure == nil || clock.Since(begun) >= time.Hour)
			return is(failure)
		}, time.Minute, time.Millisecond, what)
	}
	await("the failure", func(failure error) bool { return failure != nil })
	_, failure := service.State()
	require.ErrorContains(t, failure, "the directory "+stick+" has been missing since ")
	require.ErrorContains(t, failure, "correct backup.directory")
	require.NoError(t, os.Mkdir(stick, 0o700))
	await("the end of the failure", func(failure error) bool { return failure == nil })
	cancel()
	require.NoError(t, <-ended)
}

// A failed removal of old backups is shown until a removal succeeds.
func TestService_oldBackupsStay(t *testing.T) {
	stick := t.TempDir()
	service, clock := newService(t, stick)
	repository := &backup.Repository{Dir: stick}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- service.Run(ctx) }()
	await := func(what string, is func(last time.Time, failure error) bool) {
		t.Helper()
		require.Eventually(t, func() bool {
			clock.Advance(time.Minute)
			return is(service.State())
		}, time.Minute, time.Millisecond, what)
	}
	backups := func(count int) {
		t.Helper()
		await("the next backup", func(time.Time, error) bool {
			names, err := repository.Names()
			require.NoError(t, err)
			return len(names) == count
		})
	}
	backups(1)
	backups(2)
	names, err := repository.Names()
	require.NoError(t, err)
	list := filepath.Join(stick, "backups", names[1]+".objects")
	whole, err := os.ReadFile(list)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(list, []byte("damaged"), 0o600))
	await("the removal fails", func(_ time.Time, failure error) bool { return failure != nil })
	shown, failure := service.State()
	require.ErrorContains(t, failure, "remove old backups: no object is removed")
	require.NoError(t, os.WriteFile(list, whole, 0o600))
	await("the removal succeeds", func(last time.Time, failure error) bool {
		require.True(t, failure != nil || last.After(shown), "the failure disappeared without a removal")
		return failure == nil
	})
	cancel()
	require.NoError(t, <-ended)
}

func TestService_recipientIsChecked(t *testing.T) {
	dir := t.TempDir()
	keys := keyring.New(dir, keyring.Options{})
	_, err := backup.NewService(t.Context(), backup.Options{Dir: dir, Keys: keys, Clock: clockwork.NewFakeClock(),
		Schedule: backup.Schedule{Dir: dir, Recipient: "ssh-rsa"}, Logger: slog.New(slog.DiscardHandler)})
	require.ErrorContains(t, err, "backup.recipient")
}
