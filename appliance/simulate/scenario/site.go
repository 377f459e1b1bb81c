package scenario

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/engine"
	"landfall/appliance/engine/audit"
	"landfall/appliance/simulate"
)

// site is one place with an appliance, machines and people, played by one goroutine. Whatever
// happens there is an event of its queue, or something that has become due for its engine; the
// clock stands still between them.
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
	slots []*slot
	stats *Stats
	fault error // what ended the play
}

// clock is the appliance's: the true time, and how wrong it is.
type clock struct {
	*clockwork.FakeClock
	wrong time.Duration
}

// Now is what the appliance takes for the time.
func (c *clock) Now() time.Time { return c.FakeClock.Now().Add(c.wrong) }

// Since is how long ago that was.
func (c *clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (c *clock) trueTime() time.Time { return c.FakeClock.Now() }

// happening is an event that is to come.
type happening struct {
	at     time.Time
	number uint64 // of two at the same time, the one that was planned first comes first
	do     func()
}

type queue []*happening

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q queue) Less(i, j int) bool {
	if q[i].at.Equal(q[j].at) {
		return q[i].number < q[j].number
	}
	return q[i].at.Before(q[j].at)
}
func (q *queue) Push(x any) { *q = append(*q, x.(*happening)) }
func (q *queue) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return last
}

// after plans something.
func (s *site) after(wait time.Duration, do func()) {
	s.planned++
	heap.Push(&s.queue, &happening{s.clock.trueTime().Add(max(wait, 0)), s.planned, do})
}

// every repeats something at random times that are so far apart in the mean; never when mean is
// zero.
func (s *site) every(mean Span, do func()) {
	if mean == 0 {
		return
	}
	s.after(s.about(mean), func() {
		do()
		s.every(mean, do)
	})
}

// about is a random time with the given mean: most are shorter, some much longer, at least a
// minute.
func (s *site) about(mean Span) time.Duration {
	return max(time.Minute, time.Duration(float64(mean)*s.rng.ExpFloat64()))
}

// roughly is a time up to a fifth shorter or longer.
func (s *site) roughly(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*s.rng.Float64()))
}

func (s *site) chance(share Percent) bool { return share > 0 && s.rng.Float64()*100 < float64(share) }

func (s *site) fail(err error) {
	if s.fault == nil && err != nil {
		s.fault = err
	}
}

// day is the number of the present day, from 1.
func (s *site) day() int { return int(s.clock.trueTime().Sub(s.began)/(24*time.Hour)) + 1 }

// network is the one that the machines of each cluster share; the networks of two clusters are not
// connected.
var network = netip.MustParsePrefix("192.168.100.0/23")

func newSite(ctx context.Context, scenario *Scenario, number int, dir string) (*site, error) {
	kind, among := scenario.kind(number)
	began := scenario.Start.Time
	s := &site{
		ctx: ctx, kind: kind, number: number, name: fmt.Sprintf("%s-%d", kind.Name, among), dir: dir, began: began,
		seed:  scenario.Seed,
		rng:   rand.New(rand.NewPCG(scenario.Seed, uint64(number))),
		clock: &clock{FakeClock: clockwork.NewFakeClockAt(began)}, stats: newStats(kind.Name),
	}
	var err error
	if s.appliance, err = newAppliance(s); err != nil {
		return nil, err
	}
	for i := range kind.Clusters {
		rack := simulate.NewMachineSet(fmt.Sprintf("%s/%d", s.name, i), scenario.Seed, network, kind.Hardware.machine())
		slot, err := newSlot(s, i, rack)
		if err != nil {
			return nil, errors.Join(err, s.appliance.close())
		}
		s.slots = append(s.slots, slot)
	}
	s.begin()
	return s, nil
}

// begin plans what happens by itself.
func (s *site) begin() {
	faults := &s.kind.Faults
	s.every(faults.Restart.Every, func() { s.outage("restarts", time.Duration(faults.Restart.For), false) })
	s.every(faults.PowerCut.Every, func() { s.outage("power cuts", time.Duration(faults.PowerCut.For), false) })
	s.every(faults.Sleep.Every, func() { s.outage("sleeps", time.Duration(faults.Sleep.For), true) })
	s.every(faults.ClockJump.Every, func() {
		by := time.Duration(float64(faults.ClockJump.By) * (2*s.rng.Float64() - 1))
		s.jump(by - s.clock.wrong)
	})
	for _, slot := range s.slots {
		slot.begin()
	}
	for _, act := range s.kind.Script {
		s.after(time.Duration(act.At), func() { s.perform(act) })
	}
	s.nightly()
}

// perform does what the script says: to each cluster of the site, and to one machine of each or to
// all.
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
		for _, slot := range s.slots {
			slot.perform(act)
		}
	}
}

// nightly is the appliance's own tidying and, here, the look at all that there is.
func (s *site) nightly() {
	s.after(24*time.Hour, func() {
		if s.up {
			s.fail(s.tidy())
		}
		s.nightly()
	})
}

// play lets the site live until the time; a violation of an invariant ends it before.
func (s *site) play(until time.Time) {
	for s.fault == nil && s.ctx.Err() == nil {
		due, waits := s.nextDue()
		if s.fault != nil {
			return
		}
		next := s.queue[0].at // the nightly look is always planned
		if waits && due.Before(next) {
			next = due
		}
		if next.After(until) {
			s.clock.Advance(until.Sub(s.clock.trueTime()))
			s.fail(s.tidyIfUp())
			return
		}
		if wait := next.Sub(s.clock.trueTime()); wait > 0 {
			s.clock.Advance(wait)
		}
		if waits && !due.After(next) {
			s.handleDue()
		} else if event := heap.Pop(&s.queue).(*happening); event != nil {
			event.do()
			s.stats.Happenings++
		}
		if found := s.auditor.Violation(); found != nil {
			s.fail(found)
		}
	}
	s.fail(s.ctx.Err())
}

// ErrorAt says where and when the play of a scenario ended that should have gone on.
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

// Unwrap gives what went wrong, often an *audit.Violation.
func (e *ErrorAt) Unwrap() error { return e.Reason }

func (s *site) errorAt() error {
	if s.fault == nil || s.ctx.Err() != nil {
		return s.ctx.Err()
	}
	return &ErrorAt{Seed: s.seed, Site: s.number, Name: s.name, Day: s.day(), Reason: s.fault}
}

// errDown is the answer of an appliance that is off, asleep or out of reach.
var errDown = errors.New("the appliance does not answer")

// ask asks the appliance for something. A failure that is no refusal ends the play.
func (s *site) ask(what string, request func(*engine.Engine) error) error {
	if !s.up {
		return errDown
	}
	err := request(s.engine)
	if err != nil && engine.KindOf(err) == 0 {
		s.fail(&audit.Violation{Invariant: "an answer or a refusal", Objects: []string{what}, Found: err.Error()})
	}
	return err
}
