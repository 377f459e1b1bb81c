package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"landfall/appliance/engine"
)

// Options are how a scenario is played.
type Options struct {
	Seed     uint64 // 0: the scenario's
	Site     int    // the number of the only site to play; 0: all
	Days     int    // 0: the scenario's
	Parallel int    // sites at the same time; 0: one for each processor
	// where the stores of the sites lie while they are played; "": the system's folder for
	// temporary files
	Dir      string
	Progress func(Progress)   // told whenever a site ends, one at a time; may be nil
	Now      func() time.Time // the real time; nil: time.Now
}

// Progress is how far a play is.
type Progress struct{ Sites, Of, Installations, Checks int }

// Run plays a scenario. It ends with the first site, by number, at which something was wrong: an
// *ErrorAt, often of an *audit.Violation. The report tells of what was played until then.
func Run(ctx context.Context, s *Scenario, o Options) (*Report, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	played := *s
	if o.Seed != 0 {
		played.Seed = o.Seed
	}
	if o.Days != 0 {
		played.Days = o.Days
	}
	first, last := 1, played.SiteCount()
	if o.Site != 0 {
		if o.Site < 1 || o.Site > last {
			return nil, fmt.Errorf("the scenario %s has the sites 1 to %d, and no site %d", played.Name, last, o.Site)
		}
		first, last = o.Site, o.Site
	}
	dir, err := os.MkdirTemp(o.Dir, "landfall-scenario-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the sites' stores: %w", err)
	}
	p := &play{scenario: &played, options: o, dir: dir, next: first, last: last, of: last - first + 1}
	p.report = &Report{Name: played.Name, Days: played.Days, Kinds: make(map[string]*Stats), Total: newStats("")}
	p.report.Total.Sites = 0
	began := o.Now()
	p.run(ctx)
	p.report.Took = o.Now().Sub(began)
	return p.report, errors.Join(p.failure, os.RemoveAll(dir))
}

// play is the play of a scenario.
type play struct {
	scenario *Scenario
	options  Options
	dir      string
	of       int

	mu         sync.Mutex
	next, last int
	report     *Report
	failure    error
	failedAt   int
}

func (p *play) run(ctx context.Context) {
	workers := p.options.Parallel
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for number, more := p.take(); more; number, more = p.take() {
				stats, err := p.site(ctx, number)
				p.ended(number, stats, err)
			}
		})
	}
	group.Wait()
}

// take gives out the next site. After a failure there is none.
func (p *play) take() (int, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure != nil || p.next > p.last {
		return 0, false
	}
	p.next++
	return p.next - 1, true
}

func (p *play) ended(number int, stats *Stats, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && (p.failure == nil || number < p.failedAt) {
		p.failure, p.failedAt = err, number
	}
	if stats == nil {
		return
	}
	kind := p.report.Kinds[stats.kind]
	if kind == nil {
		kind = newStats(stats.kind)
		kind.Sites = 0
		p.report.Kinds[stats.kind] = kind
	}
	kind.add(stats)
	p.report.Total.add(stats)
	if p.options.Progress != nil {
		t := p.report.Total
		p.options.Progress(Progress{Sites: t.Sites, Of: p.of, Installations: t.Installations, Checks: t.Checks})
	}
}

// site plays one site from its beginning to its end.
func (p *play) site(ctx context.Context, number int) (_ *Stats, err error) {
	dir := filepath.Join(p.dir, fmt.Sprint(number))
	s, err := newSite(ctx, p.scenario, number, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close(), os.RemoveAll(dir)) }()
	s.play(s.began.AddDate(0, 0, p.scenario.Days))
	return s.sum(), s.errorAt()
}

// sum completes what came of the site.
func (s *site) sum() *Stats {
	s.stats.Checks, s.stats.StoreBytes = s.auditor.Checked(), s.size()
	s.stats.LargestStore = s.stats.StoreBytes
	if s.db != nil {
		s.stats.Changes = s.db.Revision()
	}
	if s.up {
		page, err := s.engine.Events(engine.EventFilter{Limit: 1})
		s.fail(err)
		if err == nil {
			s.stats.Events = page.Total
		}
	}
	return s.stats
}
