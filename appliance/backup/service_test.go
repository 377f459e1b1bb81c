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

// TestService_waitsForTheMedium plugs a stick in after the backup was due, and waits for the next
// backups.
func TestService_waitsForTheMedium(t *testing.T) {
	dir := t.TempDir()
	clock := clockwork.NewFakeClockAt(now)
	keys := keyring.New(dir, keyring.Options{})
	db, err := store.Open(t.Context(), dir, store.Options{Keys: keys.Open, NoSync: true, Clock: clock})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	stick := filepath.Join(t.TempDir(), "stick")
	service, err := backup.NewService(t.Context(), backup.Options{DB: db, Dir: dir, Program: "test", Keys: keys,
		Schedule: backup.Schedule{Dir: stick, Interval: time.Hour, Keep: 2},
		Hold:     func(context.Context) error { return nil }, Clock: clock, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
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

func TestService_recipientIsChecked(t *testing.T) {
	dir := t.TempDir()
	keys := keyring.New(dir, keyring.Options{})
	_, err := backup.NewService(t.Context(), backup.Options{Dir: dir, Keys: keys, Clock: clockwork.NewFakeClock(),
		Schedule: backup.Schedule{Dir: dir, Recipient: "ssh-rsa"}, Logger: slog.New(slog.DiscardHandler)})
	require.ErrorContains(t, err, "backup.recipient")
}
