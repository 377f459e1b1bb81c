package image

import (
	"context"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
)

// maxCodes limits the cached short codes. Only valid codes are cached, so guesses need no memory.
const maxCodes = 4096

// codes caches the infra-envs of short codes, so that the range requests of a reader need no query.
type codes struct {
	clock  clockwork.Clock
	source Source

	mu    sync.Mutex
	known map[string]code
	drops int // number of calls of drop
}

type code struct {
	infraEnvID string
	until      time.Time // zero: the code never expires
}

// infraEnv returns the infra-env of a code, or the error of the source.
func (c *codes) infraEnv(ctx context.Context, text string) (string, error) {
	c.mu.Lock()
	found, ok := c.known[text]
	drops := c.drops
	c.mu.Unlock()
	if ok && (found.until.IsZero() || c.clock.Now().Before(found.until)) {
		return found.infraEnvID, nil
	}
	infraEnvID, until, err := c.source.ResolveCode(ctx, text)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.drops != drops {
		return infraEnvID, nil // the code may have been revoked since the query
	}
	if len(c.known) >= maxCodes {
		clear(c.known)
	}
	c.known[text] = code{infraEnvID, until}
	return infraEnvID, nil
}

// drop removes the codes of an infra-env from the cache.
func (c *codes) drop(infraEnvID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drops++
	for text, known := range c.known {
		if known.infraEnvID == infraEnvID {
			delete(c.known, text)
		}
	}
}
