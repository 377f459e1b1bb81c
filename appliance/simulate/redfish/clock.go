package redfish

import (
	"time"

	"github.com/jonboulle/clockwork"
)

// Accelerated returns a clock that runs faster than the real clock by the given factor, starting
// now.
func Accelerated(speed float64) clockwork.Clock {
	return &acceleratedClock{clockwork.NewRealClock(), time.Now().Round(0), time.Now(), speed}
}

type acceleratedClock struct {
	clockwork.Clock
	start, began time.Time // the clock's time at its start, and the real time of the start
	speed        float64
}

func (h *acceleratedClock) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) / h.speed)
}

func (h *acceleratedClock) Now() time.Time {
	return h.start.Add(time.Duration(float64(time.Since(h.began)) * h.speed))
}

func (h *acceleratedClock) Since(t time.Time) time.Duration        { return h.Now().Sub(t) }
func (h *acceleratedClock) Until(t time.Time) time.Duration        { return t.Sub(h.Now()) }
func (h *acceleratedClock) Sleep(d time.Duration)                  { h.Clock.Sleep(h.scaled(d)) }
func (h *acceleratedClock) After(d time.Duration) <-chan time.Time { return h.Clock.After(h.scaled(d)) }

func (h *acceleratedClock) NewTicker(d time.Duration) clockwork.Ticker {
	return acceleratedTicker{h.Clock.NewTicker(max(1, h.scaled(d))), h}
}

func (h *acceleratedClock) NewTimer(d time.Duration) clockwork.Timer {
	return acceleratedTimer{h.Clock.NewTimer(h.scaled(d)), h}
}

func (h *acceleratedClock) AfterFunc(d time.Duration, f func()) clockwork.Timer {
	return acceleratedTimer{h.Clock.AfterFunc(h.scaled(d), f), h}
}

type acceleratedTimer struct {
	clockwork.Timer
	clock *acceleratedClock
}

// Reset implements clockwork.Timer.
func (t acceleratedTimer) Reset(d time.Duration) bool { return t.Timer.Reset(t.clock.scaled(d)) }

type acceleratedTicker struct {
	clockwork.Ticker
	clock *acceleratedClock
}

// Reset implements clockwork.Ticker.
func (t acceleratedTicker) Reset(d time.Duration) { t.Ticker.Reset(max(1, t.clock.scaled(d))) }
