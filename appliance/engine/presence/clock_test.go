package presence

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestClockWatch_withoutJump(t *testing.T) {
	// Times with a monotonic reading cannot simulate a jump: Add changes both readings. A real jump
	// needs a machine that sleeps or whose clock is set, so the test uses a time without a
	// monotonic reading.
	w := NewClockWatch(MaxTolerance)
	began := time.Now()
	require.Zero(t, w.Jump(began), "the first call has nothing to compare with")
	require.Zero(t, w.Jump(began.Add(8*time.Hour)), "elapsed time is not a jump")
	withoutMonotonic := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	require.Zero(t, w.Jump(withoutMonotonic), "a time without a monotonic reading is not a jump")
}

// A clock that is set forward by less than the tolerance must not end the contact of a host.
func TestClockTolerance_belowTheTimeout(t *testing.T) {
	for disconnected, tolerance := range map[time.Duration]time.Duration{
		3 * time.Minute:  MaxTolerance,
		time.Minute:      15 * time.Second,
		20 * time.Second: 5 * time.Second,
		time.Second:      minTolerance,
	} {
		require.Equal(t, tolerance, ClockTolerance(disconnected), disconnected)
	}
}
