package appliance

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRunAll_allTasksFail(t *testing.T) {
	failure := errors.New("the address is in use")
	tasks := make([]task, 100)
	for i := range tasks {
		tasks[i] = func(context.Context) error { return failure }
	}
	ended := make(chan error, 1)
	go func() { ended <- runAll(t.Context(), tasks) }()
	select {
	case err := <-ended:
		require.ErrorIs(t, err, failure)
	case <-time.After(10 * time.Second):
		require.Fail(t, "a failed task must not wait for another one")
	}
}

func TestRunAll_firstErrorEndsTheOthers(t *testing.T) {
	failure := errors.New("the address is in use")
	err := runAll(t.Context(), []task{
		func(context.Context) error { return failure },
		func(ctx context.Context) error { <-ctx.Done(); return nil },
	})
	require.ErrorIs(t, err, failure)
}
