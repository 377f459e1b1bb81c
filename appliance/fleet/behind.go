package fleet

import (
	"net/http"
	"net/netip"
	"strings"

	"landfall/appliance/fault"
)

// peerPath is the beginning of the paths of requests of members for a member itself.
const peerPath = "/fleet/"

func isPeerPath(path string) bool { return strings.HasPrefix(path, peerPath) }

// isOfPeer reports whether a member sends a request of its own. A request that it forwards for a
// client has the header headerClient, whatever its path is: the member has not checked it.
func isOfPeer(r *http.Request) bool {
	_, forwarded := r.Header[headerClient]
	return !forwarded && isPeerPath(r.URL.Path) && sender(r) != ""
}

// rememberPeer gives remember the address of a member that sends a request of its own.
func rememberPeer(r *http.Request, remember func(netip.Addr)) {
	if at, err := netip.ParseAddrPort(r.RemoteAddr); err == nil && remember != nil {
		remember(at.Addr().Unmap().WithZone(""))
	}
}

// errNoPath is the answer to a client that uses the path of a member.
var errNoPath = fault.New(fault.NotFound, "only members of the fleet may use the paths below %s", peerPath)

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
	// Remember is that of [Front.Wrap]; nil: there are no limits.
	Remember func(netip.Addr)
}

// Handler returns the handler of a listener.
func (b *Behind) Handler(at Listener) http.Handler {
	forward := b.Forwarder.Handler(at)
	if b.Copy != nil {
		forward = b.Copy(at, forward)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case isOfPeer(r) && r.URL.Path != pollsPath:
			rememberPeer(r, b.Remember)
			b.Peers.ServeHTTP(w, r)
		case sender(r) != "": // that member takes this one for the leader
			refuseAsFollower(w, r, b.Forwarder.refuse)
		case isPeerPath(r.URL.Path):
			b.Forwarder.refuse(w, r, errNoPath)
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
