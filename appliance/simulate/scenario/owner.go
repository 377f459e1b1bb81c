package scenario

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine"
	"landfall/appliance/engine/audit"
	"landfall/appliance/simulate"
)

// owner is the user who installs one cluster after another on the same machines of a site.
type owner struct {
	site       *site
	index      int
	machineSet *simulate.MachineSet
	machines   []*machine

	cluster, env string    // the current cluster and infra-env, or ""
	built        int       // number of clusters
	attempt      int       // number of installation starts
	pressed      bool      // an installation was started, and its result is not recorded yet
	needsRepair  bool      // a preparation failed, and the owner has not checked the reason yet
	takesHosts   bool      // the cluster accepts more hosts
	finalizing   bool      // the controller is working
	fault        string    // fault of the current installation
	since        time.Time // time of the owner's last action for the cluster
	gatherAt     time.Time // time at which the owner begins to prepare the hosts
	addAt        time.Time // time at which the cluster is opened for more hosts
	rebuildAt    time.Time // time at which the cluster is deleted
}

// Delays of users.
const (
	// before the owner checks the machines of a cluster that is not ready
	notReadyTime        = 45 * time.Minute
	giveUpTime          = 4 * 24 * time.Hour
	idleTime            = 12 * time.Hour // before the owner powers an unused machine off
	installationTimeout = 26 * time.Hour // an installation ends within a day
)

func newOwner(s *site, index int, machineSet *simulate.MachineSet) (*owner, error) {
	owner := &owner{site: s, index: index, machineSet: machineSet}
	count := int(s.kind.Topology) + s.kind.Workers
	for number := 1; number <= count+s.kind.Spares; number++ {
		hw, err := machineSet.Machine(number)
		if err != nil {
			return nil, err
		}
		owner.machines = append(owner.machines, &machine{owner: owner, number: number, hw: hw, power: off,
			spare: number > count, sent: make(map[models.StepType]string), pollEvery: time.Minute})
	}
	return owner, nil
}

// begin schedules the owner's first check within the first day.
func (s *owner) begin() {
	if !s.site.kind.People.Absent {
		s.site.after(time.Duration(s.site.rng.Int64N(int64(12*time.Hour))), s.check)
	}
}

// faultOf returns the fault of a cluster's installation as a whole.
func (s *site) faultOf(cluster string) string {
	for _, owner := range s.owners {
		if owner.cluster == cluster {
			return owner.fault
		}
	}
	return ""
}

func (s *owner) now() time.Time { return s.site.clock.realTime() }

// try sends a request of the owner to the appliance. The owner accepts a rejection.
func (s *owner) try(subject string, request func(*engine.Engine) error) bool {
	err := s.site.call(subject, request)
	if err != nil && err != errDown {
		s.site.stats.count("rejected requests")
	}
	return err == nil
}

// check reads the page, does what the cluster needs, and schedules the next check.
func (s *owner) check() {
	wait := s.site.about(s.site.kind.People.Think)
	if s.site.up {
		if s.cluster == "" {
			s.create()
		} else if until := s.handleCluster(); !until.IsZero() {
			wait = max(wait, until.Sub(s.now()))
		}
	}
	s.site.after(wait, s.check)
}

// create creates a cluster and powers its machines on.
func (s *owner) create() {
	kind, ctx := s.site.kind, s.site.ctx
	s.built++
	params := &models.ClusterCreateParams{
		Name: conv.Pointer(fmt.Sprintf("%s-%d-%d", s.site.name, s.index+1, s.built)), BaseDNSDomain: "site.test",
		OpenshiftVersion: conv.Pointer(version),
		PullSecret:       conv.Pointer(pullSecret), ControlPlaneCount: conv.Pointer[int64](int64(kind.Topology)),
	}
	if kind.Topology > 1 {
		params.APIVips = []*models.APIVip{{IP: "192.168.100.4"}}
		params.IngressVips = []*models.IngressVip{{IP: "192.168.100.5"}}
	}
	var cluster *models.Cluster
	if !s.try("a new cluster", func(e *engine.Engine) (err error) {
		cluster, err = e.RegisterCluster(ctx,
			params)
		return err
	}) {
		return
	}
	s.cluster, s.since, s.gatherAt, s.takesHosts, s.pressed, s.finalizing = cluster.ID.String(), s.now(), s.now(),
		false, false, false
	s.site.stats.Clusters++
	if s.env == "" && !s.makeInfraEnv(cluster.ID) {
		return
	}
	for _, m := range s.machines {
		if !m.spare {
			s.start(m)
		}
	}
}

// makeInfraEnv creates the infra-env of the machines' image: one for this cluster, or one for all
// later clusters.
func (s *owner) makeInfraEnv(cluster *strfmt.UUID) bool {
	if s.site.kind.Binding == late {
		cluster = nil
	}
	return s.try("a new infra-env", func(e *engine.Engine) error {
		env, err := e.RegisterInfraEnv(s.site.ctx, &models.InfraEnvCreateParams{
			Name: conv.Pointer(fmt.Sprintf("%s-%d-%d", s.site.name, s.index+1, s.built)), ClusterID: cluster,
			PullSecret: conv.Pointer(pullSecret), OpenshiftVersion: version,
		})
		if err != nil {
			return err
		}
		s.env = env.ID.String()
		return s.site.stepper.Freeze(s.site.ctx)
	})
}

// start selects a machine's faults at random and boots the machine from the image.
func (s *owner) start(m *machine) {
	s.afflict(m)
	m.boot(s.env)
}

func (s *owner) afflict(m *machine) {
	var faults simulate.Faults
	shares := s.site.kind.Faults.Hosts
	m.loses, m.misbooted = false, false
	for _, name := range slices.Sorted(maps.Keys(shares)) {
		if !s.site.chance(shares[name]) {
			continue
		}
		if name == PowerLoss {
			m.loses = true
			continue
		}
		fault, err := simulate.ParseFaults(name)
		s.site.fail(err)
		faults = append(faults, fault...)
	}
	s.setFaults(m, faults)
}

func (s *owner) setFaults(m *machine, faults simulate.Faults) {
	for range faults {
		s.site.stats.count("faults of machines")
	}
	s.site.fail(m.hw.SetFaults(faults))
	m.polled = nil
}

// handleCluster does what the cluster needs. It returns the time of the next check; zero means
// soon.
func (s *owner) handleCluster() (until time.Time) {
	var cluster *models.Cluster
	if !s.try("a check of "+s.cluster, func(e *engine.Engine) (err error) {
		cluster,
			err = e.Cluster(s.cluster)
		return err
	}) {
		return time.Time{}
	}
	s.record(cluster)
	switch status := *cluster.Status; status {
	case models.ClusterStatusPendingForInput, models.ClusterStatusInsufficient, models.ClusterStatusReady:
		s.gather(cluster)
	case models.ClusterStatusInstallingPendingUserAction:
		s.correctBootOrder(cluster)
	case models.ClusterStatusError, models.ClusterStatusCancelled:
		s.recover(cluster)
	case models.ClusterStatusInstalled, models.ClusterStatusAddingHosts:
		return s.runInstalled(cluster)
	default:
		if time.Duration(s.now().Sub(s.since)) > installationTimeout+giveUpTime {
			s.site.fail(&audit.Violation{Invariant: audit.Exit, Objects: []string{s.cluster},
				Found: "it has been " + status + " for days"})
		}
	}
	return time.Time{}
}

// record records the result of an installation.
func (s *owner) record(cluster *models.Cluster) {
	if !s.pressed {
		return
	}
	stats := s.site.stats
	switch *cluster.Status {
	case models.ClusterStatusInstalled:
		stats.installed(time.Time(cluster.InstallCompletedAt).Sub(time.Time(cluster.InstallStartedAt)))
		people := s.site.kind.People
		s.rebuildAt, s.addAt = s.planned(people.Rebuild), s.planned(people.AddHosts)
	case models.ClusterStatusError:
		stats.failed(*cluster.StatusInfo)
	case models.ClusterStatusCancelled:
		stats.count("cancelled")
	case models.ClusterStatusReady, models.ClusterStatusInsufficient, models.ClusterStatusPendingForInput:
		stats.failed(cluster.LastInstallationPreparation.Reason)
		s.needsRepair = true
	default:
		return
	}
	s.pressed, s.since, s.gatherAt = false, s.now(), s.now()
}

func (s *owner) planned(mean Span) time.Time {
	if mean == 0 {
		return time.Time{}
	}
	return s.now().Add(s.site.about(mean))
}

// gather binds the hosts and starts the installation when all hosts are ready.
func (s *owner) gather(cluster *models.Cluster) {
	if s.site.kind.Binding == late {
		s.bind(func(m *machine) bool { return !m.spare })
	}
	wanted := int(s.site.kind.Topology) + s.site.kind.Workers
	if s.needsRepair {
		s.needsRepair = false
		s.repairPreparation()
		return
	}
	if *cluster.Status == models.ClusterStatusReady && len(cluster.Hosts) == wanted {
		s.install()
		return
	}
	if s.now().Sub(s.gatherAt) > giveUpTime {
		s.site.stats.count("clusters given up")
		s.remove()
		return
	}
	if s.now().Sub(s.since) > notReadyTime {
		s.repair(cluster.Hosts, 70)
	}
}

// bind binds the waiting hosts to the cluster.
func (s *owner) bind(which func(*machine) bool) {
	for _, m := range s.machines {
		if !which(m) || m.power != onImage {
			continue
		}
		if status := s.statusOf(m); status == models.HostStatusKnownUnbound {
			s.try("the binding of "+m.hw.ID(), func(e *engine.Engine) error {
				_, err := e.BindHost(s.site.ctx, s.env, m.hw.ID(), s.cluster)
				return err
			})
		}
	}
}

// statusOf returns a machine's status on the page, or "".
func (s *owner) statusOf(m *machine) (status string) {
	err := s.site.call("a check of "+m.hw.ID(), func(e *engine.Engine) error {
		host, err := e.Host(s.env, m.hw.ID())
		if err == nil {
			status = *host.Status
		}
		return err
	})
	if err != nil {
		return ""
	}
	return status
}

func (s *owner) install() {
	if !s.try("the installation of "+s.cluster, func(e *engine.Engine) error {
		_,
			err := e.InstallCluster(s.site.ctx, s.cluster)
		return err
	}) {
		return
	}
	s.site.stats.Installations++
	s.attempt++
	s.pressed, s.finalizing, s.since, s.fault = true, false, s.now(), s.selectFault()
	attempt := s.attempt
	if s.site.chance(s.site.kind.People.Cancel) {
		s.site.after(time.Duration(s.site.rng.Int64N(int64(time.Hour))), func() {
			if s.attempt == attempt {
				s.cancel()
			}
		})
	}
}

// selectFault selects the fault of an installation as a whole at random.
func (s *owner) selectFault() string {
	shares := s.site.kind.Faults.Clusters
	for _, name := range slices.Sorted(maps.Keys(shares)) {
		if s.site.chance(shares[name]) {
			s.site.stats.count("faults of installations")
			return name
		}
	}
	return ""
}

func (s *owner) cancel() {
	s.try("the cancellation of "+s.cluster, func(e *engine.Engine) error {
		_, err := e.CancelInstallation(s.site.ctx, s.cluster)
		return err
	})
}

// repair repairs the machines that are not in the expected state, if possible.
func (s *owner) repair(hosts []*models.Host, share Percent) {

	fine := make(map[string]bool)
	for _, h := range hosts {
		fine[h.ID.String()] = slices.Contains([]string{models.HostStatusKnown, models.HostStatusDiscovering,
			models.HostStatusPendingForInput, models.HostStatusBinding}, *h.Status)
	}
	for _, m := range s.machines {
		if m.spare || m.power == booting || fine[m.hw.ID()] && m.power == onImage {
			continue
		}
		if s.site.chance(share) {
			s.site.stats.count("repairs")
			s.setFaults(m, nil)
			m.boot(s.env)
		}
	}
	s.setClock()
	s.since = s.now()
}

// setClock corrects the appliance's clock after the page reports that the clocks of all hosts are
// wrong by the same time.
func (s *owner) setClock() {
	if wrong := s.site.clock.wrong; wrong > time.Minute || wrong < -time.Minute {
		s.site.jump(-wrong)
	}
}

// repairPreparation reads why the preparation of an installation failed and repairs the affected
// machines.
func (s *owner) repairPreparation() {
	for _, m := range s.machines {
		if !m.spare && m.power == onImage && m.hw.Faulty() {
			s.site.stats.count("repairs")
			s.setFaults(m, nil)
			m.boot(s.env)
		}
	}
}

// correctBootOrder makes machines boot from their disks.
func (s *owner) correctBootOrder(cluster *models.Cluster) {
	for _, h := range cluster.Hosts {
		if *h.Status != models.HostStatusInstallingPendingUserAction {
			continue
		}
		if m := s.machine(h.ID.String()); m != nil && (m.power == onImage || m.power == frozen) {
			installation := m.installed(h)
			m.bootDisk()
			m.installation = installation
		}
	}
}

func (s *owner) machine(id string) *machine {
	for _, m := range s.machines {
		if m.hw.ID() == id {
			return m
		}
	}
	return nil
}

// installed returns the installation on the disk of a machine that did not boot from that disk.
func (m *machine) installed(h *models.Host) *installation {
	return &installation{reached: models.HostStageRebooting, joins: m.owner.takesHosts,
		Installation: simulate.Installation{
			Cluster: m.owner.cluster, HostID: m.hw.ID(), Role: h.Role, Single: m.owner.site.kind.Topology == 1,
		}}
}

// recover continues after a failed or cancelled installation.
func (s *owner) recover(cluster *models.Cluster) {
	if s.now().Sub(s.since) < 20*time.Minute {
		return // the logs are not complete yet
	}
	if s.site.chance(s.site.kind.People.Delete) {
		s.remove()
		return
	}
	s.reset()
}

func (s *owner) reset() {
	if !s.try("the reset of "+s.cluster, func(e *engine.Engine) error {
		_, err := e.ResetCluster(s.site.ctx,
			s.cluster)
		return err
	}) {
		return
	}
	s.since, s.gatherAt, s.pressed, s.finalizing = s.now(), s.now(), false, false
	s.attempt++
	for _, m := range s.machines {
		if !m.spare {
			s.start(m)
		}
	}
}

// remove deletes the cluster. Its machines are powered off or return to the pool.
func (s *owner) remove() {
	ctx := s.site.ctx
	if s.site.kind.Binding == late && s.site.rng.IntN(2) == 0 {
		for _, m := range s.machines {
			s.release(m)
		}
	}
	if !s.try("the deletion of "+s.cluster, func(e *engine.Engine) error {
		return e.DeregisterCluster(ctx,
			s.cluster, false)
	}) {
		return
	}
	if s.site.kind.Binding == early {
		s.env = "" // the cluster's own infra-env is deleted with it
	}
	for _, m := range s.machines {
		if s.site.kind.Binding == early && s.site.rng.IntN(4) > 0 {
			m.powerOff() // a machine that is on would continue to send requests
		}
	}
	s.cluster, s.attempt, s.pressed, s.finalizing, s.takesHosts = "", s.attempt+1, false, false, false
}

// release unbinds a machine from the cluster. A reclaimed machine registers again by itself.
func (s *owner) release(m *machine) {
	ctx, id := s.site.ctx, m.hw.ID()
	reclaims := s.site.chance(s.site.kind.People.Reclaim)
	reclaimed := s.try("the reclaiming of "+id, func(e *engine.Engine) (err error) {
		if reclaims {
			_, err = e.ReclaimHost(ctx, s.env, id)
		} else {
			_, err = e.UnbindHost(ctx, s.env, id)
		}
		return err
	})
	s.site.after(s.site.roughly(idleTime), func() {
		if status := s.statusOf(m); m.spare && !s.takesHosts && (status == models.HostStatusKnownUnbound ||
			status == models.HostStatusDisconnectedUnbound) {
			m.powerOff() // the machine is not needed before the next cluster
		}
	})
	switch {
	case !reclaimed:
	case reclaims && m.power == onDisk:
		m.setPower(onImage) // an agent still runs in the cluster
		m.installation = nil
		m.poll()
	case m.power == onDisk || m.power == off:
		m.boot(s.env)
	}
}

// runInstalled handles an installed cluster. It returns the time of the next check.
func (s *owner) runInstalled(cluster *models.Cluster) time.Time {
	now := s.now()
	switch {
	case !s.rebuildAt.IsZero() && !now.Before(s.rebuildAt):
		s.rebuildAt = time.Time{}
		s.remove()
		return time.Time{}
	case !s.addAt.IsZero() && !now.Before(s.addAt) && s.site.kind.Spares > 0:
		s.addAt = time.Time{}
		s.addHosts()
		return time.Time{}
	case s.takesHosts && s.join(cluster):
		return time.Time{}
	}
	next := s.rebuildAt
	if next.IsZero() || !s.addAt.IsZero() && s.addAt.Before(next) {
		next = s.addAt
	}
	if next.IsZero() {
		next = now.Add(30 * 24 * time.Hour)
	}
	return next
}

// addHosts opens the cluster for more hosts and powers the spare machines on.
func (s *owner) addHosts() {
	if !s.try("the opening of "+s.cluster, func(e *engine.Engine) error {
		_, err := e.AllowAddHosts(s.site.ctx,
			s.cluster)
		return err
	}) {
		return
	}
	s.takesHosts, s.since = true, s.now()
	for _, m := range s.machines {
		if m.spare {
			s.start(m)
		}
	}
}

// join installs the hosts that are ready to join. It reports whether more hosts are expected.
func (s *owner) join(cluster *models.Cluster) bool {
	if s.site.kind.Binding == late {
		s.bind(func(m *machine) bool { return m.spare })
	}
	added, waiting := 0, s.now().Sub(s.since) < giveUpTime
	for _, h := range cluster.Hosts {
		m := s.machine(h.ID.String())
		if m == nil || !m.spare {
			continue
		}
		switch *h.Status {
		case models.HostStatusAddedToExistingCluster:
			added++
		case models.HostStatusKnown:
			if s.try("the day-2 installation of "+h.ID.String(), func(e *engine.Engine) error {
				_,
					err := e.InstallHost(s.site.ctx, s.env, h.ID.String())
				return err
			}) {
				s.site.stats.count("day-2 hosts installed")
			}
		case models.HostStatusInstallingPendingUserAction:
			installation := m.installed(h)
			m.bootDisk()
			m.installation = installation
		case models.HostStatusError, models.HostStatusDisconnected, models.HostStatusInsufficient:
			if waiting && m.power != booting && s.site.rng.IntN(4) == 0 {
				s.try("the deletion of "+h.ID.String(),
					func(e *engine.Engine) error { return e.DeregisterHost(s.site.ctx, s.env, h.ID.String()) })
				s.setClock()
				s.setFaults(m, nil)
				m.boot(s.env)
			}
		}
	}
	if added == s.site.kind.Spares {
		s.site.stats.Joined += added
		s.endDay2(cluster)
		return false
	}
	if !waiting {
		for _, m := range s.machines {
			if m.spare && m.power != onDisk {
				m.powerOff()
			}
		}
	}
	return waiting
}

// handleDay2 installs the hosts that are ready to join.
func (s *owner) handleDay2() {
	var cluster *models.Cluster
	if s.try("a check of "+s.cluster, func(e *engine.Engine) (err error) {
		cluster,
			err = e.Cluster(s.cluster)
		return err
	}) {
		s.join(cluster)
	}
}

// endDay2 ends day 2. Some clusters release a machine.
func (s *owner) endDay2(*models.Cluster) {
	s.takesHosts = false
	if s.site.kind.Binding != late {
		return
	}
	for _, m := range s.machines {
		if m.spare && s.site.rng.IntN(2) == 0 {
			s.release(m)
		}
	}
}

// perform executes an act of the script.
func (s *owner) perform(act Act) {
	ctx := s.site.ctx
	chosen := func(do func(*machine)) {
		for _, m := range s.machines {
			if m.number == act.Host || act.Host == 0 {
				do(m)
			}
		}
	}
	switch act.Do {
	case doCreate:
		s.create()
	case doInstall:
		s.install()
	case doCancel:
		s.cancel()
	case doReset:
		s.reset()
	case doDelete:
		s.remove()
	case doAddHosts:
		s.addHosts()
	case doBoot:
		chosen(func(m *machine) { m.boot(s.env) })
	case doPowerOff:
		chosen((*machine).powerOff)
	case doBind:
		s.bind(func(m *machine) bool { return m.number == act.Host || act.Host == 0 })
	case doJoin:
		s.handleDay2()
	case doUnbind:
		chosen(func(m *machine) {
			s.try("the reclaiming of "+m.hw.ID(), func(e *engine.Engine) error {
				_, err := e.UnbindHost(ctx, s.env,
					m.hw.ID())
				return err
			})
		})
	case doFault:
		faults, err := simulate.ParseFaults(act.Fault)
		s.site.fail(err)
		chosen(func(m *machine) { s.setFaults(m, faults) })
	}
}
