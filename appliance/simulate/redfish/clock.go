package redfish

import (
	"time"

	"github.com/jonboulle/clockwork"
)

// Accelerated returns a clock that runs faster than the real one by the given factor, starting now.
func Accelerated(speed float64) clockwork.Clock {
	return &hurried{clockwork.NewRealClock(), time.Now().Round(0), time.Now(), speed}
}

type hurried struct {
	clockwork.Clock
	start, began time.Time // the clock's time at its start, and the real time then
	speed        float64
}

func (h *hurried) short(d time.Duration) time.Duration {
	return time.Duration(float64(d) / h.speed)
}

func (h *hurried) Now() time.Time {
	return h.start.Add(time.Duration(float64(time.Since(h.began)) * h.speed))
}

func (h *hurried) Since(t time.Time) time.Duration        { return h.Now().Sub(t) }
func (h *hurried) Until(t time.Time) time.Duration        { return t.Sub(h.Now()) }
func (h *hurried) Sleep(d time.Duration)                  { h.Clock.Sleep(h.short(d)) }
func (h *hurried) After(d time.Duration) <-chan time.Time { return h.Clock.After(h.short(d)) }

func (h *hurried) NewTicker(d time.Duration) clockwork.Ticker {
	return hurriedTicker{h.Clock.NewTicker(max(1, h.short(d))), h}
}

func (h *hurried) NewTimer(d time.Duration) clockwork.Timer {
	return hurriedTimer{h.Clock.NewTimer(h.short(d)), h}
}

func (h *hurried) AfterFunc(d time.Duration, f func()) clockwork.Timer {
	return hurriedTimer{h.Clock.AfterFunc(h.short(d), f), h}
}

type hurriedTimer struct {
	clockwork.Timer
	clock *hurried
}

// Reset implements clockwork.Timer.
func (t hurriedTimer) Reset(d time.Duration) bool { return t.Timer.Reset(t.clock.short(d)) }

type hurriedTicker struct {
	clockwork.Ticker
	clock *hurried
}

// Reset implements clockwork.Ticker.
func (t hurriedTicker) Reset(d time.Duration) { t.Ticker.Reset(max(1, t.clock.short(d))) }
