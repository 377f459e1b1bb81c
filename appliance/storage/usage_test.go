package storage

import (
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
)

// TestUsage_hangingDisk requires that readers get the last measurement, and later an error, while
// the disk does not respond, and that they do not measure it at the same time.
func TestUsage_hangingDisk(t *testing.T) {
	clock := clockwork.NewFakeClock()
	usage := NewUsage("/data", clock)
	began, responds := make(chan struct{}, 8), make(chan Disk, 1)
	usage.measure = func(string) (Disk, error) {
		began <- struct{}{}
		return <-responds, nil
	}
	type result struct {
		disk Disk
		err  error
	}
	// read returns the result of a reader that waits for its whole patience.
	read := func() result {
		ended := make(chan result, 1)
		go func() {
			disk, err := usage.Read()
			ended <- result{disk, err}
		}()
		require.NoError(t, clock.BlockUntilContext(t.Context(), 1))
		clock.Advance(patience)
		return <-ended
	}
	responds <- Disk{Free: 1}
	first, err := usage.Read()
	require.NoError(t, err)
	require.EqualValues(t, 1, first.Free)

	clock.Advance(usageInterval)
	require.Equal(t, result{disk: first}, read())
	clock.Advance(oldest)
	for range 2 {
		require.ErrorContains(t, read().err, "has not responded")
	}
	require.Eventually(t, func() bool { return len(began) == 2 }, time.Minute, time.Millisecond,
		"one measurement hangs")
	responds <- Disk{Free: 2}
	require.Eventually(t, func() bool {
		disk, ok := usage.measuredWithin(time.Minute)
		return ok && disk.Free == 2
	}, time.Minute, time.Millisecond)
}
