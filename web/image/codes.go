package image

import (
	"context"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
)

// maxCodes bounds how many short codes are remembered. Only valid ones are, so guesses take no
// room.
const maxCodes = 4096

// codes remembers which infra-env a short code stands for, so that the ranges of a reader ask
// nobody.
type codes struct {
	clock  clockwork.Clock
	source Source

	mu      sync.Mutex
	known   map[string]code
	forgets int // how often something was forgotten
}

type code struct {
	infraEnvID string
	until      time.Time // zero: without end
}

// infraEnv returns the infra-env of a code, or the source's error.
func (c *codes) infraEnv(ctx context.Context, text string) (string, error) {
	c.mu.Lock()
	found, ok := c.known[text]
	forgets := c.forgets
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
	if c.forgets != forgets {
		return infraEnvID, nil // it may have been revoked since the source looked
	}
	if len(c.known) >= maxCodes {
		clear(c.known)
	}
	c.known[text] = code{infraEnvID, until}
	return infraEnvID, nil
}

// forget has the codes of an infra-env asked for again.
func (c *codes) forget(infraEnvID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgets++
	for text, known := range c.known {
		if known.infraEnvID == infraEnvID {
			delete(c.known, text)
		}
	}
}
