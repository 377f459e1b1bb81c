package engine

import (
	"context"
	"sync"
	"time"

	"landfall/store"
)

// clockWatch notices that the wall clock went another way than time did: the machine has slept, or
// somebody set its clock.
type clockWatch struct {
	mu      sync.Mutex
	last    time.Time // with the monotonic clock, which stands still while the machine sleeps and which nobody sets
	setBack bool      // deadlines are to be set anew
}

// look returns how far the clock has jumped since it was looked at last, zero for no more than it
// drifts.
func (w *clockWatch) look(now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.last
	w.last = now
	if last.IsZero() {
		return 0
	}
	jump := now.Round(0).Sub(last.Round(0)) - now.Sub(last)
	if jump < sleepGap && jump > -sleepGap {
		w.last = last // small steps add up
		return 0
	}
	return jump
}

// noticeJump is called before a change looks at how long something has taken: after a sleep, the
// first request may come before the timer that would have noticed.
func (e *Engine) noticeJump() {
	now := e.Clock.Now()
	if jump := e.watch.look(now); jump != 0 {
		e.clockJumped(now, jump)
	}
}

// clockJumped gives all hosts their time to report again. After the clock was set back, deadlines
// lie too far ahead.
func (e *Engine) clockJumped(now time.Time, jump time.Duration) {
	e.Logger.Warn("The clock jumped; this machine may have slept. Hosts get their time to report again.", "jump", jump)
	e.presence.restart(now)
	if jump < 0 {
		e.watch.mu.Lock()
		e.watch.setBack = true
		e.watch.mu.Unlock()
		e.wake()
	}
}

// setDeadlinesAnew does what a clock that was set back calls for.
func (e *Engine) setDeadlinesAnew(ctx context.Context) error {
	e.watch.mu.Lock()
	wanted := e.watch.setBack
	e.watch.setBack = false
	e.watch.mu.Unlock()
	if !wanted {
		return nil
	}
	err := e.update(ctx, func(c *change) error {
		deadlines, err := lifeDeadlines.Due(c.tx, c.now.AddDate(100, 0, 0), 0)
		for _, deadline := range deadlines {
			if err == nil {
				err = c.resetDeadline(deadline)
			}
		}
		return err
	})
	if err != nil {
		e.watch.mu.Lock()
		e.watch.setBack = true
		e.watch.mu.Unlock()
	}
	return err
}

// resetDeadline computes a deadline anew.
func (c *change) resetDeadline(deadline store.Deadline) error {
	kind, key := splitDeadline(deadline.Key)
	if kind == "cluster" {
		row, err := c.cluster(key)
		if KindOf(err) == NotFound {
			return lifeDeadlines.Clear(c.tx, deadline.Key)
		}
		if err != nil {
			return err
		}
		return c.setClusterDeadline(key, row)
	}
	h, err := c.host(key)
	if KindOf(err) == NotFound {
		return lifeDeadlines.Clear(c.tx, deadline.Key)
	}
	if err != nil {
		return err
	}
	return c.setHostDeadline(key, h)
}
