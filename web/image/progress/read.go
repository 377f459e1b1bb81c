package progress

import (
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
)

// Read is the read of one image by one client.
type Read struct {
	client, agent string
	image         Image
	clock         clockwork.Clock

	mu          sync.Mutex
	first, last time.Time
	covered     coverage
	bytes       int64 // sent, including repeated ones
	requests    int64
	position    int64 // the end of the last byte range that was sent
	running     int   // requests in progress
	all         bool  // one of them requests all of the image
	byteRate    rate
	requestRate rate
	dropped     string
}

func newRead(client, agent string, image Image, clock clockwork.Clock, now time.Time) *Read {
	r := &Read{client: client, agent: agent, image: image, clock: clock, first: now, last: now, requests: 1, running: 1}
	r.requestRate.add(now, 1)
	return r
}

// resume records another request. It returns false if the pause was so long that the request starts
// a new read.
func (r *Read) resume(now time.Time, all bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.last) > sameRead && r.running == 0 {
		return false
	}
	r.requests++
	r.running++
	r.all = r.all || all
	r.dropped = ""
	r.requestRate.add(now, 1)
	return true
}

// sendsAll reports whether a request of all of the image is in progress.
func (r *Read) sendsAll() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all && r.running > 0
}

func (r *Read) lastRead() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// Sent records that the connection accepted n bytes, beginning at an offset.
func (r *Read) Sent(offset, n int64) {
	if n <= 0 {
		return
	}
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = now
	r.bytes += n
	r.position = offset + n
	r.covered.add(offset, offset+n)
	r.byteRate.add(now, n)
}

// Done ends a request. If the appliance ended the request early, reason is the cause in a few
// words; otherwise it is empty.
func (r *Read) Done(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running--
	r.all = r.all && r.running > 0
	r.dropped = reason
}

// window is the length of the windows of a rate. A rate covers one to two windows.
const window = 4 * time.Second

// rate counts in two windows of time: the current one and the previous one.
type rate struct {
	start             time.Time // start of the current window
	previous, current int64
}

func (r *rate) add(now time.Time, n int64) {
	r.advance(now)
	r.current += n
}

func (r *rate) advance(now time.Time) {
	switch passed := now.Sub(r.start); {
	case passed < window:
	case passed < 2*window:
		r.start, r.previous, r.current = r.start.Add(window), r.current, 0
	default:
		r.start, r.previous, r.current = now, 0, 0
	}
}

// perSecond returns the recent rate. A read that began less than a second ago (at the time first)
// counts as one second long.
func (r *rate) perSecond(now, first time.Time) float64 {
	r.advance(now)
	since := r.start.Add(-window)
	if first.After(since) {
		since = first
	}
	return float64(r.previous+r.current) / max(now.Sub(since), time.Second).Seconds()
}
