package registry

import (
	"log/slog"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/store"
)

// Before the media were read, nobody knows all images, so a copy of them would not be complete.
func TestImages_beforeTheMediaWereRead(t *testing.T) {
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	clock := clockwork.NewFakeClock()
	stick := t.TempDir()
	r, err := Open(t.Context(), Options{DB: db, Media: []string{stick}, Dir: t.TempDir(),
		Clock: clock, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	_, err = r.Images()
	require.ErrorContains(t, err, "the media are being read")
	clock.Advance(time.Hour)
	_, err = r.Images()
	require.ErrorContains(t, err, stick+" does not answer")
}
