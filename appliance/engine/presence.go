package engine

import (
	"sync"
	"sync/atomic"
	"time"
)

// presence is what the engine knows of hosts from their polls and does not write to disk: when each
// was last heard, and the answer that its next poll gets. A heartbeat is not worth a disk sync;
// after a restart every host is taken as heard when the engine started.
type presence struct {
	started atomic.Int64 // Unix nanoseconds
	hosts   sync.Map     // host key -> *hostPresence
}

type hostPresence struct {
	seen   atomic.Int64 // Unix nanoseconds of the last poll, 0 for none since the start
	answer atomic.Pointer[pollAnswer]
	since  atomic.Uint64 // raised by each change of the host; an answer made before is stale
}

// pollAnswer is the JSON of a host's next instructions.
type pollAnswer struct {
	since        uint64
	agentVersion string
	skew         int64 // see skew
	body         []byte
}

func newPresence(now time.Time) *presence {
	p := &presence{}
	p.started.Store(now.UnixNano())
	return p
}

func (p *presence) of(key string) *hostPresence {
	if held, ok := p.hosts.Load(key); ok {
		return held.(*hostPresence)
	}
	held, _ := p.hosts.LoadOrStore(key, &hostPresence{})
	return held.(*hostPresence)
}

// lastSeen returns when the host was last heard: in memory, else recorded, and never before the
// engine could have heard it.
func (p *presence) lastSeen(key string, recorded, now time.Time) time.Time {
	last := p.startedAt()
	later := func(at time.Time) {
		// What was heard at a time that is yet to come was heard before the clock was set back.
		if at.After(last) && !at.After(now.Add(sleepGap)) {
			last = at
		}
	}
	later(recorded)
	if held, ok := p.hosts.Load(key); ok {
		if ns := held.(*hostPresence).seen.Load(); ns != 0 {
			later(time.Unix(0, ns))
		}
	}
	return last.UTC()
}

// startedAt is when this process, or this machine after it slept, began to hear hosts.
func (p *presence) startedAt() time.Time { return time.Unix(0, p.started.Load()).UTC() }

// polled returns when the host was last heard by this process, or false.
func (p *presence) polled(key string) (time.Time, bool) {
	if held, ok := p.hosts.Load(key); ok {
		if ns := held.(*hostPresence).seen.Load(); ns != 0 {
			return time.Unix(0, ns).UTC(), true
		}
	}
	return time.Time{}, false
}

// forget drops the prepared answer of a host after a change.
func (p *presence) forget(key string) { p.of(key).since.Add(1) }

// remove drops all that is known of a host that is gone.
func (p *presence) remove(key string) { p.hosts.Delete(key) }

// restart counts every host as heard now. The engine calls it when the machine has slept: hosts
// that could not reach a sleeping machine are not gone.
func (p *presence) restart(now time.Time) {
	p.started.Store(now.UnixNano())
	p.hosts.Range(func(_, held any) bool {
		host := held.(*hostPresence)
		if seen := host.seen.Load(); seen > now.UnixNano() { // by a clock that was set back since
			host.seen.CompareAndSwap(seen, now.UnixNano())
		}
		return true
	})
}

// keyedLocks lets one goroutine at a time work for a key. Agents send the replies of steps that run
// side by side at once; those of one host are taken one after the other.
type keyedLocks struct {
	mu   sync.Mutex
	held map[string]*keyedLock
}

type keyedLock struct {
	sync.Mutex
	users int
}

func (k *keyedLocks) lock(key string) (unlock func()) {
	k.mu.Lock()
	if k.held == nil {
		k.held = make(map[string]*keyedLock)
	}
	lock := k.held[key]
	if lock == nil {
		lock = &keyedLock{}
		k.held[key] = lock
	}
	lock.users++
	k.mu.Unlock()
	lock.Lock()
	return func() {
		lock.Unlock()
		k.mu.Lock()
		defer k.mu.Unlock()
		if lock.users--; lock.users == 0 {
			delete(k.held, key)
		}
	}
}
