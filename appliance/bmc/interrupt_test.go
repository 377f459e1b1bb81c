package bmc

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInterrupt_cancelsOnlyJobsWithAnOlderState(t *testing.T) {
	for name, c := range map[string]struct {
		steps    func(w *worker, cancel context.CancelCauseFunc)
		canceled bool
	}{
		"the job has the older state": {canceled: true, steps: func(w *worker, cancel context.CancelCauseFunc) {
			w.use(0, cancel)
			w.use(1, cancel)
			w.interrupt(2)
		}},
		"the job has read the new state already": {steps: func(w *worker, cancel context.CancelCauseFunc) {
			w.use(0, cancel)
			w.use(2, cancel)
			w.interrupt(2)
		}},
		"the change comes while the old state is read": {canceled: true,
			steps: func(w *worker, cancel context.CancelCauseFunc) {
				w.use(0, cancel)
				w.interrupt(2)
				w.use(1, cancel)
			}},
		"the change comes while the new state is read": {steps: func(w *worker, cancel context.CancelCauseFunc) {
			w.use(0, cancel)
			w.interrupt(2)
			w.use(2, cancel)
		}},
		"the server was removed and added again": {steps: func(w *worker, cancel context.CancelCauseFunc) {
			w.interrupt(5)
			w.use(0, cancel)
			w.interrupt(1)
			w.use(1, cancel)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &worker{wake: make(chan struct{}, 1)}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			c.steps(w, cancel)
			require.Equal(t, c.canceled, context.Cause(ctx) == errSuperseded)
			require.Len(t, w.wake, 1)
		})
	}
}
