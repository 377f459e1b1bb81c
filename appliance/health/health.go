// Package health reports by named checks whether the appliance is alive and whether it is ready for
// requests, in the manner of Kubernetes' endpoints livez and readyz. Everybody may read the
// results, so they name no path, address or object of the site.
package health

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// limit is the time limit of a check. A check that hangs, for example in a read from a disk, fails
// with it.
const limit = 2 * time.Second

// Check is one check. Run returns nil, or an error that is a sentence for everybody.
type Check struct {
	Name string
	Run  func(context.Context) error
}

// Result is the result of a check. Err is nil if it passed.
type Result struct {
	Name string
	Err  error
}

// Checks runs a list of checks.
type Checks struct{ list []*guarded }

// New returns a list of checks.
func New(checks ...Check) *Checks {
	c := &Checks{}
	for _, check := range checks {
		c.list = append(c.list, &guarded{Check: check, limit: limit})
	}
	return c
}

// Has reports whether there is a check with the name.
func (c *Checks) Has(name string) bool {
	return slices.ContainsFunc(c.list, func(check *guarded) bool { return check.Name == name })
}

// Results runs the checks for which wanted returns true, all at the same time.
func (c *Checks) Results(ctx context.Context, wanted func(name string) bool) []Result {
	chosen := slices.DeleteFunc(slices.Clone(c.list), func(check *guarded) bool { return !wanted(check.Name) })
	results := make([]Result, len(chosen))
	var running sync.WaitGroup
	for i, check := range chosen {
		running.Go(func() { results[i] = Result{check.Name, check.run(ctx)} })
	}
	running.Wait()
	return results
}

// All is the argument of Results for all checks.
func All(string) bool { return true }

// guarded is a check of which at most one run is active, so that requests do not collect goroutines
// in a check that hangs.
type guarded struct {
	Check
	limit time.Duration

	mu     sync.Mutex
	active *run // or nil
}

// run is an active run of a check. err is set before done is closed.
type run struct {
	done chan struct{}
	err  error
}

var errHangs = errors.New("the check takes too long")

func (g *guarded) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, g.limit)
	defer cancel()
	active := g.start(context.WithoutCancel(ctx))
	select {
	case <-active.done:
		return active.err
	case <-ctx.Done():
		return errHangs
	}
}

// start starts a run, or returns the active one.
func (g *guarded) start(ctx context.Context) *run {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.active == nil {
		started := &run{done: make(chan struct{})}
		g.active = started
		go func() {
			started.err = g.Run(ctx)
			g.mu.Lock()
			g.active = nil
			g.mu.Unlock()
			close(started.done)
		}()
	}
	return g.active
}
