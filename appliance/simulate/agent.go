package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/openshift/assisted-service/models"
)

const (
	// registerInterval is the agent's delay between two attempts to register (its --interval).
	registerInterval = time.Minute
	// incompatibleInterval is the delay after a registration without a runner command.
	incompatibleInterval = time.Hour
)

// Exit codes of steps with a special meaning.
const (
	exitFailed    = -1  // the step could not run, or its arguments were invalid
	exitNoImage   = 2   // an image could not be pulled
	exitLostMedia = 256 // the discovery image can no longer be read
	exitStopped   = 143 // the step's container was stopped
)

// FrozenError reports that an agent has stopped, after a rejected request, until the next reboot.
type FrozenError struct{ Err error }

// Error returns the rejection.
func (e *FrozenError) Error() string {
	return fmt.Sprintf("the agent stopped until the next reboot: %v", e.Err)
}

// Unwrap returns the rejection.
func (e *FrozenError) Unwrap() error { return e.Err }

// agent registers the host and runs the runner, repeatedly, until the host is shut down. If
// recorded (the host in the API) is not nil, the host continues from that state.
func (s *system) agent(ctx context.Context, recorded *models.Host) error {
	if recorded != nil {
		if err := s.resumeAgent(ctx, recorded); err != nil {
			return err
		}
	}
	for {
		command, err := s.register(ctx)
		if err != nil {
			return err
		}
		if s.bootedWrong {
			s.bootedWrong = false
			s.processes.Go(s.fixBootOrder)
		}
		if command == nil {
			if err := s.group.pause(ctx, incompatibleInterval); err != nil {
				return err
			}
			continue
		}
		request, err := decodeRunner(command)
		if err != nil {
			again := incompatibleInterval
			if command.RetrySeconds > 0 {
				again = time.Duration(command.RetrySeconds) * time.Second
			}
			s.group.log.Warn("Invalid command for the next-step runner.", "host", s.machine.hostname,
				"error", err)
			if err := s.group.pause(ctx, again); err != nil {
				return err
			}
			continue
		}
		s.upgrade(*request.AgentVersion)
		if err := s.runner(ctx); err != nil {
			return err
		}
	}
}

// resumeAgent continues the installer, if it was running before the group was restarted, and then
// the runner.
func (s *system) resumeAgent(ctx context.Context, recorded *models.Host) error {
	s.markRegistered()
	if recorded.DiscoveryAgentVersion != "" {
		s.upgrade(recorded.DiscoveryAgentVersion)
	}
	if *recorded.Status == models.HostStatusInstallingInProgress && recorded.ClusterID != nil {
		if _, err := s.startInstaller(resumedInstallation(s.host, recorded), stageOf(recorded)); err != nil {
			return err
		}
	}
	return s.runner(ctx)
}

func decodeRunner(command *models.HostRegistrationResponseAO1NextStepRunnerCommand) (
	*models.NextStepCmdRequest, error) {
	var request models.NextStepCmdRequest
	return &request, decodeArguments("next step runner", command.Args, 1, &request)
}

// register tries to register until it succeeds. The result is nil if the appliance returns no
// runner command. The error is a *hostResult if a rejection freezes the agent.
func (s *system) register(ctx context.Context) (*models.HostRegistrationResponseAO1NextStepRunnerCommand, error) {
	times := 1
	if _, twice := s.fault(RegisterTwice); twice {
		times = 2
	}
	s.markRegistering()
	var registered *models.HostRegistrationResponse
	for times > 0 {
		var err error
		registered, err = s.api.register(ctx, s.ref, s.media.config.AgentImage)
		switch status := statusOf(err); {
		case err == nil:
			times--
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusNotFound,
			status == http.StatusConflict:
			return nil, s.freeze(err)
		default:
			s.group.log.Debug("Registration failed.", "host", s.machine.hostname, "error", err)
			if err := s.group.rest(ctx, registrationWait(status)); err != nil {
				return nil, err
			}
		}
	}
	s.markRegistered()
	s.emit(Event{Kind: EventRegistered})
	return registered.NextStepRunnerCommand, nil
}

// registrationWait returns the agent's delay after a failed registration. The agent's HTTP client
// repeats a request within seconds if there is no response or the status is 503. After other
// rejections, the agent waits for its interval.
func registrationWait(status int) time.Duration {
	if status == 0 || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout {
		return jitter(6 * time.Second)
	}
	return registerInterval
}

func (s *system) freeze(err error) error {
	frozen := &FrozenError{Err: err}
	s.emit(Event{Kind: EventFrozen, Info: err.Error()})
	return &hostResult{Err: frozen}
}

// runner polls for instructions and executes them. It returns nil when the appliance ends the
// agent.
func (s *system) runner(ctx context.Context) error {
	running, stop := context.WithCancel(ctx)
	var steps sync.WaitGroup
	defer func() {
		stop()
		steps.Wait()
	}()
	s.setUpgraded(false)
	sent := &sentReplies{outputs: map[models.StepType]string{}}
	waiting := agentBackoff()
	checks := 0
	for {
		installing := s.installStep.Load()
		instructions, err := s.api.instructions(ctx, s.ref, s.version(), s.now())
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			sent.clear()
			if statusOf(err) == http.StatusNotFound {
				return s.freeze(err)
			}
			s.group.log.Debug("The poll for instructions failed.", "host", s.machine.hostname, "error", err)
			if err := s.group.rest(ctx, waiting.delay()); err != nil {
				return err
			}
			continue
		}
		waiting = agentBackoff()
		for _, step := range instructions.Instructions {
			switch step.StepType {
			case models.StepTypeConnectivityCheck:
				checks++
				number := checks
				steps.Go(func() { sent.runLatest(number, func() { s.step(running, sent, step) }) })
			case models.StepTypeInstall:
				// The appliance repeats the step until it receives the installer's first report,
				// even if a fast installer has already finished.
				if installing || !s.installStep.CompareAndSwap(false, true) {
					continue
				}
				steps.Go(func() {
					defer s.installStep.Store(false)
					s.step(running, sent, step)
				})
			case models.StepTypeLogsGather:
				s.gathering.Add(1)
				steps.Go(func() {
					defer s.gathering.Add(-1)
					s.step(running, sent, step)
				})
			default:
				steps.Go(func() { s.step(running, sent, step) })
			}
		}
		s.polls.Add(1)
		if instructions.PostStepAction != nil && *instructions.PostStepAction == models.StepsPostStepActionExit {
			if n := s.installing(); n != nil {
				// The host leaves its installation. It registers again without the installer, as
				// after a reboot.
				n.stop()
				<-n.done
			}
			steps.Wait()
			return context.Cause(ctx)
		}
		if err := s.group.rest(ctx,
			jitter(time.Duration(instructions.NextInstructionSeconds)*time.Second)); err != nil {
			return err
		}
		if s.isUpgraded() {
			steps.Wait() // the appliance gets the reply before the upgraded agent registers
			return nil
		}
	}
}

func (s *system) setUpgraded(upgraded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.upgraded = upgraded
}

func (s *system) isUpgraded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.upgraded
}

// sentReplies contains, by type of step, the last outputs that were sent or are being sent. An
// output is not sent twice in a row.
type sentReplies struct {
	mu      sync.Mutex
	outputs map[models.StepType]string

	connectivityLock sync.Mutex
	check            int // number of the last connectivity check
}

// runLatest runs a connectivity check after the current check has ended. It does nothing if a later
// check has run. A real host's check ends long before the next check starts. A simulated host with
// a high speed would otherwise report outdated neighbours.
func (r *sentReplies) runLatest(check int, run func()) {
	r.connectivityLock.Lock()
	defer r.connectivityLock.Unlock()
	if check > r.check {
		r.check = check
		run()
	}
}

// claim reports whether an output must be sent. It returns false if the same output was sent last
// or is being sent.
func (r *sentReplies) claim(step models.StepType, output string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, sent := r.outputs[step]; sent && last == output {
		return false
	}
	r.outputs[step] = output
	return true
}

// release withdraws a claim after the appliance rejected the output.
func (r *sentReplies) release(step models.StepType, output string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.outputs[step] == output {
		delete(r.outputs, step)
	}
}

func (r *sentReplies) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.outputs)
}

// outcome is the result of a step.
type outcome struct {
	output, errorText string
	code              int64
}

func failed(code int64, err error) outcome { return outcome{errorText: err.Error(), code: code} }

// answered returns the outcome of a step whose output is a model of the API.
func answered(response any) outcome {
	output, err := json.Marshal(response)
	if err != nil {
		return failed(exitFailed, err)
	}
	return outcome{output: string(output)}
}

// step executes a step and sends the reply.
func (s *system) step(ctx context.Context, sent *sentReplies, step *models.Step) {
	var out outcome
	if s.mediaLost() {
		out = failed(exitLostMedia, errors.New("cannot read from the media (ISO) - media was likely disconnected"))
	} else {
		out = s.perform(ctx, step)
	}
	if ctx.Err() != nil {
		return
	}
	reply := &models.StepReply{StepType: step.StepType, StepID: step.StepID, Output: out.output, Error: out.errorText,
		ExitCode: out.code}
	if reply.ExitCode == 0 && !sent.claim(reply.StepType, reply.Output) {
		return
	}
	if err := s.api.reply(ctx, s.ref, s.version(), reply); err != nil {
		if reply.ExitCode == 0 {
			sent.release(reply.StepType, reply.Output)
		}
		s.group.log.Debug("The appliance rejected a reply.", "host", s.machine.hostname, "step", step.StepID,
			"error", err)
		return
	}
	s.emit(Event{Kind: EventStep, Info: string(step.StepType)})
	switch {
	case step.StepType == models.StepTypeInventory:
		s.cutLink("")
	case step.StepType == models.StepTypeRebootForReclaim && reply.ExitCode == 0:
		s.power(&reboot{into: fromImage, reason: "the host is reclaimed for another cluster"})
	}
}

// mediaLost reports whether a host with LostMedia has reached its installation.
func (s *system) mediaLost() bool {
	_, lost := s.fault(LostMedia)
	return lost && s.installing() != nil
}

func (s *system) installing() *nodeInstaller {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.installer
}
