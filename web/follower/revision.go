package follower

import (
	"net/http"
	"sync"
	"time"

	"landfall/appliance/fault"
	"landfall/appliance/fleet"
)

const (
	// patience is the longest time for which a request waits for changes.
	patience = 250 * time.Millisecond
	// retryAfter is the value of the header Retry-After, in seconds.
	retryAfter = "1"
)

// errOutdated is the error for a client that may know more than this member.
var errOutdated = fault.New(fault.Unavailable, "this member lacks changes that you may have seen, and the fleet has "+
	"no leader now; try again, or use the address of another member")

// revision is the revision of the copy that memory contains, too.
type revision struct {
	mu      sync.Mutex
	at      uint64
	changed chan struct{}
}

func newRevision() *revision { return &revision{changed: make(chan struct{})} }

func (v *revision) get() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.at
}

func (v *revision) set(at uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.at = at
	close(v.changed)
	v.changed = make(chan struct{})
}

// state returns the revision, and a channel that is closed at its next change.
func (v *revision) state() (uint64, <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.at, v.changed
}

// isFresh waits until the copy has all changes that the client may know of, because an answer that
// it got here or elsewhere contained them. It reports false if they do not come soon, and while it
// is not known which changes there are.
func (r *Reader) isFresh(request *http.Request) bool {
	seen, known := r.Leader.Seen()
	if !known && r.Leader.Led() {
		return false
	}
	wanted := max(seen, fleet.Wanted(request))
	limit := (<-chan time.Time)(nil)
	for {
		at, changed := r.revision.state()
		if at >= wanted {
			return true
		}
		if limit == nil {
			limit = r.Clock.After(patience)
		}
		select {
		case <-changed:
		case <-limit:
			return false
		case <-request.Context().Done():
			return false
		}
	}
}
