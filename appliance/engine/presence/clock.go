package presence

import (
	"sync"
	"time"
)

// ClockWatch detects jumps of the wall clock, which happen when the machine sleeps or its clock is
// set.
type ClockWatch struct {
	tolerance time.Duration
	held      sync.Mutex
	mu        sync.Mutex
	last      time.Time // includes the monotonic reading, which stops while the machine sleeps
}

// NewClockWatch returns a watch. tolerance is the result of [ClockTolerance].
func NewClockWatch(tolerance time.Duration) *ClockWatch { return &ClockWatch{tolerance: tolerance} }

// Hold lets other callers of Hold wait until release. So nobody continues while the first one that
// detected a jump still restarts time-outs. Lock order: the transaction of a change, then Hold,
// then the mutexes of this package. A caller of Hold must not wait for a transaction.
func (w *ClockWatch) Hold() (release func()) {
	w.held.Lock()
	return w.held.Unlock
}

// Jump returns how far the clock has jumped since the last call. Jumps within the tolerance count
// as zero.
func (w *ClockWatch) Jump(now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.last
	w.last = now
	if last.IsZero() {
		return 0
	}
	jump := now.Round(0).Sub(last.Round(0)) - now.Sub(last)
	if jump < w.tolerance && jump > -w.tolerance {
		w.last = last // keep the base, so that small steps add up
		return 0
	}
	return jump
}
