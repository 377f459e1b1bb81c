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
	"landfall/appliance/simulate"
)

// power is what a machine is doing.
type power string

const (
	off     power = "off"
	booting power = "booting"
	onImage power = "on the discovery image" // its agent runs
	frozen  power = "frozen"                 // on the discovery image, with an agent that has given up
	onDisk  power = "on its disk"
)

// How long the parts of a machine's life take.
const (
	bootTime       = 3 * time.Minute
	registerAgain  = time.Minute
	pollAgain      = 30 * time.Second // after a poll that failed
	leastPoll      = 5 * time.Second
	diskSpeedTime  = 20 * time.Second
	imagesTime     = 90 * time.Second
	logsTime       = 20 * time.Second
	fetchTime      = 2 * time.Minute // of boot artifacts
	linkCutTime    = 10 * time.Minute
	withoutPower   = 15 * time.Minute
	exitLostMedia  = 256
	exitOfFailures = 1
)

// machine is one that stands at the site. It is moved by the site's queue only.
type machine struct {
	slot      *slot
	number    int
	hw        *simulate.Machine
	power     power
	env       string // whose image it boots
	life      int    // raised by each change of power: what was planned before does not happen
	polled    []byte // the last instructions that were followed
	sent      map[models.StepType]string
	pollEvery time.Duration
	cut       time.Time // its link is cut until then
	*installation
	misbooted bool // WrongBootOrder has had its effect
	spare     bool // it is added when the cluster is installed
	loses     bool // its power, in the middle of the next installation
}

// later plans something that a change of the machine's power prevents.
func (m *machine) later(wait time.Duration, do func()) {
	life := m.life
	m.slot.site.after(wait, func() {
		if m.life == life {
			do()
		}
	})
}

func (m *machine) turn(to power) {
	m.power = to
	m.life++
	m.polled, m.sent = nil, make(map[models.StepType]string)
}

func (m *machine) turnOff() {
	m.turn(off)
	m.installation = nil
}

// boot switches the machine on, or restarts it, from the image of an infra-env.
func (m *machine) boot(env string) {
	m.turn(booting)
	m.env, m.installation = env, nil
	m.later(m.slot.site.roughly(bootTime), func() {
		m.turn(onImage)
		m.register()
	})
}

// bootDisk restarts the machine into what was installed.
func (m *machine) bootDisk() {
	m.turn(booting)
	m.later(m.slot.site.roughly(bootTime), func() {
		if _, wrong := m.hw.Fault(simulate.WrongBootOrder); wrong && !m.misbooted {
			m.misbooted = true
			m.boot(m.env)
			return
		}
		m.turn(onDisk)
		m.slot.nodeUp(m)
	})
}

// loseLink cuts the machine's link if it has that fault.
func (m *machine) loseLink() {
	if fault, has := m.hw.Fault(simulate.LostLink); has {
		m.cut = m.slot.site.clock.trueTime().Add(max(fault.Duration, linkCutTime))
	}
}

// ask asks the appliance, if the machine reaches it.
func (m *machine) ask(what string, request func(*engine.Engine) error) error {
	if m.slot.site.clock.trueTime().Before(m.cut) {
		return errDown
	}
	return m.slot.site.ask(what+" of "+m.hw.Name()+" ("+m.hw.ID()+")", request)
}

func (m *machine) register() {
	id := strfmt.UUID(m.hw.ID())
	times := 1
	if _, twice := m.hw.Fault(simulate.RegisterTwice); twice {
		times = 2
	}
	var err error
	for range times {
		err = m.ask("the registration", func(e *engine.Engine) error {
			_, err := e.RegisterHost(m.slot.site.ctx, m.env, &models.HostCreateParams{HostID: &id,
				DiscoveryAgentVersion: agentImage})
			return err
		})
	}
	switch engine.KindOf(err) {
	case engine.NotFound, engine.Conflict, engine.Forbidden:
		m.turn(frozen)
	default:
		if err != nil {
			m.later(m.slot.site.roughly(registerAgain), m.register)
			return
		}
		m.polled = nil
		clear(m.sent)
		m.poll()
	}
}

// clockOf is what the machine's clock shows.
func (m *machine) clockOf() time.Time {
	skew, _ := m.hw.Fault(simulate.ClockSkew)
	return m.slot.site.clock.trueTime().Add(skew.Duration)
}

// poll asks what to do, does it, and asks again later.
func (m *machine) poll() {
	var body []byte
	err := m.ask("a poll", func(e *engine.Engine) (err error) {
		body, err = e.Instructions(m.slot.site.ctx, engine.Poll{InfraEnvID: m.env, HostID: m.hw.ID(),
			AgentVersion: agentImage, Timestamp: m.clockOf().Unix()})
		return err
	})
	if engine.KindOf(err) == engine.NotFound {
		m.turn(frozen)
		return
	}
	if err != nil {
		m.polled = nil
		clear(m.sent)
		m.later(m.slot.site.roughly(pollAgain), m.poll)
		return
	}
	m.slot.site.stats.Polls++
	if bytes.Equal(body, m.polled) {
		// the same work with the same outcome, which is not sent again
		m.later(m.slot.site.roughly(m.pollEvery), m.poll)
		return
	}
	var steps models.Steps
	if err := json.Unmarshal(body, &steps); err != nil {
		m.slot.site.fail(err)
		return
	}
	m.polled = body
	life := m.life
	for _, step := range steps.Instructions {
		if m.life == life {
			m.perform(step)
		}
	}
	if m.life != life {
		return
	}
	if *steps.PostStepAction == models.StepsPostStepActionExit {
		m.installation = nil
		m.later(leastPoll, m.register)
		return
	}
	m.pollEvery = max(time.Duration(steps.NextInstructionSeconds)*time.Second, leastPoll)
	m.later(m.slot.site.roughly(m.pollEvery), m.poll)
}

// perform runs a step and replies, at once or when it is done.
func (m *machine) perform(step *models.Step) {
	if _, lost := m.hw.Fault(simulate.LostMedia); lost && m.installation != nil {
		m.reply(&models.StepReply{StepType: step.StepType, StepID: step.StepID, ExitCode: exitLostMedia,
			Error: "cannot read from the media (ISO) - media was likely disconnected"})
		return
	}
	done := &models.StepReply{StepType: step.StepType, StepID: step.StepID}
	switch step.StepType {
	case models.StepTypeInstallationDiskSpeedCheck:
		m.later(m.slot.site.roughly(diskSpeedTime), func() { m.reply(m.hw.DiskSpeed(step)) })
	case models.StepTypeContainerImageAvailability:
		m.later(m.slot.site.roughly(imagesTime), func() { m.reply(m.hw.Images(step)) })
	case models.StepTypeInstall:
		m.install(step)
	case models.StepTypeStopInstallation:
		m.installation = nil
		m.reply(done)
	case models.StepTypeLogsGather:
		m.later(m.slot.site.roughly(logsTime), m.sendLogs)
	case models.StepTypeDownloadBootArtifacts:
		done.Output = "Successfully downloaded boot artifacts"
		m.later(m.slot.site.roughly(fetchTime), func() { m.reply(done) })
	case models.StepTypeRebootForReclaim:
		m.reply(done)
		m.boot(m.env)
	default:
		reply, known := m.hw.Answer(step)
		if !known {
			m.slot.site.fail(fmt.Errorf("machine %d was given a step of type %q, which no agent knows", m.number,
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

// reply sends what came of a step. That the appliance can't understand what a real agent could have
// sent is a mistake.
func (m *machine) reply(reply *models.StepReply) {
	err := m.ask("the reply to "+reply.StepID, func(e *engine.Engine) error {
		return e.StepReply(m.slot.site.ctx, m.env, m.hw.ID(), reply)
	})
	switch {
	case err == nil && reply.ExitCode == 0:
		m.sent[reply.StepType] = reply.Output
	case engine.KindOf(err) == engine.Invalid:
		m.slot.site.fail(&audit.Violation{
			Invariant: "what an agent replies is understood", Objects: []string{m.hw.ID(), string(reply.StepType)},
			Found: strings.TrimSuffix(err.Error(), "."),
		})
	case errors.Is(err, errDown):
		m.polled = nil // it is asked and answered again
	}
}

// sendLogs is what an agent does when it is asked for the logs of an installation.
func (m *machine) sendLogs() {
	cluster := m.slot.cluster
	if cluster == "" {
		return
	}
	ctx := m.slot.site.ctx
	report := func(state models.LogsState) error {
		return m.ask("the logs", func(e *engine.Engine) error {
			return e.LogsProgress(ctx, cluster, m.env, m.hw.ID(),
				state)
		})
	}
	if report(models.LogsStateRequested) != nil {
		return
	}
	m.later(m.slot.site.roughly(logsTime), func() {
		err := m.ask("the logs", func(e *engine.Engine) error {
			return e.HostLogs(ctx, cluster, m.hw.ID(), strings.NewReader("simulated logs of "+m.hw.Name()))
		})
		if err == nil && report(models.LogsStateCompleted) == nil {
			m.slot.site.stats.count("logs of hosts")
		}
	})
}
