package scenario

import (
	"fmt"
	"slices"
	"time"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine"
	"landfall/appliance/simulate"
)

// installation is the work of the installer on a machine, and later the work of the node.
type installation struct {
	simulate.Installation
	phases  []phase
	reached models.HostStage
	joins   bool // the host joins an installed cluster
}

// phase is a part of an installation, with the reported stage, the duration, and the condition for
// its end.
type phase struct {
	stage models.HostStage
	info  string
	takes time.Duration
	until func() bool
}

// Durations of the parts of an installation, similar to those of a server with a local registry.
const (
	checkInterval = 20 * time.Second // interval while waiting for a condition
	retryAfter    = 15 * time.Second // after a report that the appliance did not answer
	writeStepTime = 15 * time.Second // for each 10 % of the image
	bootkubeTime  = 4 * time.Minute
	nodeStepTime  = 2 * time.Minute // time of a node between two stages
	operatorTime  = 5 * time.Minute
	stageTime     = time.Minute // time of the controller per stage
)

// install starts the installer if it is not running.
func (m *machine) install(step *models.Step) {
	if m.installation != nil {
		return
	}
	wanted, err := m.hw.Install(step)
	if err != nil {
		m.owner.site.fail(fmt.Errorf("machine %d could not parse its install step: %w", m.number, err))
		return
	}
	m.installation = &installation{Installation: wanted, joins: m.owner.takesHosts}
	m.phases = m.plan()
	if m.loses {
		m.loses = false
		m.later(time.Duration(m.owner.site.rng.Int64N(int64(20*time.Minute))), m.losePower)
	}
	m.next()
}

// losePower restarts a machine during its work.
func (m *machine) losePower() {
	env := m.env
	m.powerOff()
	m.later(m.owner.site.roughly(withoutPower), func() { m.boot(env) })
}

// plan returns the phases of the installation for the machine's role.
func (m *machine) plan() []phase {
	phases := []phase{{stage: models.HostStageStartingInstallation, takes: 10 * time.Second},
		{stage: models.HostStageInstalling, takes: 15 * time.Second}}
	bootstrap := m.Role == models.HostRoleBootstrap
	if m.Single {
		phases = append(phases, phase{stage: models.HostStageWaitingForBootkube, takes: bootkubeTime})
	}
	for percent := 10; percent <= 100; percent += 10 {
		phases = append(phases, phase{stage: models.HostStageWritingImageToDisk, info: fmt.Sprintf("%d%%", percent),
			takes: writeStepTime})
	}
	switch {
	case m.Single:
	case bootstrap:
		phases = append(phases,
			phase{stage: models.HostStageWaitingForControlPlane, takes: time.Minute,
				until: func() bool { return m.owner.mastersAt(m, models.HostStageJoined) >= 2 }},
			phase{stage: models.HostStageWaitingForBootkube, takes: bootkubeTime},
			phase{stage: models.HostStageWaitingForController, takes: time.Minute})
	case m.Role == models.HostRoleWorker && !m.joins:
		phases = append(phases, phase{stage: models.HostStageWaitingForControlPlane,
			until: func() bool { return m.owner.mastersAt(m, models.HostStageDone) >= 2 }})
	}
	return append(phases, phase{stage: models.HostStageRebooting, takes: time.Minute})
}

// next starts the next phase, or restarts the machine into its disk.
func (m *machine) next() {
	if m.installation == nil {
		return
	}
	if len(m.phases) == 0 {
		m.bootDisk()
		return
	}
	now := m.phases[0]
	m.phases = m.phases[1:]
	if m.fails(now.stage) {
		m.report(models.HostStageFailed, fmt.Sprintf("The installation was aborted at the stage %q.", now.stage),
			func() { m.phases = nil })
		return
	}
	m.report(now.stage, now.info, func() {
		if now.stage == models.HostStageWritingImageToDisk && now.info == "30%" {
			m.loseLink()
		}
		m.later(m.owner.site.roughly(now.takes), func() { m.wait(now.until) })
	})
}

func (m *machine) wait(until func() bool) {
	if until == nil || until() {
		m.next()
		return
	}
	installation := m.installation
	m.later(m.owner.site.roughly(checkInterval), func() {
		if m.installation == installation && installation != nil {
			m.wait(until)
		}
	})
}

func (m *machine) fails(stage models.HostStage) bool {
	fault, has := m.hw.Fault(simulate.FailAt)
	return has && fault.Stage == stage
}

// report sends a stage to the appliance. It repeats the request until it gets a response. A
// rejection does not end the installation.
func (m *machine) report(stage models.HostStage, info string, then func()) {
	installation := m.installation
	err := m.call("the stage "+string(stage), func(e *engine.Engine) error {
		return e.RecordHostProgress(m.owner.site.ctx, m.env, m.hw.ID(), &models.HostProgress{CurrentStage: stage,
			ProgressInfo: info})
	})
	if err == errDown {
		m.later(m.owner.site.roughly(retryAfter), func() {
			if m.installation == installation && installation != nil {
				m.report(stage, info, then)
			}
		})
		return
	}
	m.reached = stage
	then()
}

// stages of a node after its boot from disk, in order.
var nodeStages = []models.HostStage{models.HostStageConfiguring, models.HostStageJoined, models.HostStageDone}

// nodeUp moves a node through its stages after its boot from disk. The bootstrap host, or the
// controller in the cluster, reports the stages.
func (s *owner) nodeUp(m *machine) {
	if m.installation == nil || m.joins {
		return
	}
	var stage func(i int)
	stage = func(i int) {
		if m.installation == nil || m.fails(nodeStages[i]) {
			return // the node never reaches the stage and reports nothing
		}
		m.report(nodeStages[i], "", func() {
			if i+1 < len(nodeStages) {
				m.later(s.site.roughly(nodeStepTime), func() { stage(i + 1) })
				return
			}
			s.finalize()
		})
	}
	m.later(s.site.roughly(nodeStepTime), func() { stage(0) })
}

// mastersAt counts the control-plane machines that have reached a stage, without the given machine.
func (s *owner) mastersAt(but *machine, stage models.HostStage) int {
	count := 0
	for _, m := range s.machines {
		if m == but || m.installation == nil || m.Role == models.HostRoleWorker {
			continue
		}
		if slices.Index(nodeStages, m.reached) >= slices.Index(nodeStages, stage) {
			count++
		}
	}
	return count
}

// finalize does the controller's work at the end of an installation, after the control plane is
// complete.
func (s *owner) finalize() {
	if s.mastersAt(nil, models.HostStageDone) < int(s.site.kind.Topology) || s.finalizing {
		return
	}
	s.finalizing = true
	attempt, cluster, ctx := s.attempt, s.cluster, s.site.ctx
	if s.fault == OperatorsHang {
		return
	}
	var run func(steps []controllerStep)
	run = func(steps []controllerStep) {
		if len(steps) == 0 || s.attempt != attempt || s.cluster != cluster {
			return
		}
		wait, left := stageTime, steps[1:]
		if err := s.site.call("the controller of "+cluster,
			func(e *engine.Engine) error { return steps[0].do(e) }); err == errDown {
			wait, left = retryAfter, steps
		} else {
			wait = max(wait, steps[0].takes)
		}
		s.site.after(s.site.roughly(wait), func() { run(left) })
	}
	operator := func(name string, status models.OperatorStatus) func(*engine.Engine) error {
		return func(e *engine.Engine) error {
			return e.ReportOperator(ctx, cluster, &models.OperatorMonitorReport{Name: name, Status: status,
				Version: version})
		}
	}
	stage := func(stage models.FinalizingStage) func(*engine.Engine) error {
		return func(e *engine.Engine) error { return e.RecordFinalizingProgress(ctx, cluster, stage) }
	}
	console := models.OperatorStatusAvailable
	if s.fault == CompletionFails {
		console = models.OperatorStatusFailed
	}
	run([]controllerStep{
		{stage(models.FinalizingStageWaitingForClusterOperators), 0},
		{operator("console", models.OperatorStatusProgressing), 0},
		{operator("cvo", models.OperatorStatusProgressing), operatorTime},
		{operator("console", console), operatorTime},
		{operator("cvo", models.OperatorStatusAvailable), 0},
		{stage(models.FinalizingStageAddingRouterCa), 0},
		{func(e *engine.Engine) error { return e.UploadIngressCert(ctx, cluster, s.site.releases.authority) }, 0},
		{stage(models.FinalizingStageDone), 0},
		{func(e *engine.Engine) error {
			_, err := e.CompleteInstallation(ctx, cluster, s.fault != CompletionFails, "")
			return err
		}, 0},
	})
}

// controllerStep is a report of the controller and the time until the next report.
type controllerStep struct {
	do    func(*engine.Engine) error
	takes time.Duration
}
