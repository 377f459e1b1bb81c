package engine

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/audit"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/mirror"
	"landfall/store"
)

var (
	walks    = flag.Int("walks", 1_000, "random walks over the state machines of hosts and clusters")
	walkSeed = flag.Uint64("walkseed", 1, "seed of the random walks")
)

// parallelWalks is the number of concurrent walks.
const parallelWalks = 4

// walkSteps is the number of steps in a walk.
const walkSteps = 10

// errWalkOver rolls back the writes of a walk, so that each walk begins with an empty store.
var errWalkOver = errors.New("the walk is over")

// enoughWalks is the usual number of walks that cover every transition of the tables. mostWalks is
// the maximum.
const enoughWalks, mostWalks = 10_000, 40_000

// TestRandomWalks runs random histories of the state machines. Each walk is a small site (see
// site). Random changes happen to it while the test moves the clock. The engine's own code writes
// the consequences, in one transaction of a real store, which is rolled back at the end. The
// invariants of walk_invariants_test.go hold after each step and at the end, when no deadline is
// left. Ten thousand walks (`make test-walks`; the default is fewer) reach every state and take
// every transition of both tables.
func TestRandomWalks(t *testing.T) {
	seen := newCoverage()
	var next atomic.Int64
	var workers sync.WaitGroup
	for range parallelWalks {
		workers.Go(func() {
			clock := clockwork.NewFakeClockAt(noon)
			db, err := store.Open(t.Context(), t.TempDir(), store.Options{Clock: clock, NoSync: true})
			if err != nil {
				t.Error(err)
				return
			}
			e, err := New(Options{DB: db, Releases: &testReleases{}, Mirror: &mirror.Rules{}, Clock: clock,
				URL: "http://appliance.site.test:8090"})
			if err != nil {
				t.Error(err)
				return
			}
			seen.watch(e)
			more := func(n int64) bool {
				return n <= int64(*walks) || *walks >= enoughWalks && n <= mostWalks && len(seen.missing()) > 0
			}
			for n := next.Add(1); more(n) && !t.Failed(); n = next.Add(1) {
				walk(t, e, clock, seen, uint64(n))
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	workers.Wait()
	t.Log(seen.summary(int(next.Load()) - parallelWalks))
	if *walks >= enoughWalks && !t.Failed() {
		require.Empty(t, seen.missing())
	}
}

func walk(t *testing.T, e *Engine, clock *clockwork.FakeClock, seen *coverage, n uint64) {
	rng := rand.New(rand.NewPCG(*walkSeed, n))
	s := &site{e: e, clock: clock, rng: rng, seen: seen, ctx: t.Context(), auditor: audit.New(),
		aim: seen.aims[n%uint64(len(seen.aims))]}
	e.validator, e.options.Timeouts.WarnOnly = s, n%3 == 0
	err := e.options.DB.Update(t.Context(), func(tx *store.Tx) error {
		s.tx = tx
		s.run()
		return errWalkOver
	})
	if !errors.Is(err, errWalkOver) {
		t.Error(err)
	}
	for _, h := range s.hosts {
		e.presence.Remove(walkEnv + "/" + h.id)
		e.presence.Remove(walkPool + "/" + h.id)
	}
	if s.fault != "" {
		t.Errorf("walk %d (-walks %d -walkseed %d): %s\n%s", n, *walks, *walkSeed, s.fault, strings.Join(s.trace, "\n"))
	}
}

// run runs one walk to its end.
func (s *site) run() {
	s.begin()
	for range walkSteps {
		if s.fault != "" || s.over {
			return
		}
		s.step()
	}
	s.waitForDeadlines()
	s.deleteAll()
}

// coverage counts the transitions taken and the states reached.
type coverage struct {
	hosts, clusters map[taken]*atomic.Int64
	states          map[string]*atomic.Int64 // key: "host known"
	aims            []aim
}

type taken struct {
	row  int
	from string
}

func newCoverage() *coverage {
	c := &coverage{hosts: counters(lifecycle.HostMachine()), clusters: counters(lifecycle.ClusterMachine()),
		states: make(map[string]*atomic.Int64), aims: aims()}
	for _, name := range lifecycle.StateNames(lifecycle.HostStates()) {
		c.states["host "+name] = new(atomic.Int64)
	}
	for _, name := range lifecycle.StateNames(lifecycle.ClusterStates()) {
		c.states["cluster "+name] = new(atomic.Int64)
	}
	return c
}

func counters[S any](l *lifecycle.Machine[S]) map[taken]*atomic.Int64 {
	all := make(map[taken]*atomic.Int64)
	for i, r := range l.Rows() {
		for _, from := range r.From {
			all[taken{i, from}] = new(atomic.Int64)
		}
	}
	return all
}

// watch counts the transitions that the engine takes.
func (c *coverage) watch(e *Engine) {
	e.hosts = e.hosts.Observed(func(row int, from string) { c.hosts[taken{row, from}].Add(1) })
	e.clusters = e.clusters.Observed(func(row int, from string) { c.clusters[taken{row, from}].Add(1) })
}

func (c *coverage) summary(walks int) string {
	return fmt.Sprintf("%d walks: %s transitions of hosts, %s of clusters, %s states; the rarest transition was "+
		"taken %d times, the middle one %d times",
		walks, share(c.hosts), share(c.clusters), share(c.states), min(rarest(c.hosts), rarest(c.clusters)),
		middle(c.hosts))
}

func share[K comparable](counts map[K]*atomic.Int64) string {
	reached := 0
	for _, n := range counts {
		if n.Load() > 0 {
			reached++
		}
	}
	return fmt.Sprintf("%d of %d", reached, len(counts))
}

func rarest[K comparable](counts map[K]*atomic.Int64) int64 {
	least := int64(1 << 62)
	for _, n := range counts {
		least = min(least, n.Load())
	}
	return least
}

func middle[K comparable](counts map[K]*atomic.Int64) int64 {
	var all []int64
	for _, n := range counts {
		all = append(all, n.Load())
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func (c *coverage) missing() []string {
	var missing []string
	for at, n := range c.hosts {
		if r := lifecycle.HostMachine().Rows()[at.row]; n.Load() == 0 {
			missing = append(missing, fmt.Sprintf("host row %d, %s: %s -> %s (%s)", at.row, r.On, at.from, r.To,
				r.Because))
		}
	}
	for at, n := range c.clusters {
		if r := lifecycle.ClusterMachine().Rows()[at.row]; n.Load() == 0 {
			missing = append(missing, fmt.Sprintf("cluster row %d, %s: %s -> %s (%s)", at.row, r.On, at.from, r.To,
				r.Because))
		}
	}
	for name, n := range c.states {
		if n.Load() == 0 {
			missing = append(missing, "state of "+name)
		}
	}
	slices.Sort(missing)
	return missing
}
