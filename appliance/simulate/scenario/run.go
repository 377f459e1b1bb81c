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

	"landfall/appliance/config"
	"landfall/appliance/engine/event"
)

// Options configures a run.
type Options struct {
	Seed     uint64 // 0 selects the scenario's seed
	Site     int    // number of the only site to run; 0 selects all sites
	Days     int    // 0 selects the scenario's number of days
	Parallel int    // number of concurrent sites; 0 selects one per processor
	// directory of the stores during the run; "" selects the system's directory for temporary files
	Dir      string
	Progress func(Progress)   // called after each site, not concurrently; may be nil
	Now      func() time.Time // the real time; nil selects time.Now
}

// Progress is the progress of a run.
type Progress struct{ Sites, Of, Installations, Checks int }

// Run runs a scenario. It ends after the site with the lowest number that has a problem. The error
// is then an *ErrorAt, which often wraps an *audit.Violation. The report contains the results so
// far.
func Run(ctx context.Context, s *Scenario, o Options) (*Report, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	scenario := *s
	if o.Seed != 0 {
		scenario.Seed = o.Seed
	}
	if o.Days != 0 {
		scenario.Days = o.Days
	}
	first, last := 1, scenario.SiteCount()
	if o.Site != 0 {
		if o.Site < 1 || o.Site > last {
			return nil, fmt.Errorf("the scenario %s has the sites 1 to %d, and no site %d", scenario.Name, last, o.Site)
		}
		first, last = o.Site, o.Site
	}
	dir, err := os.MkdirTemp(o.Dir, "landfall-scenario-")
	if err != nil {
		return nil, fmt.Errorf("create a directory for the sites' stores: %w", err)
	}
	p := &execution{scenario: &scenario, options: o, dir: dir, next: first, last: last, of: last - first + 1}
	p.report = &Report{Name: scenario.Name, Days: scenario.Days, Kinds: make(map[string]*Stats), Total: newStats("")}
	p.report.Total.Sites = 0
	began := o.Now()
	p.run(ctx)
	p.report.Took = o.Now().Sub(began)
	return p.report, errors.Join(p.failure, os.RemoveAll(dir))
}

// execution is the state of a run.
type execution struct {
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

func (p *execution) run(ctx context.Context) {
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

// take returns the number of the next site. It returns false after a failure.
func (p *execution) take() (int, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure != nil || p.next > p.last {
		return 0, false
	}
	p.next++
	return p.next - 1, true
}

func (p *execution) ended(number int, stats *Stats, err error) {
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

// site runs one site to its end.
func (p *execution) site(ctx context.Context, number int) (_ *Stats, err error) {
	dir := filepath.Join(p.dir, fmt.Sprint(number))
	s, err := newSite(ctx, p.scenario, number, dir, config.Default().Limits)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close(), os.RemoveAll(dir), os.RemoveAll(dir+hostedSuffix)) }()
	s.run(s.began.AddDate(0, 0, p.scenario.Days))
	return s.sum(), s.errorAt()
}

// sum completes the statistics of the site.
func (s *site) sum() *Stats {
	s.stats.Checks, s.stats.StoreBytes = s.auditor.Checked(), s.size()
	s.stats.LargestStore = s.stats.StoreBytes
	if s.db != nil {
		s.stats.Changes = s.db.Revision()
	}
	if s.hosted != nil {
		s.stats.Checks += s.hosted.checks
	}
	if s.up {
		page, err := s.engine.Events(event.Filter{Limit: 1})
		s.fail(err)
		if err == nil {
			s.stats.Events = page.Total
		}
	}
	return s.stats
}
