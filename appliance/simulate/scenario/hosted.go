package scenario

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"landfall/appliance/engine/audit"
	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/cloudevent"
	"landfall/appliance/hosted/controlplane"
	"landfall/appliance/hosted/maestro"
	"landfall/appliance/hosted/provider"
	"landfall/appliance/hosted/record"
	"landfall/appliance/simulate/hypershift"
	"landfall/appliance/simulate/workagent"
	"landfall/store"
)

// Hosted describes the hosted clusters of a site, whose control planes run on management clusters
// behind a line. Times are means. If a key is missing, it does not happen.
type Hosted struct {
	Management int    `yaml:"management_clusters"` // 0: the site has no hosted clusters
	Clusters   int    `yaml:"clusters"`            // the most that people keep at the same time
	Create     Span   `yaml:"create"`              // between two creations
	Scale      Span   `yaml:"scale"`               // between two changes of a node pool
	Delete     Span   `yaml:"delete"`              // between two deletions
	Decide     Span   `yaml:"decide"`              // until a person decides about what is held; default 2h
	Line       Outage `yaml:"line"`                // a line is cut
	Restart    Span   `yaml:"agent_restart"`       // between two restarts of an agent, which then knows nothing
	Clock      Jump   `yaml:"agent_clock"`         // the clock of a management cluster jumps
	Backup     Span   `yaml:"backup"`              // between two backups of the appliance's hosted clusters
	Restore    Span   `yaml:"restore"`             // between two restores of an older backup
}

// hosted are the hosted clusters of a site. They have a store of their own, so that a restore does
// not touch the machines of the site.
type hosted struct {
	site     *site
	dir      string
	identity int // counts the directories that the store was in
	db       *store.DB
	provider *provider.Service
	maestro  *maestro.Service
	clusters []*managementCluster
	backups  []backup
	created  int
	// asked are the hosted clusters that a person deleted.
	asked  map[string]bool
	names  map[string]string // of the hosted clusters by their IDs
	checks int               // number of checks of the deletions
}

// backup is a copy of the store.
type backup struct {
	at  time.Time
	dir string
}

// managementCluster is a management cluster with its agent and the line to it.
type managementCluster struct {
	name    string
	cluster *workagent.Cluster
	agent   *workagent.Agent
	wrong   time.Duration // error of the clock
	cut     bool          // the line
	steps   *maestro.Steps
	left    time.Duration // greatest error that the clock had
}

const (
	// pollInterval is longer than that of a real agent, because each poll costs time. After a
	// request there is one more, when the operator has worked for workTime.
	pollInterval = 2 * time.Hour
	workTime     = time.Minute
	// grace is the time after which an agent removes what it does not know, as in the manifests of
	// the appliance.
	grace = 876000 * time.Hour
	// keptBackups is the number of backups that a site keeps.
	keptBackups = 8
)

// hostedSuffix follows the directory of a site in that of its hosted clusters.
const hostedSuffix = "-hosted"

// newHosted returns the hosted clusters of a site, or nil if it has none.
func newHosted(s *site) (*hosted, error) {
	kind := s.kind.Hosted
	if kind.Management == 0 {
		return nil, nil
	}
	h := &hosted{site: s, dir: s.dir + hostedSuffix, asked: map[string]bool{}, names: map[string]string{}}
	if err := os.Mkdir(h.dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the directory of the hosted clusters: %w", err)
	}
	if err := h.open(); err != nil {
		return nil, err
	}
	for i := range kind.Management {
		operator, err := hypershift.New(1 << 20)
		if err != nil {
			return nil, errors.Join(err, h.close())
		}
		m := &managementCluster{name: fmt.Sprintf("mc%d", i+1), cluster: workagent.NewCluster(operator)}
		m.agent = h.newAgent(m)
		layout := controlplane.Flat
		if i%2 == 1 {
			layout = controlplane.Nested
		}
		if _, err := h.provider.AddManagement(s.ctx, record.Management{Consumer: m.name, Layout: layout,
			BaseDomain: m.name + ".site.test", Address: "192.168.100.9", Profiles: []string{"large"}}); err != nil {
			return nil, errors.Join(err, h.close())
		}
		h.clusters = append(h.clusters, m)
	}
	return h, nil
}

func (h *hosted) newAgent(m *managementCluster) *workagent.Agent {
	return workagent.NewAgent(m.name, m.cluster, h.site.clock.FakeClock, m.wrong)
}

// Releases implements provider.Site.
func (*hosted) Releases() []provider.Release {
	return []provider.Release{{Version: version, Image: "registry.site.test:5000/openshift/release:" + version +
		"-x86_64", Default: true}}
}

// HostedSite implements provider.Site.
func (*hosted) HostedSite() (controlplane.Site, error) {
	return controlplane.Site{PullSecret: pullSecret}, nil
}

// open starts a process of the appliance with the data of an earlier process.
func (h *hosted) open() (err error) {
	clock := h.site.clock
	if h.db, err = store.Open(h.site.ctx, filepath.Join(h.dir, fmt.Sprint(h.identity)), store.Options{Clock: clock,
		NoSync: true, Floor: uint64(clock.Now().UnixMicro())}); err != nil {
		return err
	}
	quiet := slog.New(slog.DiscardHandler)
	h.maestro, err = maestro.New(h.site.ctx, maestro.Options{DB: h.db, Clock: clock,
		Identity: fmt.Sprint("store ", h.identity)})
	if err == nil {
		h.provider, err = provider.Open(h.site.ctx, provider.Options{DB: h.db, Site: h, Clock: clock, Logger: quiet,
			Connected: func(consumer string) bool {
				return slices.ContainsFunc(h.clusters, func(m *managementCluster) bool {
					return m.name == consumer && m.steps != nil
				})
			}})
	}
	if err != nil {
		return errors.Join(err, h.db.Close())
	}
	return nil
}

// close ends the process. Messages on their way are lost.
func (h *hosted) close() error {
	if h == nil || h.db == nil {
		return nil
	}
	for _, m := range h.clusters {
		m.hangUp()
	}
	db := h.db
	h.db = nil
	return db.Close()
}

func (m *managementCluster) hangUp() {
	if m.steps != nil {
		m.steps.End()
		m.steps = nil
	}
}

// begin schedules the recurring events.
func (h *hosted) begin() {
	s, kind := h.site, &h.site.kind.Hosted
	any := func() *managementCluster { return h.clusters[s.rng.IntN(len(h.clusters))] }
	s.every(kind.Create, func() {
		if len(h.wanted()) < kind.Clusters {
			h.create("")
		}
	})
	s.every(kind.Scale, func() { h.scale("", 0) })
	s.every(kind.Delete, func() { h.remove("") })
	s.every(kind.Line.Every, func() { h.cutLine(any(), s.about(kind.Line.For)) })
	s.every(kind.Restart, func() { h.restartAgent(any()) })
	s.every(kind.Clock.Every, func() {
		m := any()
		h.jump(m, time.Duration(float64(kind.Clock.By)*(2*s.rng.Float64()-1))-m.wrong)
	})
	s.every(kind.Backup, h.backup)
	s.every(kind.Restore, func() { h.restore(time.Duration(s.rng.Int64N(int64(10 * 24 * time.Hour)))) })
	s.every(kind.Decide, h.decide)
	h.pollRegularly()
}

func (h *hosted) pollRegularly() {
	h.site.after(pollInterval, func() {
		h.exchange(true)
		h.pollRegularly()
	})
}

// up reports whether the appliance is on.
func (h *hosted) up() bool { return h.site.up && h.db != nil }

// exchange passes messages on between the appliance and each management cluster until both sides
// are silent. With poll, the agents look for changed statuses first.
func (h *hosted) exchange(poll bool) {
	if !h.up() {
		return
	}
	h.provider.Settle(h.site.ctx)
	for range 20 {
		busy := false
		for _, m := range h.clusters {
			found, err := h.pass(m, poll)
			if h.site.fail(err); err != nil {
				return
			}
			busy = busy || found
		}
		poll = false
		if !busy {
			h.site.fail(h.check())
			return
		}
		h.provider.Settle(h.site.ctx)
	}
	h.site.fail(h.violation("both sides come to rest", "they exchange messages without an end"))
}

// pass passes messages on between the appliance and a management cluster once. It reports whether
// there were any.
func (h *hosted) pass(m *managementCluster, poll bool) (busy bool, err error) {
	ctx := h.site.ctx
	if m.cut {
		m.hangUp()
		return false, nil
	}
	receive := func(messages []cloudevent.Message) {
		busy = busy || len(messages) > 0
		if m.steps != nil {
			err = errors.Join(append([]error{err}, m.steps.Receive(ctx, messages...)...)...)
		}
	}
	if m.steps == nil {
		m.steps = h.maestro.Step(m.name)
		receive([]cloudevent.Message{m.agent.Hello()})
	}
	if poll {
		m.steps.Probe()
		receive(m.agent.Poll(grace))
	}
	messages, sendErr := m.steps.Send(ctx)
	if sendErr != nil {
		return busy, errors.Join(err, sendErr)
	}
	for _, message := range messages {
		busy = true
		receive(m.agent.Handle(message))
	}
	return busy, err
}

// check compares the deleted HostedClusters with those that a person deleted.
func (h *hosted) check() error {
	h.checks++
	for _, m := range h.clusters {
		for _, ref := range m.cluster.Deleted("HostedCluster") {
			if !h.asked[ref.Name] {
				return h.violation("no hosted cluster is deleted that nobody deleted", ref.String()+" was deleted on "+
					m.name)
			}
		}
	}
	return nil
}

func (h *hosted) violation(invariant, found string) error {
	return &audit.Violation{Invariant: invariant, Objects: []string{"hosted clusters"}, Found: found}
}

// cutLine cuts the line to a management cluster for some time.
func (h *hosted) cutLine(m *managementCluster, length time.Duration) {
	if m.cut {
		return
	}
	h.site.stats.count("cut lines")
	m.cut = true
	m.hangUp()
	h.site.after(length, func() {
		m.cut = false
		h.exchange(true)
	})
}

// restartAgent replaces an agent by one that knows nothing. Its cluster stays.
func (h *hosted) restartAgent(m *managementCluster) {
	h.site.stats.count("restarts of agents")
	m.hangUp()
	m.agent = h.newAgent(m)
	h.exchange(true)
}

// jump changes the clock of a management cluster.
func (h *hosted) jump(m *managementCluster, by time.Duration) {
	h.site.stats.count("clock jumps of management clusters")
	m.wrong += by
	m.left = max(m.left, m.wrong)
	m.agent.WithClockError(m.wrong)
	h.exchange(true)
}

// backup copies the store of the stopped appliance.
func (h *hosted) backup() {
	if !h.up() {
		return
	}
	h.site.stats.count("backups")
	b := backup{at: h.site.clock.realTime(), dir: filepath.Join(h.dir, fmt.Sprintf("backup-%d", len(h.backups)))}
	if len(h.backups) >= keptBackups {
		b.dir = h.backups[0].dir
		h.backups = h.backups[1:]
	}
	err := h.close()
	err = errors.Join(err, os.RemoveAll(b.dir), os.CopyFS(b.dir, os.DirFS(h.place())), h.open())
	h.backups = append(h.backups, b)
	h.site.fail(err)
}

func (h *hosted) place() string { return filepath.Join(h.dir, fmt.Sprint(h.identity)) }

// restore replaces the store by the newest backup of at least an age, in a new directory.
func (h *hosted) restore(age time.Duration) {
	at := h.site.clock.realTime().Add(-age)
	for _, b := range slices.Backward(h.backups) {
		if b.at.After(at) || !h.up() {
			continue
		}
		h.site.stats.count("restores of older backups")
		err := h.close()
		old := h.place()
		h.identity++
		h.site.fail(errors.Join(err, os.CopyFS(h.place(), os.DirFS(b.dir)), os.RemoveAll(old), h.open()))
		h.exchange(true)
		return
	}
}

// perform executes an act of the script. One without a name is about all management clusters.
func (h *hosted) perform(act Act) {
	length := time.Duration(act.For)
	switch act.Do {
	case doCreateHosted:
		h.create(act.Name)
	case doScaleHosted:
		h.scale(act.Name, act.Nodes)
	case doDeleteHosted:
		h.remove(act.Name)
	case doExpectHosted:
		h.site.fail(h.expect(act.Name, act.State))
	case doBackup:
		h.backup()
	case doRestore:
		h.restore(length)
	case doDecide:
		h.decide()
	default:
		for _, m := range h.clusters {
			switch act.Do {
			case doCutLine:
				h.cutLine(m, length)
			case doRestartAgent:
				h.restartAgent(m)
			case doAgentClockJump:
				h.jump(m, length)
			case doAgentClockBack:
				h.jump(m, -length)
			}
		}
	}
}

// expect checks the state of a hosted cluster; "gone" if it does not exist.
func (h *hosted) expect(name, state string) error {
	if !h.up() {
		return h.violation("an expectation is met", "the appliance is off")
	}
	h.exchange(true)
	id, err := h.id(name)
	if err != nil {
		return err
	}
	found := gone
	if err := h.db.View(func(tx *store.Tx) error {
		c, err := record.FindCluster(tx, id)
		if err == nil && c != nil {
			found = c.State
		}
		return err
	}); err != nil {
		return err
	}
	if found != state {
		return h.violation("an expectation is met", fmt.Sprintf("%s is %s, expected %s", name, found, state))
	}
	return nil
}

// gone is the state of a hosted cluster that does not exist.
const gone = "gone"

// finish brings both sides to rest, with whole lines, right clocks and all decisions made, and
// compares them.
func (h *hosted) finish() error {
	if h.db == nil {
		if err := h.open(); err != nil {
			return err
		}
	}
	h.site.up = true
	for _, m := range h.clusters {
		m.cut = false
		// A clock that was ahead counts as right when the time has come that it had shown.
		m.wrong = m.left + time.Hour
		m.agent.WithClockError(m.wrong)
	}
	for range 20 {
		h.exchange(true)
		h.decide()
	}
	if h.site.fault != nil {
		return nil
	}
	return h.db.View(func(tx *store.Tx) error {
		for _, m := range h.clusters {
			if err := h.compare(tx, m); err != nil {
				return err
			}
		}
		return nil
	})
}

// compare compares the rows with a management cluster.
func (h *hosted) compare(tx *store.Tx, m *managementCluster) error {
	hold, err := maestro.GetHold(tx, m.name)
	if err != nil {
		return err
	}
	if hold != nil {
		return h.violation("both sides agree at the end", m.name+" is held: "+hold.Reason)
	}
	there, _ := m.cluster.HostedClusters()
	ignored := map[string]bool{}
	if err := maestro.EachFinding(tx, m.name, func(f *maestro.Finding) error {
		if f.Decision == maestro.Ignore {
			ignored[f.Labels[bundle.LabelCluster]] = true
		}
		return nil
	}); err != nil {
		return err
	}
	return record.EachCluster(tx, "", "", func(c *record.Cluster) error {
		if c.Consumer != m.name || ignored[c.CID] {
			return nil
		}
		switch {
		case c.State == record.Deleting:
			return h.violation("both sides agree at the end", c.ID.Cluster+" is still being deleted: "+c.Reason)
		case !slices.Contains(there, c.Prefix):
			return h.violation("both sides agree at the end", c.ID.Cluster+" does not exist on "+m.name)
		}
		return bundle.EachOfCluster(tx, c.CID, func(b *bundle.Bundle) error {
			status, err := bundle.GetStatus(tx, b.ID)
			if err == nil && (status == nil || status.ResourceVersion != b.Version) {
				err = h.violation("both sides agree at the end", b.Name+" has no report about its last version")
			}
			return err
		})
	})
}
