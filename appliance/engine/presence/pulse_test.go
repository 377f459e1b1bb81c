package presence

import (
	"context"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
)

// beat is the interval of the beats with the default time-outs.
const beat = maxDelay / 2

// newPulse returns a pulse that has beaten once, and a pointer to the begin of a stall.
func newPulse(t *testing.T) (*Pulse, *clockwork.FakeClock, *time.Time) {
	t.Helper()
	clock, stalled := clockwork.NewFakeClock(), new(time.Time)
	p := NewPulse(clock, 3*time.Minute, func() time.Time { return *stalled })
	p.last = clock.Now()
	return p, clock, stalled
}

// pass lets time pass in which the pulse beats.
func pass(p *Pulse, clock *clockwork.FakeClock, time time.Duration) {
	for ; time > 0; time -= beat {
		clock.Advance(beat)
		p.last = clock.Now()
	}
}

func TestPulse_beatsInTime(t *testing.T) {
	p, clock, _ := newPulse(t)
	pass(p, clock, time.Hour)
	require.Zero(t, p.Missed(clock.Now()))
	clock.Advance(beat + maxDelay)
	require.Zero(t, p.Missed(clock.Now()), "a busy machine")
	require.Zero(t, p.Interruptions())
}

func TestPulse_stoppedProcess(t *testing.T) {
	p, clock, _ := newPulse(t)
	clock.Advance(100 * time.Second)
	require.Equal(t, 95*time.Second, p.Missed(clock.Now()), "a change that runs before the late beat")
	require.Zero(t, p.Missed(clock.Now()), "the beat")
	require.Equal(t, Interruptions{Count: 1, Time: 95 * time.Second}, p.Interruptions())
}

func TestPulse_hangingDisk(t *testing.T) {
	p, clock, stalled := newPulse(t)
	*stalled = clock.Now()
	pass(p, clock, maxDelay)
	require.Zero(t, p.Missed(clock.Now()), "a slow disk")
	pass(p, clock, beat)
	require.Equal(t, maxDelay+beat, p.Missed(clock.Now()))
	require.Zero(t, p.Missed(clock.Now()), "a second change")
	pass(p, clock, time.Minute)
	require.Equal(t, time.Minute, p.Missed(clock.Now()), "the stall continues")
	*stalled = time.Time{}
	require.Zero(t, p.Missed(clock.Now()), "the disk responds again")
	*stalled = clock.Now()
	pass(p, clock, time.Minute)
	require.Equal(t, time.Minute, p.Missed(clock.Now()), "the disk hangs again")
	require.EqualValues(t, 2, p.Interruptions().Count)
}

func TestPulse_shortTimeouts(t *testing.T) {
	clock := clockwork.NewFakeClock()
	p := NewPulse(clock, 3*time.Second, nil)
	p.last = clock.Now()
	clock.Advance(time.Second)
	require.Positive(t, p.Missed(clock.Now()), "a third of the time-out")
}

func TestPulse_neverStarted(t *testing.T) {
	require.Zero(t, (*Pulse)(nil).Missed(time.Now()))
	p := NewPulse(clockwork.NewRealClock(), time.Minute, nil)
	require.Zero(t, p.Missed(time.Now()))
	require.True(t, p.Beat().IsZero())
}

func TestPulse_checksAtEachBeat(t *testing.T) {
	clock := clockwork.NewFakeClock()
	p := NewPulse(clock, 3*time.Minute, nil)
	ctx, cancel := context.WithCancel(t.Context())
	checks, ended := make(chan time.Time), make(chan struct{})
	go func() {
		defer close(ended)
		p.Run(ctx, func() { checks <- clock.Now() })
	}()
	first := <-checks
	for i := range 3 {
		require.NoError(t, clock.BlockUntilContext(t.Context(), 1))
		clock.Advance(beat)
		require.Equal(t, first.Add(time.Duration(i+1)*beat), <-checks)
	}
	cancel()
	<-ended
	require.Equal(t, first.Add(3*beat), p.Beat())
}
