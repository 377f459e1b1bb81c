package engine

import (
	"context"
	"time"

	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/store"
)

// checkClock returns the time, after a check for a jump of the clock and an interruption of the
// process. Each change uses this time: both may happen while the change waits for its transaction.
func (e *Engine) checkClock() time.Time {
	defer e.clockWatch.Hold()()
	now := e.options.Clock.Now()
	for _, jump := range []time.Duration{e.clockWatch.Jump(now), e.options.Pulse.Missed(now)} {
		if jump != 0 {
			e.clockJumped(now, jump)
		}
	}
	return now
}

// clockJumped restarts the contact time-outs of all hosts. If the clock was set back, it requests
// new deadlines.
func (e *Engine) clockJumped(now time.Time, jump time.Duration) {
	e.options.Logger.Warn("The clock jumped, this machine slept, or this program or its disk stood still. "+
		"The time-outs of hosts start again.", "jump", jump)
	e.presence.Restart(now)
	if jump < 0 {
		e.clockSetBack.Store(true)
		e.wake()
	}
}

// recomputeDeadlines recomputes all deadlines after the clock was set back, except those of damaged
// rows.
func (e *Engine) recomputeDeadlines(ctx context.Context) error {
	if !e.clockSetBack.CompareAndSwap(true, false) {
		return nil
	}
	err := e.update(ctx, func(c *change) error {
		deadlines, err := record.StateDeadlines.Due(c.tx, c.now.AddDate(100, 0, 0), 0)
		for _, deadline := range deadlines {
			if err == nil {
				err = store.SkipDamaged(c.recomputeDeadline(deadline))
			}
		}
		return err
	})
	if err != nil {
		e.clockSetBack.Store(true)
	}
	return err
}

// recomputeDeadline recomputes one deadline.
func (c *change) recomputeDeadline(deadline store.Deadline) error {
	kind, key := splitDeadline(deadline.Key)
	if kind == "cluster" {
		row, err := c.cluster(key)
		if fault.KindOf(err) == fault.NotFound {
			return record.StateDeadlines.Clear(c.tx, deadline.Key)
		}
		if err != nil {
			return err
		}
		return c.setClusterDeadline(key, row)
	}
	h, err := c.host(key)
	if fault.KindOf(err) == fault.NotFound {
		return record.StateDeadlines.Clear(c.tx, deadline.Key)
	}
	if err != nil {
		return err
	}
	return c.setHostDeadline(key, h)
}
