package monitoring

import (
	"context"
	"errors"
	"slices"
	"time"

	"landfall/appliance/engine/presence"
	"landfall/appliance/health"
)

const (
	// standstill is the time without a beat of the engine after which a restart may help.
	standstill = 5 * time.Minute
	// longWait is the longest time that a change waits for a disk that works.
	longWait = 10 * time.Second
	// leastSpace is the free space in bytes with which the appliance is ready.
	leastSpace = 256 << 20
)

// Options configures a [Monitor].
type Options struct {
	Parts
	Pulse *presence.Pulse
	// Kubernetes is closed when the Kubernetes API is ready; nil if it is disabled.
	Kubernetes func() <-chan struct{}
	// Draining is closed when the server stops.
	Draining <-chan struct{}
}

// Monitor observes an appliance.
type Monitor struct {
	// Live and Ready are the checks of /livez and /readyz.
	Live, Ready *health.Checks
	Metrics     *Metrics
	options     Options
}

// New returns a monitor.
func New(options Options) (*Monitor, error) {
	m := &Monitor{options: options}
	ping := health.Check{Name: "ping", Run: func(context.Context) error { return nil }}
	m.Live = health.New(ping, health.Check{Name: "engine", Run: m.checkEngine})
	ready := []health.Check{ping, {Name: "engine", Run: m.checkStarted}, {Name: "store", Run: m.checkStore},
		{Name: "disk-space", Run: m.checkSpace},
		{Name: "shutdown", Run: func(context.Context) error {
			if isClosed(options.Draining) {
				return errors.New("the appliance is stopping")
			}
			return nil
		}},
	}
	if options.Kubernetes != nil {
		ready = append(ready, health.Check{Name: "kubernetes-api", Run: func(context.Context) error {
			if !isClosed(options.Kubernetes()) {
				return errors.New("the Kubernetes API is starting")
			}
			return nil
		}})
	}
	m.Ready = health.New(ready...)
	of := options.Parts
	of.Others = append(slices.Clone(of.Others), newEngine(options.Pulse, m.Ready))
	var err error
	m.Metrics, err = NewMetrics(of)
	return m, err
}

func isClosed(channel <-chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}

func (m *Monitor) checkEngine(context.Context) error {
	if last := m.options.Pulse.Beat(); !last.IsZero() && m.options.Clock.Since(last) > standstill {
		return errors.New("the engine has stood still for minutes; restart the appliance")
	}
	return nil
}

func (m *Monitor) checkStarted(ctx context.Context) error {
	if m.options.Pulse.Beat().IsZero() {
		return errors.New("the engine is starting")
	}
	return m.checkEngine(ctx)
}

func (m *Monitor) checkStore(context.Context) error {
	switch activity := m.options.Store.Activity(); {
	case !activity.StalledSince.IsZero() && m.options.Clock.Since(activity.StalledSince) > longWait:
		return errors.New("changes wait for the disk, which does not respond")
	case activity.Failure != nil:
		return errors.New("the last change could not be written to the disk; the log has the reason")
	}
	return nil
}

func (m *Monitor) checkSpace(context.Context) error {
	disk, err := m.options.Usage.Read()
	switch {
	case err != nil:
		return errors.New("the disk of the data directory cannot be read")
	case disk.Total > 0 && disk.Free < leastSpace:
		return errors.New("the disk of the data directory is nearly full")
	}
	return nil
}
