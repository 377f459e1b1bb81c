package presence

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestClockWatch_withoutJump(t *testing.T) {
	// A time without a monotonic reading goes with the wall clock; with one, Add moves both. A jump
	// is a wall clock that went another way than the monotonic one, which only a machine that slept
	// or was set can show; so the steps are made by hand.
	w := &ClockWatch{}
	began := time.Now()
	require.Zero(t, w.Jump(began), "the first call has nothing to compare with")
	require.Zero(t, w.Jump(began.Add(8*time.Hour)), "time that passed is no jump")
	require.Zero(t, w.Jump(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), "nor is there one without a monotonic clock")
}
