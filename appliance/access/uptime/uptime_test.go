package uptime_test

import (
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access/uptime"
	"landfall/store"
)

// setClock is a clock whose wall time can be set while it runs.
type setClock struct {
	*clockwork.FakeClock
	offset time.Duration
}

func (c *setClock) Now() time.Time { return c.FakeClock.Now().Add(c.offset) }

func TestCounter_settingTheClockChangesNothing(t *testing.T) {
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	clock := &setClock{FakeClock: clockwork.NewFakeClock()}
	counter, err := uptime.Open(db, clock, "test", true)
	require.NoError(t, err)
	clock.Advance(time.Minute)
	clock.offset = 365 * 24 * time.Hour
	require.Equal(t, time.Minute, counter.Now())
	clock.offset = -50 * 365 * 24 * time.Hour
	clock.Advance(time.Minute)
	require.Equal(t, 2*time.Minute, counter.Now())
}

func TestCounter_afterAStop(t *testing.T) {
	for name, test := range map[string]struct {
		stops     bool
		stop      time.Duration // by the wall clock
		wantAfter time.Duration
	}{
		"running time only": {false, time.Hour, time.Minute},
		"with stops":        {true, time.Hour, time.Hour + time.Minute},
		"in 1970":           {true, -50 * 365 * 24 * time.Hour, time.Minute},
		"a year ahead":      {true, 365 * 24 * time.Hour, 365*24*time.Hour + time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			db, err := store.Open(t.Context(), t.TempDir(), store.Options{})
			require.NoError(t, err)
			defer func() { require.NoError(t, db.Close()) }()
			clock := clockwork.NewFakeClock()
			counter, err := uptime.Open(db, clock, "test", test.stops)
			require.NoError(t, err)
			clock.Advance(time.Minute)
			require.NoError(t, db.Update(t.Context(), counter.Save))
			counter, err = uptime.Open(db, clockwork.NewFakeClockAt(clock.Now().Add(test.stop)), "test", test.stops)
			require.NoError(t, err)
			require.Equal(t, test.wantAfter, counter.Now())
		})
	}
}
