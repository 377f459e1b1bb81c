package settings

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/engine"
	"landfall/appliance/mirror"
	"landfall/appliance/sentence"
)

// State is the state of a release or of a line of the checklist.
type State string

const (
	StateReady    State = "ready" // of a release: its payload can be read
	StateDone     State = "done"
	StateMissing  State = "missing"
	StateFailed   State = "failed"
	StateChecking State = "checking"
	StateOptional State = "optional" // missing, but not necessary
)

// Word returns the word for people, which is that of the page. Programs read the state itself.
func (s State) Word() string {
	if s == StateMissing {
		return "to do"
	}
	return string(s)
}

const (
	checkAgain   = time.Minute      // a result is valid for this time
	checkTimeout = 20 * time.Second // of one check
	dialTimeout  = 3 * time.Second
)

// checks runs checks in the background and keeps their results. A check that is outdated runs again
// when it is asked for; its last result is valid until then.
type checks struct {
	clock   clockwork.Clock
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	results map[string]*checkResult
}

type checkResult struct {
	rules   *mirror.Rules // of the check; nil if it does not depend on mirror rules
	at      time.Time     // zero until the first result
	err     error
	running bool
}

func newChecks(clock clockwork.Clock) *checks {
	c := &checks{clock: clock, results: map[string]*checkResult{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

func (c *checks) close() {
	c.cancel()
	c.running.Wait()
}

// result returns the last result of a check with the present mirror rules, and whether there is
// one. rules is nil if the check does not depend on them.
func (c *checks) result(key string, rules *mirror.Rules,
	check func(context.Context) error) (known bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := c.results[key]
	if held == nil || held.rules != rules {
		held = &checkResult{rules: rules}
		c.results[key] = held
	}
	if !held.running && (held.at.IsZero() || c.clock.Since(held.at) >= checkAgain) && c.ctx.Err() == nil {
		held.running = true
		c.running.Go(func() {
			ctx, cancel := context.WithTimeout(c.ctx, checkTimeout)
			defer cancel()
			err := check(ctx)
			c.mu.Lock()
			defer c.mu.Unlock()
			held.at, held.err, held.running = c.clock.Now(), err, false
		})
	}
	return !held.at.IsZero(), held.err
}

// note keeps a result that is known without a check.
func (c *checks) note(key string, rules *mirror.Rules, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.results[key] = &checkResult{rules: rules, at: c.clock.Now(), err: err}
}

// forget makes all checks run again.
func (c *checks) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.results)
}

func payloadCheck(image engine.ReleaseImage) string { return "release " + image.URL }

// payloadState returns whether the payload of a release can be read through the mirror.
func (s *Service) payloadState(image engine.ReleaseImage) (State, string) {
	known, err := s.checks.result(payloadCheck(image), s.Rules(mirror.Level{}), func(ctx context.Context) error {
		secret, err := s.Site.Offered().Keychain("")
		if err != nil {
			return err
		}
		_, err = s.Digest(ctx, image.URL, secret)
		return err
	})
	switch {
	case !known:
		return StateChecking, ""
	case err != nil:
		return StateFailed, sentence.New(err)
	}
	return StateReady, ""
}

// reachable returns whether the URL for hosts accepts connections.
func (s *Service) reachable() (known bool, err error) {
	parsed, err := url.Parse(s.URL)
	if err != nil {
		return true, fmt.Errorf("read the URL %s: %w", s.URL, err)
	}
	address := parsed.Host
	if parsed.Port() == "" {
		port := "443"
		if parsed.Scheme == "http" {
			port = "80"
		}
		address = net.JoinHostPort(parsed.Hostname(), port)
	}
	return s.checks.result("url "+address, nil, func(ctx context.Context) error { return s.Dial(ctx, address) })
}

func dial(ctx context.Context, address string) error {
	connection, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return connection.Close()
}
