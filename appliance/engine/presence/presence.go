// Package presence holds the facts about hosts that come from their polls and are not written to
// disk: the time of the last contact, and the prepared answer to the next poll. A heartbeat is not
// worth a sync of the disk: after a restart, every host counts as contacted when the process
// started.
//
// Design: docs/design.md#clock-deadlines-and-last-contacts.
package presence

import (
	"sync"
	"sync/atomic"
	"time"
)

// ClockTolerance is how far the wall clock may differ from the expected time before the machine is
// assumed to have slept, or its clock to have been set.
const ClockTolerance = 30 * time.Second

// Hosts holds the presence of all hosts.
type Hosts struct {
	started atomic.Int64 // Unix nanoseconds
	hosts   sync.Map     // host key -> *Host
}

// Host is the presence of one host.
type Host struct {
	seen   atomic.Int64 // Unix nanoseconds of the last poll, 0 for none since the start
	answer atomic.Pointer[Answer]
	// version is raised by each change of the host. An answer of an earlier version is stale.
	version atomic.Uint64
}

// Answer is the JSON of a host's next instructions, for polls that equal the one it was made for.
type Answer struct {
	Version      uint64 // of the host, before the answer was made
	AgentVersion string
	Skew         int64 // seconds that the host's clock is behind
	Body         []byte
}

// New returns the presence of hosts in a process that starts now.
func New(now time.Time) *Hosts {
	p := &Hosts{}
	p.started.Store(now.UnixNano())
	return p
}

// Of returns the presence of a host, which it creates if needed.
func (p *Hosts) Of(key string) *Host {
	if held, ok := p.hosts.Load(key); ok {
		return held.(*Host)
	}
	held, _ := p.hosts.LoadOrStore(key, &Host{})
	return held.(*Host)
}

// LastContact returns the time of the host's last contact: the one in memory or the recorded one,
// but not before the process could be contacted.
func (p *Hosts) LastContact(key string, recorded, now time.Time) time.Time {
	last := p.Started()
	later := func(at time.Time) {
		// A contact in the future was before the clock was set back.
		if at.After(last) && !at.After(now.Add(ClockTolerance)) {
			last = at
		}
	}
	later(recorded)
	if held, ok := p.hosts.Load(key); ok {
		if ns := held.(*Host).seen.Load(); ns != 0 {
			later(time.Unix(0, ns))
		}
	}
	return last.UTC()
}

// Started returns since when hosts can contact this process, or this machine after it slept.
func (p *Hosts) Started() time.Time { return time.Unix(0, p.started.Load()).UTC() }

// Polled returns the time of the host's last contact with this process, or false.
func (p *Hosts) Polled(key string) (time.Time, bool) {
	if held, ok := p.hosts.Load(key); ok {
		if ns := held.(*Host).seen.Load(); ns != 0 {
			return time.Unix(0, ns).UTC(), true
		}
	}
	return time.Time{}, false
}

// Invalidate makes the prepared answer of a host stale, after a change of the host.
func (p *Hosts) Invalidate(key string) { p.Of(key).version.Add(1) }

// Remove drops a host that was deleted.
func (p *Hosts) Remove(key string) { p.hosts.Delete(key) }

// Restart counts every host as contacted now, after the machine slept: its hosts could not contact
// it.
func (p *Hosts) Restart(now time.Time) {
	p.started.Store(now.UnixNano())
	p.hosts.Range(func(_, held any) bool {
		host := held.(*Host)
		if seen := host.seen.Load(); seen > now.UnixNano() { // before the clock was set back
			host.seen.CompareAndSwap(seen, now.UnixNano())
		}
		return true
	})
}

// Get returns the presence of a host, nil if there is none yet.
func (p *Hosts) Get(key string) *Host {
	if held, ok := p.hosts.Load(key); ok {
		return held.(*Host)
	}
	return nil
}

// Contacted records a contact of the host.
func (h *Host) Contacted(now time.Time) { h.seen.Store(now.UnixNano()) }

// Version returns the version of the host, for an answer that is made now.
func (h *Host) Version() uint64 { return h.version.Load() }

// Answer returns the prepared answer if it is not stale, else nil.
func (h *Host) Answer() *Answer {
	if answer := h.answer.Load(); answer != nil && answer.Version == h.version.Load() {
		return answer
	}
	return nil
}

// SetAnswer keeps the answer to the next poll.
func (h *Host) SetAnswer(answer *Answer) { h.answer.Store(answer) }
