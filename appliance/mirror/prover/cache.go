package prover

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
)

// cache stores which images are complete, for a limited time. A cached image is valid only while
// the mirror serves its manifest under the same digest.
type cache struct {
	clock clockwork.Clock
	keep  time.Duration

	mu    sync.Mutex
	known map[string]cached
}

type cached struct {
	at    time.Time
	blobs []Part
}

// cacheLimit is the maximum number of cached images: about ten releases.
const cacheLimit = 4096

func newCache(clock clockwork.Clock, keep time.Duration) *cache {
	return &cache{clock: clock, keep: keep, known: map[string]cached{}}
}

func cacheKey(r *repository, digest string, request Request) string {
	return fmt.Sprintf("%s@%s %s", r.name(), digest, strings.Join(request.Architectures, ","))
}

func (c *cache) put(key string, blobs []Part) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	if len(c.known) >= cacheLimit {
		for k, v := range c.known {
			if now.Sub(v.at) >= c.keep {
				delete(c.known, k)
			}
		}
		if len(c.known) >= cacheLimit {
			clear(c.known)
		}
	}
	c.known[key] = cached{now, blobs}
}

func (c *cache) get(key string) ([]Part, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	held, ok := c.known[key]
	if !ok || c.clock.Since(held.at) >= c.keep {
		delete(c.known, key)
		return nil, false
	}
	return held.blobs, true
}
