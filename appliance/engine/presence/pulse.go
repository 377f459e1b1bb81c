package presence

import (
	"context"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
)

const (
	// maxDelay is the delay up to which a late beat, or a change that waits for the disk, is not an
	// interruption. A busy machine has such delays.
	maxDelay = 10 * time.Second
	// delayShare is the part of the time without a poll after which a host counts as disconnected
	// that a delay may have, if this is shorter than maxDelay.
	delayShare = 6
)

// Pulse detects that the process could not serve hosts for a while: it was stopped, its machine was
// paused, or the disk hung. The clocks do not show this, because the wall clock and the monotonic
// clock went on alike. A stopped process notices that its own beat is late. While the disk hangs,
// changes wait and none of them ends.
type Pulse struct {
	clock   clockwork.Clock
	beat    time.Duration // interval of the beats
	delay   time.Duration // tolerated
	stalled func() time.Time

	mu    sync.Mutex
	last  time.Time // of the last beat; zero before the first one
	since time.Time // begin of the present stall; zero without one
	total Interruptions
}

// Interruptions counts the interruptions of a process.
type Interruptions struct {
	Count uint64
	Time  time.Duration
}

// NewPulse returns a pulse. disconnected is the time without a poll after which a host counts as
// disconnected; 0 if there is no such time. stalled returns the time since which no change has
// ended although some wait, or the zero time; nil means that changes never wait.
func NewPulse(clock clockwork.Clock, disconnected time.Duration, stalled func() time.Time) *Pulse {
	delay := maxDelay
	if disconnected > 0 {
		delay = min(delay, disconnected/delayShare)
	}
	return &Pulse{clock: clock, beat: delay / 2, delay: delay, stalled: stalled}
}

// Run calls check at each beat until the context ends. The check calls [Pulse.Missed].
func (p *Pulse) Run(ctx context.Context, check func()) {
	if p == nil {
		return
	}
	ticker := p.clock.NewTicker(p.beat)
	defer ticker.Stop()
	for {
		check()
		p.mu.Lock()
		p.last = p.clock.Now()
		p.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-ticker.Chan():
		}
	}
}

// Missed returns the time for which the process has been interrupted since the last call, or 0. It
// is called at each beat and before each change, because a change may run before the beat that is
// late. During a stall it returns the time that was added, in steps of at least one beat.
func (p *Pulse) Missed(now time.Time) time.Duration {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	missed := p.late(now)
	if missed == 0 {
		missed = p.stall(now)
	}
	p.total.Time += missed
	return missed
}

// late returns by how much the beat is late.
func (p *Pulse) late(now time.Time) time.Duration {
	if p.last.IsZero() || now.Sub(p.last) <= p.beat+p.delay {
		return 0
	}
	late := now.Sub(p.last) - p.beat
	p.last = now
	p.total.Count++
	return late
}

// stall returns by how much the present stall has grown since the last call.
func (p *Pulse) stall(now time.Time) time.Duration {
	var began time.Time
	if p.stalled != nil {
		began = p.stalled()
	}
	if began.IsZero() || now.Sub(began) <= p.delay {
		p.since = time.Time{}
		return 0
	}
	if p.since.Before(began) {
		p.since = began
		p.total.Count++
	}
	grown := now.Sub(p.since)
	if grown < p.beat {
		return 0
	}
	p.since = now
	return grown
}

// Interruptions returns the interruptions since the start.
func (p *Pulse) Interruptions() Interruptions {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total
}

// Beat returns the time of the last beat, or the zero time before the first one.
func (p *Pulse) Beat() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}
