package manifests

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/command/outcome"
)

func TestWithin(t *testing.T) {
	failure := errors.New("the cluster is still installing")
	waits := func(ctx context.Context) error {
		<-ctx.Done()
		return failure
	}
	fails := func(context.Context) error { return failure }
	ends := func(context.Context) error { return nil }
	for name, c := range map[string]struct {
		limit time.Duration
		wait  func(context.Context) error
		code  int
	}{
		"the time is over":         {time.Nanosecond, waits, outcome.Waiting},
		"it fails in time":         {time.Hour, fails, outcome.Failure},
		"it fails without a limit": {0, fails, outcome.Failure},
		"it ends in time":          {time.Hour, ends, 0},
		"it ends without a limit":  {0, ends, 0},
	} {
		t.Run(name, func(t *testing.T) {
			err := (&manifests{timeout: c.limit}).within(t.Context(), c.wait)
			code, _ := outcome.Of(err)
			require.Equal(t, c.code, code)
			if c.code != 0 {
				require.ErrorIs(t, err, failure)
			}
		})
	}
}
