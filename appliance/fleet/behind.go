package fleet

import (
	"net/http"
	"strings"
)

// peerPath is the beginning of the paths of requests of members for a member itself.
const peerPath = "/fleet/"

func isPeerPath(path string) bool { return strings.HasPrefix(path, peerPath) }

// Behind is the handler of a follower.
type Behind struct {
	Forwarder *Forwarder
	// Peers handles the requests of other members for this member itself.
	Peers http.Handler
	// Own handles the requests that each member answers itself. It reports false for others, which
	// go to the leader.
	Own func(w http.ResponseWriter, r *http.Request) bool
	// Copy returns the handler of a listener that answers reads from this member's copy of the
	// database, and gives other requests to forward. nil: all go to the leader.
	Copy func(at Listener, forward http.Handler) http.Handler
}

// Handler returns the handler of a listener.
func (b *Behind) Handler(at Listener) http.Handler {
	forward := b.Forwarder.Handler(at)
	if b.Copy != nil {
		forward = b.Copy(at, forward)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch from := sender(r); {
		case from != "" && isPeerPath(r.URL.Path) && r.URL.Path != pollsPath:
			b.Peers.ServeHTTP(w, r)
		case from != "": // that member takes this one for the leader
			refuseAsFollower(w, r, b.Forwarder.refuse)
		case !b.Own(w, r):
			forward.ServeHTTP(w, r)
		}
	})
}

// refuseAsFollower answers a request that only the leader may handle. It had no effect.
func refuseAsFollower(w http.ResponseWriter, r *http.Request, refuse Refuse) {
	w.Header().Set(headerNotLeader, "true")
	w.Header().Set("Retry-After", retryAfter)
	refuse(w, r, ErrNoLeader)
}
