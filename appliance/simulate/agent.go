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
	// registerInterval is the agent's wait between two attempts to register (its --interval).
	registerInterval = time.Minute
	// incompatibleInterval is its wait after a registration without a runner command.
	incompatibleInterval = time.Hour
)

// Exit codes of steps with a special meaning.
const (
	exitFailed    = -1  // the step could not run, or its arguments were invalid
	exitNoImage   = 2   // an image could not be pulled
	exitLostMedia = 256 // the discovery image cannot be read any more
	exitStopped   = 143 // the step's container was stopped
)

// FrozenError is an agent that has stopped after a refusal, until a reboot.
type FrozenError struct{ Err error }

// Error returns the refusal.
func (e *FrozenError) Error() string { return fmt.Sprintf("its agent froze until a reboot: %v", e.Err) }

// Unwrap returns the refusal.
func (e *FrozenError) Unwrap() error { return e.Err }

// agent registers the host and runs the runner, repeatedly, until the host is shut down. If known
// is set, the host continues from that state.
func (s *system) agent(ctx context.Context, known *models.Host) error {
	if known != nil {
		if err := s.resumeAgent(ctx, known); err != nil {
			return err
		}
	}
	for {
		command, err := s.register(ctx)
		if err != nil {
			return err
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
			s.group.log.Warn("the command for the next-step runner cannot be used", "host", s.machine.hostname,
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

// resumeAgent continues the installer, if it was running before the group was started again, and
// the runner.
func (s *system) resumeAgent(ctx context.Context, known *models.Host) error {
	s.markRegistered()
	if known.DiscoveryAgentVersion != "" {
		s.upgrade(known.DiscoveryAgentVersion)
	}
	if *known.Status == models.HostStatusInstallingInProgress && known.ClusterID != nil {
		if _, err := s.startInstaller(resumedInstallation(s.host, known), stageOf(known)); err != nil {
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

// register tries to register until it succeeds. The result is nil if the appliance names no runner.
// The error is a *verdict for a refusal that freezes the agent.
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
			s.group.log.Debug("not registered", "host", s.machine.hostname, "error", err)
			if err := s.group.rest(ctx, registrationWait(status)); err != nil {
				return nil, err
			}
		}
	}
	s.markRegistered()
	s.emit(Event{Kind: EventRegistered})
	return registered.NextStepRunnerCommand, nil
}

// registrationWait returns the agent's wait after a failed registration. The agent's HTTP client
// repeats a request without an answer, or with 503, within seconds; after other refusals the agent
// waits for its interval.
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

// runner polls for instructions and executes them until the appliance ends the agent (nil) or an
// error occurs.
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
			s.group.log.Debug("no instructions", "host", s.machine.hostname, "error", err)
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
				// The appliance repeats the step until it has the installer's first report, even if
				// a fast installer has already finished.
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
				// The host leaves its installation. It comes back as after a reboot, without the
				// installer.
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

// sentReplies holds, by type of step, the last outputs that were sent or are being sent. The same
// output is not sent twice.
type sentReplies struct {
	mu      sync.Mutex
	outputs map[models.StepType]string

	connectivityLock sync.Mutex
	check            int // number of the last connectivity check
}

// runLatest runs a connectivity check after the running one has ended, or not at all if a later one
// has run since. A real host's check ends long before the next one starts; a simulated host at many
// times the speed would report outdated neighbours.
func (r *sentReplies) runLatest(check int, run func()) {
	r.connectivityLock.Lock()
	defer r.connectivityLock.Unlock()
	if check > r.check {
		r.check = check
		run()
	}
}

// claim reports whether an output must be sent: the same output is neither sent nor being sent.
func (r *sentReplies) claim(step models.StepType, output string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, sent := r.outputs[step]; sent && last == output {
		return false
	}
	r.outputs[step] = output
	return true
}

// release withdraws a claim whose output was not accepted.
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

// step executes one step and replies.
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
		s.group.log.Debug("reply not taken", "host", s.machine.hostname, "step", step.StepID, "error", err)
		return
	}
	s.emit(Event{Kind: EventStep, Info: string(step.StepType)})
	switch {
	case step.StepType == models.StepTypeInventory:
		s.cutLink("")
	case step.StepType == models.StepTypeRebootForReclaim && reply.ExitCode == 0:
		s.power(&reboot{into: fromImage, reason: "it is reclaimed for another cluster"})
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
