package follower

import (
	"cmp"
	"crypto/sha256"
	"net/http"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/access/tokens"
	"landfall/web"
	webaccess "landfall/web/access"
	"landfall/web/operation"
)

const (
	// usePause is the time between two uses of a credential that the leader learns of.
	usePause = time.Minute
	// maxUses limits the credentials in memory. Beyond it, the leader learns of more uses.
	maxUses = 4096
)

// uses knows when the leader last learned that a session or a token was used. The leader ends
// sessions that are not used, and shows the last use of tokens.
type uses struct {
	clock clockwork.Clock
	mu    sync.Mutex
	told  map[[sha256.Size]byte]time.Time // by the digest of the secret
}

func newUses(clock clockwork.Clock) *uses {
	return &uses{clock: clock, told: make(map[[sha256.Size]byte]time.Time)}
}

// isDue reports whether the leader must learn of a use now. It does if it then handles the request.
func (u *uses) isDue(secret string) bool {
	if secret == "" {
		return false
	}
	digest, now := sha256.Sum256([]byte(secret)), u.clock.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	if told, ok := u.told[digest]; ok && now.Sub(told) < usePause {
		return false
	}
	if len(u.told) >= maxUses {
		clear(u.told)
	}
	u.told[digest] = now
	return true
}

// isHere reports whether the copy may answer a request.
func (r *Reader) isHere(server *web.Server, request *http.Request) bool {
	if request.Method != http.MethodGet && request.Method != http.MethodHead || webaccess.IsAgent(request) {
		return false
	}
	o, ok := server.Operation(request)
	if !ok || !r.answers(o) {
		return false
	}
	return r.open() || !r.Leader.Led() || !r.uses.isDue(cmp.Or(webaccess.Used(o, request), r.registryToken(request)))
}

// answers reports whether a follower answers an operation now.
func (r *Reader) answers(o operation.Operation) bool {
	return o.FromCopy || o.WithoutLeader && !r.Leader.Led()
}

// registryToken returns the token that a client of the registry sends as its password, or "".
func (r *Reader) registryToken(request *http.Request) string {
	if _, password, _ := request.BasicAuth(); !r.Config.Registry.AnonymousPull && tokens.Valid(password) {
		return password
	}
	return ""
}
