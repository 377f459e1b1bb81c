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

// slot is the place of a cluster at a site: the machines that stand there, and the people who make
// clusters of them, one after the other.
type slot struct {
	site     *site
	index    int
	rack     *simulate.MachineSet
	machines []*machine

	cluster, env string    // that there are now, "" for none
	built        int       // clusters so far
	attempt      int       // times that Install was pressed
	pressed      bool      // and what came of it is not seen yet
	mends        bool      // an installation could not be prepared, and nobody has looked why
	opened       bool      // the cluster takes more hosts
	finalizing   bool      // the controller is at work
	fault        string    // of the present installation
	since        time.Time // when somebody last did something about the cluster
	gathers      time.Time // from when its hosts are to be made ready
	addAt        time.Time // when the cluster is opened for more hosts
	rebuildAt    time.Time // when it is deleted
}

// How patient people are.
const (
	notReadyTime = 45 * time.Minute // before they look at the machines of a cluster that can't be installed
	giveUpTime   = 4 * 24 * time.Hour
	idleTime     = 12 * time.Hour // before somebody switches a machine off that nobody uses
	deadTime     = 26 * time.Hour // an installation ends within a day, one way or another
)

func newSlot(s *site, index int, rack *simulate.MachineSet) (*slot, error) {
	slot := &slot{site: s, index: index, rack: rack}
	count := int(s.kind.Topology) + s.kind.Workers
	for number := 1; number <= count+s.kind.Spares; number++ {
		hw, err := rack.Machine(number)
		if err != nil {
			return nil, err
		}
		slot.machines = append(slot.machines, &machine{slot: slot, number: number, hw: hw, power: off,
			spare: number > count, sent: make(map[models.StepType]string), pollEvery: time.Minute})
	}
	return slot, nil
}

// begin has the people come in the course of the first day.
func (s *slot) begin() {
	if !s.site.kind.People.Absent {
		s.site.after(time.Duration(s.site.rng.Int64N(int64(12*time.Hour))), s.look)
	}
}

// faultOf is the fault of the installation of a cluster as a whole.
func (s *site) faultOf(cluster string) string {
	for _, slot := range s.slots {
		if slot.cluster == cluster {
			return slot.fault
		}
	}
	return ""
}

func (s *slot) now() time.Time { return s.site.clock.trueTime() }

// try asks the appliance for something that people want; a refusal is theirs to live with.
func (s *slot) try(what string, request func(*engine.Engine) error) bool {
	err := s.site.ask(what, request)
	if err != nil && err != errDown {
		s.site.stats.count("refusals")
	}
	return err == nil
}

// look is a person who looks at the page, does what is to be done, and looks again later.
func (s *slot) look() {
	wait := s.site.about(s.site.kind.People.Think)
	if s.site.up {
		if s.cluster == "" {
			s.create()
		} else if until := s.attend(); !until.IsZero() {
			wait = max(wait, until.Sub(s.now()))
		}
	}
	s.site.after(wait, s.look)
}

// create makes a cluster, and switches its machines on.
func (s *slot) create() {
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
	s.cluster, s.since, s.gathers, s.opened, s.pressed, s.finalizing = cluster.ID.String(), s.now(), s.now(),
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

// makeInfraEnv makes the infra-env whose image the machines boot: one of the cluster, or one for
// all clusters to come.
func (s *slot) makeInfraEnv(cluster *strfmt.UUID) bool {
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

// start draws what is wrong with a machine this time and boots it from the image.
func (s *slot) start(m *machine) {
	s.afflict(m)
	m.boot(s.env)
}

func (s *slot) afflict(m *machine) {
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

func (s *slot) setFaults(m *machine, faults simulate.Faults) {
	for range faults {
		s.site.stats.count("faults of machines")
	}
	s.site.fail(m.hw.SetFaults(faults))
	m.polled = nil
}

// attend does what the cluster calls for, and returns when somebody needs to look again, zero for
// soon.
func (s *slot) attend() (until time.Time) {
	var cluster *models.Cluster
	if !s.try("a look at "+s.cluster, func(e *engine.Engine) (err error) {
		cluster,
			err = e.Cluster(s.cluster)
		return err
	}) {
		return time.Time{}
	}
	s.judge(cluster)
	switch status := *cluster.Status; status {
	case models.ClusterStatusPendingForInput, models.ClusterStatusInsufficient, models.ClusterStatusReady:
		s.gather(cluster)
	case models.ClusterStatusInstallingPendingUserAction:
		s.correctBootOrder(cluster)
	case models.ClusterStatusError, models.ClusterStatusCancelled:
		s.recover(cluster)
	case models.ClusterStatusInstalled, models.ClusterStatusAddingHosts:
		return s.live(cluster)
	default:
		if time.Duration(s.now().Sub(s.since)) > deadTime+giveUpTime {
			s.site.fail(&audit.Violation{Invariant: "no state is without an exit", Objects: []string{s.cluster},
				Found: "it has been " + status + " for days"})
		}
	}
	return time.Time{}
}

// judge takes down what came of an installation.
func (s *slot) judge(cluster *models.Cluster) {
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
		s.mends = true
	default:
		return
	}
	s.pressed, s.since, s.gathers = false, s.now(), s.now()
}

func (s *slot) planned(mean Span) time.Time {
	if mean == 0 {
		return time.Time{}
	}
	return s.now().Add(s.site.about(mean))
}

// gather brings the hosts together and presses Install when all are there.
func (s *slot) gather(cluster *models.Cluster) {
	if s.site.kind.Binding == late {
		s.bind(func(m *machine) bool { return !m.spare })
	}
	wanted := int(s.site.kind.Topology) + s.site.kind.Workers
	if s.mends {
		s.mends = false
		s.mend()
		return
	}
	if *cluster.Status == models.ClusterStatusReady && len(cluster.Hosts) == wanted {
		s.install()
		return
	}
	if s.now().Sub(s.gathers) > giveUpTime {
		s.site.stats.count("given up")
		s.remove()
		return
	}
	if s.now().Sub(s.since) > notReadyTime {
		s.repair(cluster.Hosts, 70)
	}
}

// bind gives the hosts that wait to the cluster.
func (s *slot) bind(which func(*machine) bool) {
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

// statusOf is a machine's status on the page, "" when it is not there.
func (s *slot) statusOf(m *machine) (status string) {
	err := s.site.ask("a look at "+m.hw.ID(), func(e *engine.Engine) error {
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

func (s *slot) install() {
	if !s.try("the installation of "+s.cluster, func(e *engine.Engine) error {
		_,
			err := e.InstallCluster(s.site.ctx, s.cluster)
		return err
	}) {
		return
	}
	s.site.stats.Installations++
	s.attempt++
	s.pressed, s.finalizing, s.since, s.fault = true, false, s.now(), s.draw()
	attempt := s.attempt
	if s.site.chance(s.site.kind.People.Cancel) {
		s.site.after(time.Duration(s.site.rng.Int64N(int64(time.Hour))), func() {
			if s.attempt == attempt {
				s.cancel()
			}
		})
	}
}

// draw chooses what goes wrong with an installation as a whole.
func (s *slot) draw() string {
	shares := s.site.kind.Faults.Clusters
	for _, name := range slices.Sorted(maps.Keys(shares)) {
		if s.site.chance(shares[name]) {
			s.site.stats.count("faults of installations")
			return name
		}
	}
	return ""
}

func (s *slot) cancel() {
	s.try("the cancelling of "+s.cluster, func(e *engine.Engine) error {
		_, err := e.CancelInstallation(s.site.ctx, s.cluster)
		return err
	})
}

// repair is somebody who goes to the machines that are not as they should be and mends what can be
// mended.
func (s *slot) repair(hosts []*models.Host, share Percent) {

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

// setClock is somebody who has read on the page that the clocks of hosts are wrong, all by the same
// time.
func (s *slot) setClock() {
	if wrong := s.site.clock.wrong; wrong > time.Minute || wrong < -time.Minute {
		s.site.jump(-wrong)
	}
}

// mend is somebody who reads why an installation could not be prepared and sees to the machines
// that are at fault.
func (s *slot) mend() {
	for _, m := range s.machines {
		if !m.spare && m.power == onImage && m.hw.Faulty() {
			s.site.stats.count("repairs")
			s.setFaults(m, nil)
			m.boot(s.env)
		}
	}
}

// correctBootOrder is somebody who has machines boot their disks.
func (s *slot) correctBootOrder(cluster *models.Cluster) {
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

func (s *slot) machine(id string) *machine {
	for _, m := range s.machines {
		if m.hw.ID() == id {
			return m
		}
	}
	return nil
}

// installed is the installation of a machine that has one on its disk, from which it booted not.
func (m *machine) installed(h *models.Host) *installation {
	return &installation{reached: models.HostStageRebooting, joins: m.slot.opened, Installation: simulate.Installation{
		Cluster: m.slot.cluster, HostID: m.hw.ID(), Role: h.Role, Single: m.slot.site.kind.Topology == 1,
	}}
}

// recover goes on after an installation that failed or was cancelled.
func (s *slot) recover(cluster *models.Cluster) {
	if s.now().Sub(s.since) < 20*time.Minute {
		return // the logs are on their way
	}
	if s.site.chance(s.site.kind.People.Delete) {
		s.remove()
		return
	}
	s.reset()
}

func (s *slot) reset() {
	if !s.try("the reset of "+s.cluster, func(e *engine.Engine) error {
		_, err := e.ResetCluster(s.site.ctx,
			s.cluster)
		return err
	}) {
		return
	}
	s.since, s.gathers, s.pressed, s.finalizing = s.now(), s.now(), false, false
	s.attempt++
	for _, m := range s.machines {
		if !m.spare {
			s.start(m)
		}
	}
}

// remove deletes the cluster. Its machines are switched off, or come back to the pool.
func (s *slot) remove() {
	ctx := s.site.ctx
	if s.site.kind.Binding == late && s.site.rng.IntN(2) == 0 {
		for _, m := range s.machines {
			s.release(m)
		}
	}
	if !s.try("the deletion of "+s.cluster, func(e *engine.Engine) error {
		return e.DeregisterCluster(ctx,
			s.cluster)
	}) {
		return
	}
	if s.site.kind.Binding == early {
		s.env = "" // the cluster's own infra-env goes with it
	}
	for _, m := range s.machines {
		if s.site.kind.Binding == early && s.site.rng.IntN(4) > 0 {
			m.turnOff() // one that is forgotten goes on asking for what is not there any more
		}
	}
	s.cluster, s.attempt, s.pressed, s.finalizing, s.opened = "", s.attempt+1, false, false, false
}

// release takes a machine from the cluster; one that is reclaimed comes back by itself.
func (s *slot) release(m *machine) {
	ctx, id := s.site.ctx, m.hw.ID()
	reclaims := s.site.chance(s.site.kind.People.Reclaim)
	taken := s.try("the taking of "+id, func(e *engine.Engine) (err error) {
		if reclaims {
			_, err = e.ReclaimHost(ctx, s.env, id)
		} else {
			_, err = e.UnbindHost(ctx, s.env, id)
		}
		return err
	})
	s.site.after(s.site.roughly(idleTime), func() {
		if status := s.statusOf(m); m.spare && !s.opened && (status == models.HostStatusKnownUnbound ||
			status == models.HostStatusDisconnectedUnbound) {
			m.turnOff() // nobody wants it before the next cluster
		}
	})
	switch {
	case !taken:
	case reclaims && m.power == onDisk:
		m.turn(onImage) // an agent still runs in the cluster
		m.installation = nil
		m.poll()
	case m.power == onDisk || m.power == off:
		m.boot(s.env)
	}
}

// live is the life of an installed cluster: until when nobody has to look.
func (s *slot) live(cluster *models.Cluster) time.Time {
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
	case s.opened && s.join(cluster):
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

// addHosts opens the cluster and switches the spare machines on.
func (s *slot) addHosts() {
	if !s.try("the opening of "+s.cluster, func(e *engine.Engine) error {
		_, err := e.AllowAddHosts(s.site.ctx,
			s.cluster)
		return err
	}) {
		return
	}
	s.opened, s.since = true, s.now()
	for _, m := range s.machines {
		if m.spare {
			s.start(m)
		}
	}
}

// join installs the hosts that are ready to join, and tells whether some are still to come.
func (s *slot) join(cluster *models.Cluster) bool {
	if s.site.kind.Binding == late {
		s.bind(func(m *machine) bool { return m.spare })
	}
	added, patient := 0, s.now().Sub(s.since) < giveUpTime
	for _, h := range cluster.Hosts {
		m := s.machine(h.ID.String())
		if m == nil || !m.spare {
			continue
		}
		switch *h.Status {
		case models.HostStatusAddedToExistingCluster:
			added++
		case models.HostStatusKnown:
			if s.try("the joining of "+h.ID.String(), func(e *engine.Engine) error {
				_,
					err := e.InstallHost(s.site.ctx, s.env, h.ID.String())
				return err
			}) {
				s.site.stats.count("hosts installed to join")
			}
		case models.HostStatusInstallingPendingUserAction:
			installation := m.installed(h)
			m.bootDisk()
			m.installation = installation
		case models.HostStatusError, models.HostStatusDisconnected, models.HostStatusInsufficient:
			if patient && m.power != booting && s.site.rng.IntN(4) == 0 {
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
		s.leave(cluster)
		return false
	}
	if !patient {
		for _, m := range s.machines {
			if m.spare && m.power != onDisk {
				m.turnOff()
			}
		}
	}
	return patient
}

// attendDay2 installs what is ready to join.
func (s *slot) attendDay2() {
	var cluster *models.Cluster
	if s.try("a look at "+s.cluster, func(e *engine.Engine) (err error) {
		cluster,
			err = e.Cluster(s.cluster)
		return err
	}) {
		s.join(cluster)
	}
}

// leave ends day 2: some clusters give a machine back.
func (s *slot) leave(*models.Cluster) {
	s.opened = false
	if s.site.kind.Binding != late {
		return
	}
	for _, m := range s.machines {
		if m.spare && s.site.rng.IntN(2) == 0 {
			s.release(m)
		}
	}
}

// perform does what the script says.
func (s *slot) perform(act Act) {
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
		chosen((*machine).turnOff)
	case doBind:
		s.bind(func(m *machine) bool { return m.number == act.Host || act.Host == 0 })
	case doJoin:
		s.attendDay2()
	case doUnbind:
		chosen(func(m *machine) {
			s.try("the taking of "+m.hw.ID(), func(e *engine.Engine) error {
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
