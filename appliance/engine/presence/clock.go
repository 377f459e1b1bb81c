package presence

import (
	"sync"
	"time"
)

// ClockWatch detects that the wall clock jumped: the machine slept, or its clock was set.
type ClockWatch struct {
	mu   sync.Mutex
	last time.Time // with its monotonic reading, which stands still while the machine sleeps
}

// Jump returns how far the clock has jumped since the last call, zero within the tolerance.
func (w *ClockWatch) Jump(now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.last
	w.last = now
	if last.IsZero() {
		return 0
	}
	jump := now.Round(0).Sub(last.Round(0)) - now.Sub(last)
	if jump < ClockTolerance && jump > -ClockTolerance {
		w.last = last // small steps add up
		return 0
	}
	return jump
}
