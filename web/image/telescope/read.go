package telescope

import (
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
)

// Read is one client's reading of one image.
type Read struct {
	client, agent string
	image         Image
	clock         clockwork.Clock

	mu          sync.Mutex
	first, last time.Time
	seen        coverage
	bytes       int64 // sent, repetitions included
	requests    int64
	at          int64 // behind the last byte sent
	running     int   // requests being answered
	speed, pace rate  // bytes and requests
	dropped     string
}

func newRead(client, agent string, image Image, clock clockwork.Clock, now time.Time) *Read {
	r := &Read{client: client, agent: agent, image: image, clock: clock, first: now, last: now, requests: 1, running: 1}
	r.pace.add(now, 1)
	return r
}

// resume notes another request, unless the client was away for so long that it is another read.
func (r *Read) resume(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.last) > sameRead && r.running == 0 {
		return false
	}
	r.requests++
	r.running++
	r.dropped = ""
	r.pace.add(now, 1)
	return true
}

func (r *Read) lastRead() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// Sent notes that the n bytes from offset on were taken by the connection.
func (r *Read) Sent(offset, n int64) {
	if n <= 0 {
		return
	}
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = now
	r.bytes += n
	r.at = offset + n
	r.seen.add(offset, offset+n)
	r.speed.add(now, n)
}

// Done ends a request. A reason says in a few words why it was cut off by the appliance; it is
// empty otherwise.
func (r *Read) Done(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running--
	r.dropped = reason
}

// window is how long a rate looks back: one to two of them.
const window = 4 * time.Second

// rate counts what happens in windows of time, the running one and the one before it.
type rate struct {
	start          time.Time // of the running window
	before, during int64
}

func (r *rate) add(now time.Time, n int64) {
	r.turn(now)
	r.during += n
}

func (r *rate) turn(now time.Time) {
	switch passed := now.Sub(r.start); {
	case passed < window:
	case passed < 2*window:
		r.start, r.before, r.during = r.start.Add(window), r.during, 0
	default:
		r.start, r.before, r.during = now, 0, 0
	}
}

// perSecond is the rate of late; a read that has just begun (at first) is given at least a second.
func (r *rate) perSecond(now, first time.Time) float64 {
	r.turn(now)
	since := r.start.Add(-window)
	if first.After(since) {
		since = first
	}
	return float64(r.before+r.during) / max(now.Sub(since), time.Second).Seconds()
}
