// Package presence holds facts about hosts in memory that are not written to disk: the time of the
// last contact and the prepared answer to the next poll. Writing each poll would cost a sync of the
// disk. After a restart, the start of the process counts as the last contact of every host.
//
// Design: docs/design.md#clock-deadlines-and-last-contacts.
package presence

import (
	"sync"
	"sync/atomic"
	"time"
)

// The largest difference between the wall clock and the expected time that does not count as a
// sleep of the machine or a change of its clock. The smaller one is a delay that a busy machine may
// cause.
const (
	MaxTolerance = 30 * time.Second
	minTolerance = 5 * time.Second
)

// ClockTolerance returns the largest difference between the wall clock and the expected time that
// does not count as a sleep of the machine or a change of its clock. It is well below the time
// after which a host without contact is disconnected, so that a clock that is set forward
// disconnects none.
func ClockTolerance(disconnected time.Duration) time.Duration {
	return min(MaxTolerance, max(minTolerance, disconnected/4))
}

// Hosts holds the presence of all hosts.
type Hosts struct {
	started   atomic.Int64 // Unix nanoseconds
	hosts     sync.Map     // host key -> *Host
	tolerance time.Duration
}

// Host is the presence of one host.
type Host struct {
	polled atomic.Int64 // time of the last poll in Unix nanoseconds; 0 if there was none since the start
	answer atomic.Pointer[Answer]
	// version increases with each change of the host. Answers with an earlier version are stale.
	version atomic.Uint64
}

// Answer is the JSON of a host's next instructions. It is valid for polls with the same agent
// version and clock skew.
type Answer struct {
	Version      uint64 // version of the host before the answer was prepared
	AgentVersion string
	Skew         int64 // seconds that the host's clock is behind the appliance's
	Body         []byte
}

// New returns the presence of hosts in a process that starts now. tolerance is the result of
// [ClockTolerance].
func New(now time.Time, tolerance time.Duration) *Hosts {
	p := &Hosts{tolerance: tolerance}
	p.started.Store(now.UnixNano())
	return p
}

// Of returns the presence of a host and creates it if necessary.
func (p *Hosts) Of(key string) *Host {
	if held, ok := p.hosts.Load(key); ok {
		return held.(*Host)
	}
	held, _ := p.hosts.LoadOrStore(key, &Host{})
	return held.(*Host)
}

// LastContact returns the time of the host's last contact: the later one of the time in memory and
// the recorded time. The result is never before the time since which hosts can contact this
// process.
func (p *Hosts) LastContact(key string, recorded, now time.Time) time.Time {
	last := p.Started()
	later := func(at time.Time) {
		// A contact in the future happened before the clock was set back.
		if at.After(last) && !at.After(now.Add(p.tolerance)) {
			last = at
		}
	}
	later(recorded)
	if held, ok := p.hosts.Load(key); ok {
		if ns := held.(*Host).polled.Load(); ns != 0 {
			later(time.Unix(0, ns))
		}
	}
	return last.UTC()
}

// Started returns the time since which hosts can contact this process: its start, or the last jump
// of the machine's clock.
func (p *Hosts) Started() time.Time { return time.Unix(0, p.started.Load()).UTC() }

// Polled returns the time of the host's last contact with this process, or false if there was none.
func (p *Hosts) Polled(key string) (time.Time, bool) {
	if held, ok := p.hosts.Load(key); ok {
		if ns := held.(*Host).polled.Load(); ns != 0 {
			return time.Unix(0, ns).UTC(), true
		}
	}
	return time.Time{}, false
}

// PolledAfter returns the times of the last contacts of hosts with this process after a time, by
// the keys of the hosts.
func (p *Hosts) PolledAfter(after time.Time) map[string]time.Time {
	polled := make(map[string]time.Time)
	p.hosts.Range(func(key, held any) bool {
		if at := time.Unix(0, held.(*Host).polled.Load()).UTC(); at.After(after) && at.Unix() > 0 {
			polled[key.(string)] = at
		}
		return true
	})
	return polled
}

// Invalidate makes the prepared answer of a host stale. It is called after each change of the host.
func (p *Hosts) Invalidate(key string) { p.Of(key).version.Add(1) }

// Remove deletes the presence of a deleted host.
func (p *Hosts) Remove(key string) { p.hosts.Delete(key) }

// Restart counts now as the last contact of every host. It is called when the machine has slept,
// because hosts could not contact it.
func (p *Hosts) Restart(now time.Time) {
	p.started.Store(now.UnixNano())
	p.hosts.Range(func(_, held any) bool {
		host := held.(*Host)
		if polled := host.polled.Load(); polled > now.UnixNano() { // the poll was before the clock was set back
			host.polled.CompareAndSwap(polled, now.UnixNano())
		}
		return true
	})
}

// Get returns the presence of a host, or nil.
func (p *Hosts) Get(key string) *Host {
	if held, ok := p.hosts.Load(key); ok {
		return held.(*Host)
	}
	return nil
}

// Contacted records a contact of the host.
func (h *Host) Contacted(now time.Time) { h.polled.Store(now.UnixNano()) }

// Version returns the present version of the host, for a new answer.
func (h *Host) Version() uint64 { return h.version.Load() }

// Answer returns the prepared answer, or nil if it is stale.
func (h *Host) Answer() *Answer {
	if answer := h.answer.Load(); answer != nil && answer.Version == h.version.Load() {
		return answer
	}
	return nil
}

// SetAnswer stores the prepared answer to the next poll.
func (h *Host) SetAnswer(answer *Answer) { h.answer.Store(answer) }
