package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/jonboulle/clockwork"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/ams/outbox"
	"landfall/appliance/engine/audit"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/appliance/engine/steps"
	"landfall/appliance/engine/validation"
	"landfall/appliance/engine/validationcache"
	"landfall/appliance/fault"
	"landfall/store"
)

const (
	walkCluster = "c0000000-0000-4000-8000-000000000001"
	walkEnv     = "e0000000-0000-4000-8000-000000000001" // of the cluster
	walkPool    = "e0000000-0000-4000-8000-000000000002" // of no cluster
)

// site is the subject of a walk: a cluster, its infra-env, an infra-env without cluster, and their
// hosts. It chooses the validation results of hosts and clusters at random.
type site struct {
	e     *Engine
	tx    *store.Tx
	clock *clockwork.FakeClock
	rng   *rand.Rand
	seen  *coverage
	ctx   context.Context

	aim          aim
	hosts        []*walkHost
	masters      int
	lacks, fails bool // of the cluster: a setting is missing, a validation fails

	over    bool
	trace   []string
	fault   string
	auditor *audit.Auditor
	events  int
	outbox  outbox.Desired // expected entry after the cluster's history
	history bool           // outbox is set
}

// aim is the transition that a walk prefers. Each walk uses the next aim, so that rare transitions
// happen as well.
type aim struct {
	on      lifecycle.Trigger
	from    string
	cluster bool
}

// spare reports whether the aim is a state of a host that waits for a user action, which depends on
// the other hosts.
func (s *site) spare() bool {
	return s.aim == aim{lifecycle.OnRefresh, lifecycle.HostPendingUserAction, false}
}

// aims lists the transitions of both tables.
func aims() []aim {
	var all []aim
	for _, r := range lifecycle.HostMachine().Rows() {
		for _, from := range r.From {
			all = append(all, aim{r.On, from, false})
		}
	}
	for _, r := range lifecycle.ClusterMachine().Rows() {
		for _, from := range r.From {
			all = append(all, aim{r.On, from, true})
		}
	}
	return all
}

// walkHost is a machine.
type walkHost struct {
	id, env   string
	role      models.HostRole
	inventory bool // it has reported its inventory
	small     bool
	polls     bool
}

func (h *walkHost) key() string { return h.env + "/" + h.id }

func (s *site) validateHost(h *record.Host) validationcache.Result {
	i := slices.IndexFunc(s.hosts, func(w *walkHost) bool { return w.id == h.API.ID.String() })
	switch w := s.hosts[i]; {
	case *h.API.MediaStatus == models.HostMediaStatusDisconnected:
		return validationcache.Result{Status: validation.Disconnected, Failing: "the image is not readable."}
	case !w.inventory:
		return validationcache.Result{Status: validation.Discovering, Failing: "no inventory."}
	case w.small:
		return validationcache.Result{Status: validation.Insufficient, Failing: "too small."}
	case s.lacks && h.API.ClusterID != nil && !h.IsDay2():
		return validationcache.Result{Status: validation.PendingForInput, Failing: "a setting is missing."}
	}
	return validationcache.Result{Status: validation.Ready}
}

func (s *site) validateCluster(w *clusterMembers) validationcache.Result {
	switch {
	case s.lacks:
		return validationcache.Result{Status: validation.PendingForInput, Failing: "a setting is missing."}
	case s.fails || len(w.records) == 0 || slices.ContainsFunc(w.records,
		func(h *record.Host) bool { return *h.API.Status != lifecycle.HostKnown }):
		return validationcache.Result{Status: validation.Insufficient, Failing: "a check fails."}
	}
	return validationcache.Result{Status: validation.Ready}
}

func (s *site) one(of ...string) string { return of[s.rng.IntN(len(of))] }

func (s *site) chance(percent int) bool { return s.rng.IntN(100) < percent }

// runChange runs one change.
func (s *site) runChange(what string, fn func(*change) error) {
	if s.fault != "" || s.over {
		return
	}
	s.trace = append(s.trace, s.clock.Now().UTC().Format("02 15:04:05 ")+what)
	c := newChange(s.ctx, s.e, s.tx)
	err := fn(c)
	if err == nil {
		err = c.settle()
	}
	if err != nil {
		s.trace = append(s.trace, "    rejected: "+err.Error())
		if fault.KindOf(err) == 0 {
			s.fail("an unclassified error: %v", err)
		}
		// The store would roll these writes back. The walk is one transaction, so it must end here.
		s.over = c.events > 0
		return
	}
	for _, key := range c.deletedHosts {
		s.e.presence.Remove(key)
	}
	s.check(c)
}

func (s *site) fail(format string, args ...any) {
	if s.fault == "" {
		s.fault = fmt.Sprintf(format, args...)
	}
}

// begin writes the initial state of a site, which may be new or in the middle of its lifecycle.
func (s *site) begin() {
	s.masters = []int{1, 1, 1, 3}[s.rng.IntN(4)]
	phase := s.phase()
	s.runChange(fmt.Sprintf("begins with phase %d", phase), func(c *change) error {
		for id, cluster := range map[strfmt.UUID]strfmt.UUID{walkEnv: walkCluster, walkPool: ""} {
			c.saveInfraEnv(&record.InfraEnv{API: models.InfraEnv{ID: &id, Name: conv.Pointer("walk"),
				ClusterID:        cluster,
				OpenshiftVersion: "4.20.8", CPUArchitecture: "x86_64"}})
		}
		row := s.newCluster(c)
		workers := 0
		if s.masters == 3 {
			workers = s.rng.IntN(3)
		}
		if s.spare() { // the cluster does not need one of the hosts
			s.masters, workers = 3, 1
			row.API.ControlPlaneCount = 3
		}
		if phase == 0 {
			c.saveCluster(row)
			return nil
		}
		for i := range s.masters + workers {
			role := models.HostRoleMaster
			if i >= s.masters {
				role = models.HostRoleWorker
			}
			if err := s.newHost(c, row, phase, role); err != nil {
				return err
			}
		}
		s.writePhase(c, row, phase)
		c.saveCluster(row)
		return nil
	})
}

func (s *site) newCluster(c *change) *record.Cluster {
	id := strfmt.UUID(walkCluster)
	platform := models.PlatformTypeNone
	return &record.Cluster{PullSecret: testPullSecret, API: models.Cluster{
		ID: &id, Kind: conv.Pointer(models.ClusterKindCluster), Name: "walk", BaseDNSDomain: "site.test",
		OpenshiftVersion: "4.20.8", CPUArchitecture: "x86_64",
		ControlPlaneCount: int64(s.masters), Platform: &models.Platform{Type: &platform},
		UserManagedNetworking: conv.Pointer(true),
		Status:                conv.Pointer(lifecycle.ClusterInsufficient), StatusInfo: conv.Pointer(""),
		StatusUpdatedAt:    c.dateTime(),
		Progress:           &models.ClusterProgressInfo{},
		MonitoredOperators: []*models.MonitoredOperator{{Name: "console", OperatorType: models.OperatorTypeBuiltin}},
	}}
}

// clusterPhases returns the states in which a walk may find its cluster, by phase. Phase 0
// has no hosts.
func clusterPhases() [][]string {
	return [][]string{
		1: lifecycle.ClusterOpenStates, 2: {lifecycle.ClusterPreparing}, 3: {lifecycle.ClusterInstalling,
			lifecycle.ClusterPendingUserAction}, 4: {lifecycle.ClusterFinalizing},
		5: {lifecycle.ClusterInstalled, lifecycle.ClusterAddingHosts}, 6: {lifecycle.ClusterFailed,
			lifecycle.ClusterCancelled},
		7: {lifecycle.ClusterInsufficient, lifecycle.ClusterUnmonitored},
	}
}

// hostPhases returns the states of the hosts, by phase.
func hostPhases() [][]string {
	return [][]string{
		1: {lifecycle.HostKnown}, 2: {lifecycle.HostKnown, lifecycle.HostPreparing, lifecycle.HostPreparing,
			lifecycle.HostPrepared, lifecycle.HostPreparingFailed},
		3: {lifecycle.HostPrepared, lifecycle.HostInstalling, lifecycle.HostInstallingInProgress,
			lifecycle.HostInstallingInProgress, lifecycle.HostInstallingInProgress, lifecycle.HostPendingUserAction,
			lifecycle.HostInstalled},
		4: {lifecycle.HostInstalled, lifecycle.HostInstalled, lifecycle.HostInstalled,
			lifecycle.HostInstallingInProgress, lifecycle.HostPendingUserAction},
		5: {lifecycle.HostInstalled, lifecycle.HostKnown, lifecycle.HostInstalling,
			lifecycle.HostInstallingInProgress, lifecycle.HostPendingUserAction, lifecycle.HostAdded,
			lifecycle.HostDiscovering, lifecycle.HostBinding, lifecycle.HostFailed},
		6: {lifecycle.HostFailed, lifecycle.HostCancelled, lifecycle.HostInstalled,
			lifecycle.HostResettingPendingUserAction, lifecycle.HostAdded, lifecycle.HostResetting,
			lifecycle.HostFailed, lifecycle.HostCancelled, lifecycle.HostInstalled, lifecycle.HostKnown,
			lifecycle.HostPendingForInput, lifecycle.HostInsufficient, lifecycle.HostDisabled, lifecycle.HostBinding},
		7: {lifecycle.HostDisabled, lifecycle.HostResetting, lifecycle.HostBinding, lifecycle.HostUnbinding,
			lifecycle.HostUnbindingPendingUserAction, lifecycle.HostDisabledUnbound, lifecycle.HostKnownUnbound,
			lifecycle.HostInsufficientUnbound, lifecycle.HostDisconnectedUnbound, lifecycle.HostDiscoveringUnbound,
			lifecycle.HostReclaiming, lifecycle.HostReclaimingRebooting, lifecycle.HostPendingForInput,
			lifecycle.HostInsufficient, lifecycle.HostDisconnected, lifecycle.HostDiscovering},
	}
}

// phase returns the phase in which the walk begins. It prefers the phases in which the aim of the
// walk can happen.
func (s *site) phase() int {
	phases := hostPhases()
	if s.aim.cluster {
		phases = clusterPhases()
	}
	var fitting []int
	for i, states := range phases {
		if slices.Contains(states, s.aim.from) {
			fitting = append(fitting, i)
		}
	}
	if len(fitting) == 0 || s.chance(30) {
		return s.rng.IntN(len(phases))
	}
	return fitting[s.rng.IntN(len(fitting))]
}

// writePhase puts the cluster into the first state of the phase.
func (s *site) writePhase(c *change, row *record.Cluster, phase int) {
	status := clusterPhases()[phase]
	if s.aim.cluster && slices.Contains(status, s.aim.from) {
		status = []string{s.aim.from}
	}
	row.API.Status = conv.Pointer(s.one(status...))
	if phase < 2 || phase == 7 {
		return
	}
	row.Installs, row.API.InstallStartedAt = 1, c.dateTime()
	row.Preparation = &record.Preparation{ID: "p", StartedAt: c.now, Done: phase > 2 || s.chance(30)}
	if phase == 2 && !row.Preparation.Done {
		if err := record.PendingPreparations.Add(c.tx, walkCluster); err != nil {
			s.fail("%v", err)
		}
	}
	if phase == 5 {
		row.Completion, row.IngressCA = &record.Completion{Success: true}, true
	}
	if phase == 4 {
		row.API.Progress.FinalizingStage = lifecycle.FinalizingStages()[s.rng.IntN(7)]
		row.API.Progress.FinalizingStageStartedAt = c.dateTime()
		row.IngressCA = s.chance(50)
	}
}

// newHost writes a host in a state of the phase.
func (s *site) newHost(c *change, row *record.Cluster, phase int, role models.HostRole) error {
	w := &walkHost{id: fmt.Sprintf("00000000-0000-4000-8000-%012d", len(s.hosts)+1), env: walkEnv, role: role,
		inventory: true, polls: s.chance(70)}
	if s.chance(40) {
		w.env = walkPool
	}
	s.hosts = append(s.hosts, w)
	id := strfmt.UUID(w.id)
	h := &record.Host{DiskOK: s.chance(50), ImagesOK: s.chance(50), API: models.Host{
		ID: &id, InfraEnvID: strfmt.UUID(w.env), Kind: conv.Pointer(models.HostKindHost), StatusInfo: conv.Pointer(""),
		Role: role, SuggestedRole: role,
		MediaStatus: conv.Pointer(models.HostMediaStatusConnected), Progress: &models.HostProgressInfo{},
		ProgressStages: []models.HostStage{},
		CheckedInAt:    c.dateTime(), StatusUpdatedAt: c.dateTime(), StageUpdatedAt: c.dateTime(),
	}}
	status := hostPhases()[phase]
	aimedAt := len(s.hosts) == 1
	if s.spare() {
		aimedAt = role == models.HostRoleWorker
	}
	switch {
	case !s.aim.cluster && aimedAt && slices.Contains(status, s.aim.from):
		status = []string{s.aim.from}
	case s.spare() && slices.Contains(status, lifecycle.HostInstalled) && s.chance(90):
		status = []string{lifecycle.HostInstalled}
	}
	if !h.DiskOK && s.chance(40) {
		h.DiskError = "The disk is broken."
	}
	h.API.Status = conv.Pointer(s.one(status...))
	h.API.ProgressStages = record.HostStages(h, s.masters == 1)
	// The cluster may have been installed without a worker that failed.
	leftOut := *h.API.Status == lifecycle.HostFailed && role == models.HostRoleWorker && s.chance(50)
	joins := phase == 5 && *h.API.Status != lifecycle.HostInstalled && !leftOut
	if joins {
		h.API.Kind, h.API.Role = conv.Pointer(models.HostKindAddToExistingClusterHost), models.HostRoleWorker
	}
	switch *h.API.Status {
	case lifecycle.HostInstallingInProgress, lifecycle.HostFailed, lifecycle.HostCancelled, lifecycle.HostResetting:
		h.API.Progress.CurrentStage = h.API.ProgressStages[s.rng.IntN(len(h.API.ProgressStages)-1)]
	case lifecycle.HostPendingUserAction:
		h.API.Progress.CurrentStage = models.HostStageRebooting
	case lifecycle.HostInstalled, lifecycle.HostAdded:
		h.API.Progress.CurrentStage = models.HostStageDone
	}
	unbound := slices.Contains([]string{lifecycle.HostUnbinding, lifecycle.HostUnbindingPendingUserAction,
		lifecycle.HostDisabledUnbound, lifecycle.HostReclaiming, lifecycle.HostReclaimingRebooting},
		*h.API.Status) || slices.Contains(lifecycle.HostOpenUnboundStates, *h.API.Status)
	if unbound {
		w.env, h.API.InfraEnvID = walkPool, walkPool
	} else {
		h.API.ClusterID = row.API.ID
		if err := record.ClusterHosts.Add(c.tx, walkCluster+"/"+record.HostKey(h)); err != nil {
			return err
		}
	}
	s.e.recordContact(w.key())
	c.saveHost(h)
	s.auditor.Started(w.id, *h.API.Status)
	return record.HostInfraEnvs.Add(c.tx, w.id+"/"+w.env)
}

// step runs one step of a walk.
func (s *site) step() {
	actions := []func(){
		s.register, s.register, s.register, s.report, s.report, s.poll, s.changeSettings, s.passTime, s.passTime,
		s.passTime, s.passTime,
		s.runUserOperation, s.runUserOperation, s.runUserOperation, s.prepare, s.prepare,
		s.progress, s.progress, s.progress, s.finish, s.finish, s.loseMedia, s.restart, s.bindOrUnbind, s.bindOrUnbind,
		s.reclaimReply, s.logs, s.remove,
	}
	switch aimed := s.aimedActions(); {
	case len(aimed) > 0 && s.chance(35):
		aimed[s.rng.IntN(len(aimed))]()
	default:
		actions[s.rng.IntN(len(actions))]()
	}
}

// aimedActions returns the actions that may cause the transition of the walk's aim.
func (s *site) aimedActions() []func() {
	switch s.aim.on {
	case lifecycle.OnRegister:
		return []func(){s.register}
	case lifecycle.OnRefresh:
		return []func(){s.passTime, s.passTime, s.report, s.prepare, s.changeSettings, s.poll}
	case lifecycle.OnProgress, lifecycle.OnFailure:
		return []func(){s.progress}
	case lifecycle.OnMediaLost:
		return []func(){s.loseMedia}
	case lifecycle.OnRestart:
		return []func(){s.restart}
	case lifecycle.OnInstall, lifecycle.OnCancel, lifecycle.OnReset, lifecycle.OnAddHosts:
		return []func(){s.runUserOperation}
	case lifecycle.OnBind, lifecycle.OnUnbind, lifecycle.OnReclaim:
		return []func(){s.bindOrUnbind}
	case lifecycle.OnReclaimReboot, lifecycle.OnReclaimFailed:
		return []func(){s.reclaimReply}
	case lifecycle.OnCompletion:
		return []func(){s.finish}
	}
	return nil
}

// anyHost returns a host of the site, or nil.
func (s *site) anyHost() *walkHost {
	if len(s.hosts) == 0 {
		return nil
	}
	return s.hosts[s.rng.IntN(len(s.hosts))]
}

// withHost runs a change on one of the hosts in the store.
func (s *site) withHost(what string, fn func(*change, *walkHost, *record.Host) error) {
	w := s.anyHost()
	if w == nil {
		return
	}
	s.runChange(what+" of "+w.id[len(w.id)-2:], func(c *change) error {
		h, err := c.host(w.key())
		if err != nil {
			return err
		}
		return fn(c, w, h)
	})
}

func (s *site) register() {
	w := s.anyHost()
	if w == nil || len(s.hosts) < 4 && s.chance(20) {
		w = &walkHost{id: fmt.Sprintf("00000000-0000-4000-8000-%012d", len(s.hosts)+1), env: s.one(walkEnv, walkPool),
			role: models.HostRoleMaster}
		if len(s.hosts) >= s.masters {
			w.role = models.HostRoleWorker
		}
		s.hosts = append(s.hosts, w)
	}
	env := w.env
	if s.chance(10) {
		env = s.one(walkEnv, walkPool)
	}
	s.runChange("registers: "+w.id[len(w.id)-2:]+" in "+env, func(c *change) error {
		h, err := c.registerHost(env, strfmt.UUID(w.id), "agent")
		if err != nil {
			return err
		}
		w.env, w.polls = env, s.chance(80)
		if slices.Contains([]string{lifecycle.HostDiscovering, lifecycle.HostDiscoveringUnbound}, *h.API.Status) {
			w.inventory = false
		}
		if h.API.ClusterID != nil && h.API.Role == models.HostRoleAutoAssign {
			h.API.Role, h.API.SuggestedRole = w.role, w.role
		}
		s.e.recordContact(w.key())
		return nil
	})
}

func (s *site) report() {
	s.withHost("reports", func(c *change, w *walkHost, h *record.Host) error {
		w.inventory, w.small = !s.chance(5), s.chance(15)
		s.e.recordContact(w.key())
		c.saveHost(h)
		c.settleLater(h)
		return nil
	})
}

func (s *site) poll() {
	s.withHost("polls", func(c *change, w *walkHost, h *record.Host) error {
		w.polls = s.chance(60)
		s.e.recordContact(w.key())
		h.API.CheckedInAt = c.dateTime()
		c.saveHost(h)
		c.settleLater(h)
		return nil
	})
}

// changeSettings changes settings of the user.
func (s *site) changeSettings() {
	s.runChange("is updated", func(c *change) error {
		s.lacks, s.fails = s.chance(25), s.chance(25)
		c.settleCluster(walkCluster)
		return nil
	})
}

// passTime moves the clock: by minutes in which hosts poll, or by hours without polls.
func (s *site) passTime() {
	waits := []time.Duration{time.Second, time.Minute, 3 * time.Minute, 8 * time.Minute, 12 * time.Minute,
		25 * time.Minute, 45 * time.Minute, 65 * time.Minute, 100 * time.Minute, 6 * time.Hour, 25 * time.Hour}
	wait := waits[s.rng.IntN(len(waits))]
	if wait > 15*time.Minute {
		for _, w := range s.hosts {
			w.polls = w.polls && s.chance(30) && wait < time.Hour
		}
	}
	s.trace = append(s.trace, "    passes: "+wait.String())
	s.advance(s.clock.Now().Add(wait))
}

// advance moves the clock forward and handles the deadlines on the way.
func (s *site) advance(until time.Time) {
	for s.fault == "" && !s.over {
		next, ok, err := record.StateDeadlines.Next(s.tx)
		if err != nil {
			s.fail("%v", err)
		}
		if !ok || next.After(until) {
			break
		}
		s.moveTo(next)
		s.handleDue()
	}
	s.moveTo(until)
}

func (s *site) moveTo(at time.Time) {
	if at.After(s.clock.Now()) {
		s.clock.Advance(at.Sub(s.clock.Now()))
	}
	for _, w := range s.hosts {
		if w.polls {
			s.e.recordContact(w.key())
		}
	}
}

func (s *site) handleDue() {
	due, err := record.StateDeadlines.Due(s.tx, s.clock.Now(), dueBatch)
	if err != nil {
		s.fail("%v", err)
	}
	s.runChange(fmt.Sprintf("due: %v", due), func(c *change) error {
		for _, deadline := range due {
			if err := c.handleDeadline(deadline); err != nil {
				return err
			}
		}
		return nil
	})
}

// runUserOperation runs a user's operation on the cluster or on one of its hosts.
func (s *site) runUserOperation() {
	switch s.rng.IntN(8) {
	case 0, 1, 2:
		s.runChange("install", func(c *change) error { return c.installCluster(walkCluster) })
	case 3:
		s.runChange("cancel", func(c *change) error { return c.endInstallation(walkCluster, lifecycle.OnCancel) })
	case 4:
		s.runChange("reset", func(c *change) error { return c.endInstallation(walkCluster, lifecycle.OnReset) })
	case 5:
		s.runChange("add hosts", func(c *change) error {
			row, err := c.cluster(walkCluster)
			if err != nil {
				return err
			}
			c.settleCluster(walkCluster)
			return c.triggerCluster(row, lifecycle.OnAddHosts)
		})
	default:
		on := lifecycle.Trigger(s.one(string(lifecycle.OnInstall), string(lifecycle.OnInstall),
			string(lifecycle.OnReset)))
		s.withHost(string(on), func(c *change, _ *walkHost, h *record.Host) error {
			if _, err := c.triggerHost(h, on, ""); err != nil {
				return err
			}
			c.settleLater(h)
			return nil
		})
	}
}

// prepare reports a result of the preparation of an installation.
func (s *site) prepare() {
	if s.chance(40) {
		s.runChange("openshift-install ends", func(c *change) error {
			row, err := c.cluster(walkCluster)
			if err != nil || row.Preparation == nil || *row.API.Status != lifecycle.ClusterPreparing {
				return err
			}
			row.Preparation.Done = true
			if s.chance(20) {
				row.Preparation.Done, row.Preparation.Failed = false, "no machine has that address."
			}
			c.saveCluster(row)
			c.settleCluster(walkCluster)
			return record.PendingPreparations.Remove(c.tx, walkCluster)
		})
		return
	}
	s.withHost("checks end", func(c *change, w *walkHost, h *record.Host) error {
		switch s.rng.IntN(8) {
		case 0:
			h.DiskOK, h.DiskError = false, "The disk is broken."
		case 1:
			h.ImagesOK, h.ImagesError = false, "The image is missing."
		case 2:
			h.DiskOK, h.DiskError = true, ""
		default:
			h.DiskOK, h.DiskError, h.ImagesOK, h.ImagesError = true, "", true, ""
		}
		s.e.recordContact(w.key())
		c.saveHost(h)
		c.settleLater(h)
		return nil
	})
}

func (s *site) progress() {
	s.withHost("progress", func(c *change, w *walkHost, h *record.Host) error {
		s.e.recordContact(w.key())
		stages := h.API.ProgressStages
		if len(stages) == 0 {
			stages = []models.HostStage{models.HostStageInstalling, models.HostStageDone}
		}
		stage := stages[s.rng.IntN(len(stages))]
		if s.chance(30) {
			stage = models.HostStageDone
		}
		if s.chance(10) {
			stage = models.HostStageFailed
		}
		return c.progress(h, &models.HostProgress{CurrentStage: stage, ProgressInfo: s.one("", "10%", "20%")})
	})
}

// finish sends a report of the controller in the cluster.
func (s *site) finish() {
	switch s.rng.IntN(3) {
	case 0:
		s.runChange("completion", func(c *change) error {
			return c.completeInstallation(walkCluster, s.chance(80), "")
		})
	case 1:
		s.runChange("finalizing stage", func(c *change) error {
			return c.finalizingProgress(walkCluster,
				lifecycle.FinalizingStages()[s.rng.IntN(7)])
		})
	default:
		s.runChange("ingress certificate", func(c *change) error {
			row, err := c.cluster(walkCluster)
			if err != nil {
				return err
			}
			row.IngressCA = true
			c.saveCluster(row)
			c.settleCluster(walkCluster)
			return nil
		})
	}
}

func (s *site) loseMedia() {
	s.withHost("loses its image", func(c *change, _ *walkHost, h *record.Host) error {
		c.saveHost(h)
		c.settleLater(h)
		return c.applyEffect(h, &steps.Effect{Step: models.StepTypeInventory, MediaDisconnected: true})
	})
}

func (s *site) restart() {
	s.withHost("is restarted", func(c *change, _ *walkHost, h *record.Host) error { return c.restartHost(h) })
}

func (s *site) bindOrUnbind() {
	s.withHost("is bound or unbound", func(c *change, w *walkHost, h *record.Host) error {
		if h.API.ClusterID == nil {
			return c.bindHost(w.env, w.id, walkCluster)
		}
		return c.removeFromCluster(w.env, w.id, lifecycle.Trigger(s.one(string(lifecycle.OnUnbind),
			string(lifecycle.OnReclaim))))
	})
}

func (s *site) reclaimReply() {
	s.withHost("fetches its image", func(c *change, _ *walkHost, h *record.Host) error {
		c.saveHost(h)
		c.settleLater(h)
		worked := s.chance(50)
		return c.applyEffect(h, &steps.Effect{Step: models.StepTypeDownloadBootArtifacts, BootArtifactsReady: worked,
			BootArtifactsFailed: !worked})
	})
}

func (s *site) logs() {
	s.withHost("sends logs", func(c *change, _ *walkHost, h *record.Host) error {
		h.API.LogsInfo = models.LogsState(s.one(string(models.LogsStateRequested), string(models.LogsStateCollecting),
			string(models.LogsStateCompleted)))
		h.API.LogsStartedAt = c.dateTime()
		if h.API.LogsInfo != models.LogsStateRequested {
			h.API.LogsCollectedAt = c.dateTime()
		}
		c.saveHost(h)
		return nil
	})
}

// remove deletes a host if that is allowed.
func (s *site) remove() {
	s.withHost("deletion", func(c *change, w *walkHost, h *record.Host) error {
		if slices.Contains(append(slices.Clone(lifecycle.HostInstallingStates), lifecycle.HostPreparing,
			lifecycle.HostPrepared), *h.API.Status) {
			return conflict("Host %s is %s.", w.id, *h.API.Status)
		}
		return c.removeHost(h)
	})
}

// waitForDeadlines ends the walk. It moves the clock without other events until no deadline is
// left.
func (s *site) waitForDeadlines() {
	for _, w := range s.hosts {
		w.polls = false
	}
	for range 2000 {
		next, ok, err := record.StateDeadlines.Next(s.tx)
		if err != nil {
			s.fail("%v", err)
		}
		if s.fault != "" || s.over {
			return
		}
		if !ok {
			s.checkRest()
			return
		}
		s.moveTo(next)
		s.handleDue()
	}
	s.fail("deadlines are left")
}

// deleteAll deletes the remaining objects and checks that no row of them is left.
func (s *site) deleteAll() {
	s.runChange("is deleted", func(c *change) error {
		row, err := c.cluster(walkCluster)
		if err != nil {
			return err
		}
		for _, w := range s.hosts {
			h, err := c.host(w.key())
			if fault.KindOf(err) == fault.NotFound {
				continue
			}
			if err := errors.Join(err, c.removeHost(h)); err != nil {
				return err
			}
		}
		c.refresh = nil
		return c.removeCluster(walkCluster, row)
	})
	s.checkEmpty()
}
