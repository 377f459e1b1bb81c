package scenario

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine"
	"landfall/appliance/engine/audit"
	"landfall/appliance/fault"
	"landfall/appliance/simulate"
)

// power is the power state of a machine.
type power string

const (
	off     power = "off"
	booting power = "booting"
	onImage power = "on the discovery image" // its agent runs
	frozen  power = "frozen"                 // on the discovery image, with an agent that has stopped
	onDisk  power = "on its disk"
)

// Durations of a machine's actions.
const (
	bootTime       = 3 * time.Minute
	registerAgain  = time.Minute
	pollAgain      = 30 * time.Second // after a failed poll
	leastPoll      = 5 * time.Second
	diskSpeedTime  = 20 * time.Second
	imagesTime     = 90 * time.Second
	logsTime       = 20 * time.Second
	fetchTime      = 2 * time.Minute // for boot artifacts
	linkCutTime    = 10 * time.Minute
	withoutPower   = 15 * time.Minute
	exitLostMedia  = 256
	exitOfFailures = 1
)

// machine is a machine at the site. Only events of the site's queue change it.
type machine struct {
	owner      *owner
	number     int
	hw         *simulate.Machine
	power      power
	env        string // infra-env of the booted image
	powerEpoch int    // incremented by each change of power, which cancels scheduled actions
	polled     []byte // last instructions that were executed
	sent       map[models.StepType]string
	pollEvery  time.Duration
	cut        time.Time // until this time, the link is cut
	*installation
	misbooted bool // WrongBootOrder took effect
	spare     bool // added after the cluster is installed
	loses     bool // loses its power in the next installation
}

// later schedules an action. A change of the machine's power cancels it.
func (m *machine) later(wait time.Duration, do func()) {
	epoch := m.powerEpoch
	m.owner.site.after(wait, func() {
		if m.powerEpoch == epoch {
			do()
		}
	})
}

func (m *machine) setPower(to power) {
	m.power = to
	m.powerEpoch++
	m.polled, m.sent = nil, make(map[models.StepType]string)
}

func (m *machine) powerOff() {
	m.setPower(off)
	m.installation = nil
}

// boot powers the machine on, or restarts it, from the image of an infra-env.
func (m *machine) boot(env string) {
	m.setPower(booting)
	m.env, m.installation = env, nil
	m.later(m.owner.site.roughly(bootTime), func() {
		m.setPower(onImage)
		m.register()
	})
}

// bootDisk restarts the machine into its installed system.
func (m *machine) bootDisk() {
	m.setPower(booting)
	m.later(m.owner.site.roughly(bootTime), func() {
		if _, wrong := m.hw.Fault(simulate.WrongBootOrder); wrong && !m.misbooted {
			m.misbooted = true
			m.boot(m.env)
			return
		}
		m.setPower(onDisk)
		m.owner.nodeUp(m)
	})
}

// loseLink cuts the machine's link if the machine has that fault.
func (m *machine) loseLink() {
	if fault, has := m.hw.Fault(simulate.LostLink); has {
		m.cut = m.owner.site.clock.realTime().Add(max(fault.Duration, linkCutTime))
	}
}

// call sends a request to the appliance, if the machine can reach the appliance.
func (m *machine) call(subject string, request func(*engine.Engine) error) error {
	if m.owner.site.clock.realTime().Before(m.cut) {
		return errDown
	}
	return m.owner.site.call(subject+" of "+m.hw.Name()+" ("+m.hw.ID()+")", request)
}

func (m *machine) register() {
	id := strfmt.UUID(m.hw.ID())
	times := 1
	if _, twice := m.hw.Fault(simulate.RegisterTwice); twice {
		times = 2
	}
	var err error
	for range times {
		err = m.call("the registration", func(e *engine.Engine) error {
			_, err := e.RegisterHost(m.owner.site.ctx, m.env, &models.HostCreateParams{HostID: &id,
				DiscoveryAgentVersion: agentImage})
			return err
		})
	}
	switch fault.KindOf(err) {
	case fault.NotFound, fault.Conflict, fault.Forbidden:
		m.setPower(frozen)
	default:
		if err != nil {
			m.later(m.owner.site.roughly(registerAgain), m.register)
			return
		}
		m.polled = nil
		clear(m.sent)
		m.poll()
	}
}

// clockOf returns the time on the machine's clock.
func (m *machine) clockOf() time.Time {
	skew, _ := m.hw.Fault(simulate.ClockSkew)
	return m.owner.site.clock.realTime().Add(skew.Duration)
}

// poll polls for instructions, executes them, and schedules the next poll.
func (m *machine) poll() {
	var body []byte
	err := m.call("a poll", func(e *engine.Engine) (err error) {
		body, err = e.Instructions(m.owner.site.ctx, engine.Poll{InfraEnvID: m.env, HostID: m.hw.ID(),
			AgentVersion: agentImage, Timestamp: m.clockOf().Unix()})
		return err
	})
	if fault.KindOf(err) == fault.NotFound {
		m.setPower(frozen)
		return
	}
	if err != nil {
		m.polled = nil
		clear(m.sent)
		m.later(m.owner.site.roughly(pollAgain), m.poll)
		return
	}
	m.owner.site.stats.Polls++
	if bytes.Equal(body, m.polled) {
		// the instructions are unchanged, and so are the replies, which are not sent again
		m.later(m.owner.site.roughly(m.pollEvery), m.poll)
		return
	}
	var steps models.Steps
	if err := json.Unmarshal(body, &steps); err != nil {
		m.owner.site.fail(err)
		return
	}
	m.polled = body
	epoch := m.powerEpoch
	for _, step := range steps.Instructions {
		if m.powerEpoch == epoch {
			m.perform(step)
		}
	}
	if m.powerEpoch != epoch {
		return
	}
	if *steps.PostStepAction == models.StepsPostStepActionExit {
		m.installation = nil
		m.later(leastPoll, m.register)
		return
	}
	m.pollEvery = max(time.Duration(steps.NextInstructionSeconds)*time.Second, leastPoll)
	m.later(m.owner.site.roughly(m.pollEvery), m.poll)
}

// perform executes a step and replies, immediately or when the step is done.
func (m *machine) perform(step *models.Step) {
	if _, lost := m.hw.Fault(simulate.LostMedia); lost && m.installation != nil {
		m.reply(&models.StepReply{StepType: step.StepType, StepID: step.StepID, ExitCode: exitLostMedia,
			Error: "cannot read from the media (ISO) - media was likely disconnected"})
		return
	}
	done := &models.StepReply{StepType: step.StepType, StepID: step.StepID}
	switch step.StepType {
	case models.StepTypeInstallationDiskSpeedCheck:
		m.later(m.owner.site.roughly(diskSpeedTime), func() { m.reply(m.hw.DiskSpeed(step)) })
	case models.StepTypeContainerImageAvailability:
		m.later(m.owner.site.roughly(imagesTime), func() { m.reply(m.hw.Images(step)) })
	case models.StepTypeInstall:
		m.install(step)
	case models.StepTypeStopInstallation:
		m.installation = nil
		m.reply(done)
	case models.StepTypeLogsGather:
		m.later(m.owner.site.roughly(logsTime), m.sendLogs)
	case models.StepTypeDownloadBootArtifacts:
		done.Output = "Successfully downloaded boot artifacts"
		m.later(m.owner.site.roughly(fetchTime), func() { m.reply(done) })
	case models.StepTypeRebootForReclaim:
		m.reply(done)
		m.boot(m.env)
	default:
		reply, ok := m.hw.Answer(step)
		if !ok {
			m.owner.site.fail(fmt.Errorf("machine %d received a step of the unknown type %q", m.number,
				step.StepType))
			return
		}
		if last, sent := m.sent[step.StepType]; sent && last == reply.Output && reply.ExitCode == 0 {
			return
		}
		m.reply(reply)
		if step.StepType == models.StepTypeInventory {
			m.loseLink()
		}
	}
}

// reply sends the result of a step. If the appliance does not understand a reply that a real agent
// could have sent, the run fails.
func (m *machine) reply(reply *models.StepReply) {
	err := m.call("the reply to "+reply.StepID, func(e *engine.Engine) error {
		return e.ApplyStepReply(m.owner.site.ctx, m.env, m.hw.ID(), reply)
	})
	switch {
	case err == nil && reply.ExitCode == 0:
		m.sent[reply.StepType] = reply.Output
	case fault.KindOf(err) == fault.Invalid:
		m.owner.site.fail(&audit.Violation{
			Invariant: "the appliance understands the agents' replies", Objects: []string{m.hw.ID(),
				string(reply.StepType)},
			Found: strings.TrimSuffix(err.Error(), "."),
		})
	case errors.Is(err, errDown):
		m.polled = nil // the agent polls and replies again
	}
}

// sendLogs sends the logs of an installation like an agent.
func (m *machine) sendLogs() {
	cluster := m.owner.cluster
	if cluster == "" {
		return
	}
	ctx := m.owner.site.ctx
	report := func(state models.LogsState) error {
		return m.call("the logs", func(e *engine.Engine) error {
			return e.RecordLogsProgress(ctx, cluster, m.env, m.hw.ID(),
				state)
		})
	}
	if report(models.LogsStateRequested) != nil {
		return
	}
	m.later(m.owner.site.roughly(logsTime), func() {
		err := m.call("the logs", func(e *engine.Engine) error {
			return e.StoreHostLogs(ctx, cluster, m.hw.ID(), strings.NewReader("simulated logs of "+m.hw.Name()))
		})
		if err == nil && report(models.LogsStateCompleted) == nil {
			m.owner.site.stats.count("logs of hosts")
		}
	})
}
