package presence

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestClockWatch_withoutJump(t *testing.T) {
	// A time without a monotonic reading follows only the wall clock. Add moves both readings of a
	// time that has both. After a jump, the two clocks differ. This needs a machine that slept or
	// whose clock was set, so the test constructs the times.
	w := &ClockWatch{}
	began := time.Now()
	require.Zero(t, w.Jump(began), "the first call has nothing to compare with")
	require.Zero(t, w.Jump(began.Add(8*time.Hour)), "time that passed is no jump")
	require.Zero(t, w.Jump(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), "nor is there one without a monotonic clock")
}
