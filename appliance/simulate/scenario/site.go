package scenario

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/config"
	"landfall/appliance/engine"
	"landfall/appliance/engine/audit"
	"landfall/appliance/fault"
	"landfall/appliance/simulate"
)

// site is a site with an appliance, machines and users. One goroutine runs it. Everything that
// happens is a task in its queue or a deadline of its engine. The clock stands still in between.
type site struct {
	ctx     context.Context
	kind    *Kind
	name    string
	number  int
	rng     *rand.Rand
	began   time.Time
	clock   *clock
	queue   queue
	planned uint64
	seed    uint64
	dir     string
	*appliance
	owners []*owner
	hosted *hosted // nil: the site has no hosted clusters
	stats  *Stats
	fault  error // the error that ended the run
}

// clock is the appliance's clock: the real time plus the clock's error.
type clock struct {
	*clockwork.FakeClock
	wrong time.Duration
}

// Now returns the time on the appliance's clock.
func (c *clock) Now() time.Time { return c.FakeClock.Now().Add(c.wrong) }

// Since returns the time elapsed since t.
func (c *clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (c *clock) realTime() time.Time { return c.FakeClock.Now() }

// task is a scheduled function.
type task struct {
	at     time.Time
	number uint64 // order of tasks with the same time
	do     func()
}

type queue []*task

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q queue) Less(i, j int) bool {
	if q[i].at.Equal(q[j].at) {
		return q[i].number < q[j].number
	}
	return q[i].at.Before(q[j].at)
}
func (q *queue) Push(x any) { *q = append(*q, x.(*task)) }
func (q *queue) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return last
}

// after schedules a function.
func (s *site) after(wait time.Duration, do func()) {
	s.planned++
	heap.Push(&s.queue, &task{s.clock.realTime().Add(max(wait, 0)), s.planned, do})
}

// every calls a function at random intervals with the given mean, or never if mean is zero.
func (s *site) every(mean Span, do func()) {
	if mean == 0 {
		return
	}
	s.after(s.about(mean), func() {
		do()
		s.every(mean, do)
	})
}

// about returns a random duration with the given mean. Most durations are shorter than the mean,
// some are much longer. The minimum is one minute.
func (s *site) about(mean Span) time.Duration {
	return max(time.Minute, time.Duration(float64(mean)*s.rng.ExpFloat64()))
}

// roughly returns a duration that is up to a fifth shorter or longer.
func (s *site) roughly(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*s.rng.Float64()))
}

func (s *site) chance(share Percent) bool { return share > 0 && s.rng.Float64()*100 < float64(share) }

func (s *site) fail(err error) {
	if s.fault == nil && err != nil {
		s.fault = err
	}
}

// day returns the number of the current day, from 1.
func (s *site) day() int { return int(s.clock.realTime().Sub(s.began)/(24*time.Hour)) + 1 }

// network is the network of each cluster's machines. The networks of two clusters are not
// connected.
var network = netip.MustParsePrefix("192.168.100.0/23")

func newSite(ctx context.Context, scenario *Scenario, number int, dir string,
	limits config.Limits) (*site, error) {
	kind, among := scenario.kind(number)
	began := scenario.Start.Time
	s := &site{
		ctx: ctx, kind: kind, number: number, name: fmt.Sprintf("%s-%d", kind.Name, among), dir: dir, began: began,
		seed:  scenario.Seed,
		rng:   rand.New(rand.NewPCG(scenario.Seed, uint64(number))),
		clock: &clock{FakeClock: clockwork.NewFakeClockAt(began)}, stats: newStats(kind.Name),
	}
	var err error
	if s.appliance, err = newAppliance(s, limits); err != nil {
		return nil, err
	}
	for i := range kind.Clusters {
		machineSet := simulate.NewMachineSet(fmt.Sprintf("%s/%d", s.name, i), scenario.Seed, network,
			kind.Hardware.machine())
		owner, err := newOwner(s, i, machineSet)
		if err != nil {
			return nil, errors.Join(err, s.appliance.close())
		}
		s.owners = append(s.owners, owner)
	}
	if s.hosted, err = newHosted(s); err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.begin()
	return s, nil
}

// begin schedules the recurring events.
func (s *site) begin() {
	faults := &s.kind.Faults
	s.every(faults.Restart.Every, func() { s.outage("restarts", time.Duration(faults.Restart.For), false) })
	s.every(faults.PowerCut.Every, func() { s.outage("power cuts", time.Duration(faults.PowerCut.For), false) })
	s.every(faults.Sleep.Every, func() { s.outage("sleeps", time.Duration(faults.Sleep.For), true) })
	s.every(faults.ClockJump.Every, func() {
		by := time.Duration(float64(faults.ClockJump.By) * (2*s.rng.Float64() - 1))
		s.jump(by - s.clock.wrong)
	})
	for _, owner := range s.owners {
		owner.begin()
	}
	for _, act := range s.kind.Script {
		s.after(time.Duration(act.At), func() { s.perform(act) })
	}
	if s.hosted != nil {
		s.hosted.begin()
	}
	s.tidyRegularly()
	s.checkNightly()
}

// close ends the processes of the appliance.
func (s *site) close() error { return errors.Join(s.hosted.close(), s.appliance.close()) }

// switchOn starts the processes of the appliance.
func (s *site) switchOn() error {
	err := s.appliance.switchOn()
	if err == nil && s.hosted != nil {
		err = s.hosted.open()
	}
	return err
}

// perform executes an act of the script for each cluster of the site, on one or all machines of the
// cluster.
func (s *site) perform(act Act) {
	length := time.Duration(act.For)
	switch act.Do {
	case doRestart:
		s.outage("restarts", length, false)
	case doPowerCut:
		s.outage("power cuts", length, false)
	case doSleep:
		s.outage("sleeps", length, true)
	case doClockJump:
		s.jump(length)
	case doClockBack:
		s.jump(-length)
	default:
		if slices.Contains(aboutHosted, act.Do) {
			s.hosted.perform(act)
			return
		}
		for _, owner := range s.owners {
			owner.perform(act)
		}
	}
}

// tidyInterval is longer than in an appliance, where it is 15 minutes, because each round costs
// time.
const tidyInterval = 2 * time.Hour

func (s *site) tidyRegularly() {
	s.after(tidyInterval, func() {
		if s.up {
			s.fail(s.tidy())
		}
		s.tidyRegularly()
	})
}

func (s *site) checkNightly() {
	s.after(24*time.Hour, func() {
		s.fail(s.check())
		s.checkNightly()
	})
}

// run runs tasks until the given time. A violated invariant ends the run.
func (s *site) run(until time.Time) {
	for s.fault == nil && s.ctx.Err() == nil {
		due, waits := s.nextDue()
		if s.fault != nil {
			return
		}
		next := s.queue[0].at // the nightly check is always scheduled
		if waits && due.Before(next) {
			next = due
		}
		if next.After(until) {
			s.clock.Advance(until.Sub(s.clock.realTime()))
			s.fail(s.check())
			if s.hosted != nil && s.fault == nil {
				s.fail(s.hosted.finish())
			}
			return
		}
		if wait := next.Sub(s.clock.realTime()); wait > 0 {
			s.clock.Advance(wait)
		}
		if waits && !due.After(next) {
			s.handleDue()
		} else if next := heap.Pop(&s.queue).(*task); next != nil {
			next.do()
			s.stats.Tasks++
		}
		if found := s.auditor.Violation(); found != nil {
			s.fail(found)
		}
	}
	s.fail(s.ctx.Err())
}

// ErrorAt reports where and when the run of a scenario ended with an error.
type ErrorAt struct {
	Seed   uint64
	Site   int
	Name   string
	Day    int
	Reason error
}

func (e *ErrorAt) Error() string {
	return fmt.Sprintf("seed %d, site %d (%s), day %d: %v", e.Seed, e.Site, e.Name, e.Day, e.Reason)
}

// Unwrap returns the cause, often an *audit.Violation.
func (e *ErrorAt) Unwrap() error { return e.Reason }

func (s *site) errorAt() error {
	if s.fault == nil || s.ctx.Err() != nil {
		return s.ctx.Err()
	}
	return &ErrorAt{Seed: s.seed, Site: s.number, Name: s.name, Day: s.day(), Reason: s.fault}
}

// errDown is returned while the appliance is off, asleep or unreachable.
var errDown = errors.New("the appliance does not respond")

// call sends a request to the appliance. An error that is not a rejection ends the run.
func (s *site) call(subject string, request func(*engine.Engine) error) error {
	if !s.up {
		return errDown
	}
	err := request(s.engine)
	if err != nil && fault.KindOf(err) == 0 {
		s.fail(&audit.Violation{Invariant: "each request is answered or rejected", Objects: []string{subject},
			Found: err.Error()})
	}
	return err
}
