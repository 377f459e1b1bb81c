package health

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestChecks_results(t *testing.T) {
	broken := errors.New("the store is closed")
	checks := New(
		Check{"ping", func(context.Context) error { return nil }},
		Check{"store", func(context.Context) error { return broken }},
	)
	require.Equal(t, []Result{{"ping", nil}, {"store", broken}}, checks.Results(t.Context(), All))
	require.Equal(t, []Result{{"ping", nil}},
		checks.Results(t.Context(), func(name string) bool { return name != "store" }))
	require.True(t, checks.Has("store"))
	require.False(t, checks.Has("disk"))
}

// TestChecks_hangingCheckRunsOnce requires that requests neither wait for a check that hangs, such
// as a read from a failed disk, nor start it again.
func TestChecks_hangingCheckRunsOnce(t *testing.T) {
	var runs atomic.Int32
	release := make(chan struct{})
	checks := New(Check{"disk", func(context.Context) error {
		runs.Add(1)
		<-release
		return nil
	}})
	checks.list[0].limit = time.Millisecond
	for range 3 {
		require.Equal(t, []Result{{"disk", errHangs}}, checks.Results(t.Context(), All))
	}
	require.EqualValues(t, 1, runs.Load())
	checks.list[0].limit = time.Minute
	close(release)
	require.Equal(t, []Result{{"disk", nil}}, checks.Results(t.Context(), All))
}
