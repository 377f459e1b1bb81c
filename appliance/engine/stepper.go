package engine

import (
	"context"
	"time"

	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/store"
)

// Stepper runs an engine step by step for callers that control the clock
// (appliance/simulate/scenario). Its methods do the work of [Engine.Run] in the caller's goroutine.
// An engine must not be used with both.
type Stepper struct{ e *Engine }

// Stepper returns the stepper of the engine.
func (e *Engine) Stepper() Stepper { return Stepper{e} }

// maxDueRounds limits the rounds of deadlines that become due at the same moment.
const maxDueRounds = 1000

// Due handles all deadlines that have passed and returns the next deadline, or false if there is
// none.
func (s Stepper) Due(ctx context.Context) (next time.Time, waits bool, err error) {
	for range maxDueRounds {
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

// Preparations returns the ids of the preparations to run, by cluster id.
func (s Stepper) Preparations() (map[string]string, error) { return s.e.unfinishedPreparations() }

// Prepare runs a preparation until it ends.
func (s Stepper) Prepare(ctx context.Context, cluster, preparation string) {
	s.e.prepare(ctx, cluster, preparation)
}

// Freeze freezes the recipes of the infra-envs whose agent image was missing.
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

// Jumped reports a jump of a fake clock to the engine. The engine detects only the jumps of a real
// clock without this call.
func (s Stepper) Jumped(by time.Duration) { s.e.clockJumped(s.e.options.Clock.Now(), by) }
