package engine

import (
	"context"
	"time"

	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/store"
)

// Stepper works an engine by hand, for those who move its clock themselves
// (appliance/simulate/scenario): what [Engine.Run] does by itself happens when one of these methods
// is called, in the caller's goroutine. An engine has a Stepper or runs, not both.
type Stepper struct{ e *Engine }

// Stepper returns what works the engine by hand.
func (e *Engine) Stepper() Stepper { return Stepper{e} }

// stepsAtOnce bounds how often what is due may bring about something else that is due at the same
// moment.
const stepsAtOnce = 1000

// Due handles all deadlines that have passed and returns when the next one will, or false when
// nothing is waited for.
func (s Stepper) Due(ctx context.Context) (next time.Time, waits bool, err error) {
	for range stepsAtOnce {
		wait, err := s.e.handleDue(ctx)
		if err != nil {
			return time.Time{}, false, err
		}
		if wait > 0 {
			break
		}
	}
	err = s.e.options.DB.View(func(tx *store.Tx) error {
		next, waits, err = record.StateDeadlines.Next(tx)
		return err
	})
	return next, waits, err
}

// Preparations returns the preparations of installations that are wanted now: their ids, by
// cluster.
func (s Stepper) Preparations() (map[string]string, error) { return s.e.unfinishedPreparations() }

// Prepare runs one of them to its end.
func (s Stepper) Prepare(ctx context.Context, cluster, preparation string) {
	s.e.prepare(ctx, cluster, preparation)
}

// Freeze makes the recipes of the infra-envs whose agent is not known yet.
func (s Stepper) Freeze(ctx context.Context) error {
	for {
		select {
		case id := <-s.e.unfrozen:
			if err := s.e.freeze(ctx, id, ""); err != nil && fault.KindOf(err) == 0 {
				return err
			}
		default:
			return nil
		}
	}
}

// Jumped tells the engine that its machine has slept, or how far its clock was set, which it
// notices by itself on a real clock.
func (s Stepper) Jumped(by time.Duration) { s.e.clockJumped(s.e.options.Clock.Now(), by) }
