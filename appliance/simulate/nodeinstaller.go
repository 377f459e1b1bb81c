package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/ignition"
)

// Durations of an installation at speed 1, similar to those of a fast server with a local registry.
const (
	diskCleanupTime   = 10 * time.Second
	preparationTime   = 15 * time.Second
	writeStepTime     = 5 * time.Second // for each 5 % of the image
	bootkubeTime      = 3 * time.Minute
	etcdBootstrapTime = 30 * time.Second
	shutdownDelay     = time.Minute // "shutdown -r +1", which a single-node cluster does not use
	clusterPoll       = 5 * time.Second
)

const (
	writePercentStep = 5
	// lostLinkPercent is the progress of the image at which a host with LostLink loses its link.
	lostLinkPercent = 30
	// mastersToWaitFor is the number of control-plane nodes that the bootstrap and the workers wait
	// for.
	mastersToWaitFor = 2
)

// installation contains the arguments of the install step.
type installation struct {
	cluster strfmt.UUID
	role    models.HostRole
	single  bool
	device  string
}

// resumedInstallation returns the installation of a host that was being installed when the group
// ended.
func resumedInstallation(h *host, recorded *models.Host) installation {
	wanted := installation{cluster: *recorded.ClusterID, role: recorded.Role, device: recorded.InstallationDiskPath}
	if recorded.Bootstrap {
		wanted.role = models.HostRoleBootstrap
	}
	// Only a single-node cluster waits for bootkube before its disk is written. The API lists its
	// stages in this order.
	bootkube := slices.Index(recorded.ProgressStages, models.HostStageWaitingForBootkube)
	wanted.single = bootkube >= 0 && bootkube < slices.Index(recorded.ProgressStages,
		models.HostStageWritingImageToDisk)
	return wanted
}

// nodeInstaller is the installer's container on a host.
type nodeInstaller struct {
	*system
	installation
	stop   context.CancelFunc
	done   chan struct{}
	result outcome
	// resume is the stage from which to continue. The previous run of the group completed the
	// earlier stages.
	resume models.HostStage
	// clusterState is the group's view of the host's cluster.
	clusterState *cluster
}

// install runs the installer until it ends.
func (s *system) install(ctx context.Context, args []string) outcome {
	var request models.InstallCmdRequest
	if err := decodeArguments("install", args, 1, &request); err != nil {
		return failed(exitFailed, err)
	}
	if err := s.checkInstallRequest(&request); err != nil {
		return failed(exitFailed, err)
	}
	if _, err := s.pull(ctx, *request.InstallerImage); err != nil {
		return failed(exitNoImage, err)
	}
	installer, err := s.startInstaller(installation{
		cluster: *request.ClusterID, role: *request.Role, device: *request.BootDevice,
		single: request.ControlPlaneCount == 1 && *request.Role != models.HostRoleWorker,
	}, "")
	if err != nil {
		return failed(exitFailed, err)
	}
	select {
	case <-ctx.Done():
		return outcome{}
	case <-installer.done:
		return installer.result
	}
}

// checkInstallRequest rejects requests that the agent rejects before it starts the installer.
func (s *system) checkInstallRequest(request *models.InstallCmdRequest) error {
	if *request.HostID != s.ref.host {
		return fmt.Errorf("the install step is for the host %s, not for this one", *request.HostID)
	}
	for _, path := range append([]string{*request.BootDevice}, request.DisksToFormat...) {
		if _, exists := s.machine.disk(path); !exists {
			return fmt.Errorf("disk %s was not found on the host", path)
		}
	}
	if request.InstallerArgs != "" {
		var installerArgs []string
		if err := json.Unmarshal([]byte(request.InstallerArgs), &installerArgs); err != nil {
			return fmt.Errorf("the installer arguments %q are not a JSON list: %w", request.InstallerArgs, err)
		}
	}
	if gather := request.MustGatherImage; strings.HasPrefix(gather, "{") {
		var images map[string]string
		if err := json.Unmarshal([]byte(gather), &images); err != nil {
			return fmt.Errorf("the must-gather images %q are not a JSON map: %w", gather, err)
		}
	}
	return nil
}

// startInstaller starts the installer. If the installer is running, startInstaller returns it,
// because a repeated instruction means the same installation.
func (s *system) startInstaller(wanted installation, resume models.HostStage) (*nodeInstaller, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.installer != nil {
		select {
		case <-s.installer.done:
		default:
			return s.installer, nil
		}
	}
	if err := context.Cause(s.up); err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(s.up)
	n := &nodeInstaller{
		system: s, installation: wanted, stop: stop, done: make(chan struct{}), resume: resume,
		clusterState: s.group.watch(wanted.cluster, s.api),
	}
	if !slices.Contains(n.stages(), resume) {
		n.resume = ""
	}
	s.installer = n
	s.processes.Go(func() {
		defer close(n.done)
		defer stop()
		n.result = n.execute(running)
	})
	return n, nil
}

func (s *system) stopInstallation(_ context.Context, args []string) outcome {
	if err := decodeArguments("stop installation", args, 0, nil); err != nil {
		return failed(exitFailed, err)
	}
	if n := s.installing(); n != nil {
		n.stop()
		<-n.done
	}
	return outcome{}
}

// stages returns the stages that the installer reports in its role, in order.
func (n *nodeInstaller) stages() []models.HostStage {
	stages := []models.HostStage{models.HostStageStartingInstallation, models.HostStageInstalling}
	if n.single {
		stages = append(stages, models.HostStageWaitingForBootkube)
	}
	stages = append(stages, models.HostStageWritingImageToDisk)
	switch {
	case n.role == models.HostRoleWorker:
		stages = append(stages, models.HostStageWaitingForControlPlane)
	case n.role == models.HostRoleBootstrap && !n.single:
		stages = append(stages, models.HostStageWaitingForControlPlane, models.HostStageWaitingForBootkube,
			models.HostStageWaitingForController)
	}
	return append(stages, models.HostStageRebooting)
}

// execute runs the installation and returns the result of the container.
func (n *nodeInstaller) execute(ctx context.Context) outcome {
	err := n.run(ctx)
	switch {
	case err == nil:
		return outcome{}
	case ctx.Err() != nil:
		return outcome{errorText: "the installer was stopped", code: exitStopped}
	}
	n.report(ctx, models.HostStageFailed, err.Error())
	return failed(1, err)
}

func (n *nodeInstaller) run(ctx context.Context) error {
	bootstrap := n.role == models.HostRoleBootstrap && !n.single
	if err := n.enter(ctx, models.HostStageStartingInstallation, string(n.role), diskCleanupTime); err != nil {
		return err
	}
	role := n.role
	if bootstrap || n.single {
		role = models.HostRoleMaster
	}
	if bootstrap {
		if err := n.download(ctx, "bootstrap.ign"); err != nil {
			return err
		}
	}
	if err := n.enter(ctx, models.HostStageInstalling, string(role), preparationTime); err != nil {
		return err
	}
	if n.single {
		if err := n.download(ctx, "bootstrap.ign"); err != nil {
			return err
		}
		if err := n.enter(ctx, models.HostStageWaitingForBootkube, "", bootkubeTime); err != nil {
			return err
		}
	}
	if err := n.download(ctx, ""); err != nil {
		return err
	}
	if err := n.writeImage(ctx); err != nil {
		return err
	}
	switch {
	case n.role == models.HostRoleWorker:
		if err := n.waitForMasters(ctx); err != nil {
			return err
		}
	case bootstrap:
		if err := n.waitAsBootstrap(ctx); err != nil {
			return err
		}
	}
	return n.restart(ctx)
}

// enter reports a stage and waits for its duration. A resumed installation skips the stages before
// the reached stage.
func (n *nodeInstaller) enter(ctx context.Context, stage models.HostStage, info string, takes time.Duration) error {
	if n.resume != "" && n.resume != stage {
		return nil
	}
	n.resume = ""
	fault, has := n.fault(FailAt)
	fails := has && fault.Stage == stage
	if fails && stage == models.HostStageRebooting {
		return errors.New("the host cannot be restarted into its disk (fault fail-at=Rebooting)")
	}
	n.report(ctx, stage, info)
	if fails {
		return fmt.Errorf("the installation was aborted at the stage %q (fault fail-at)", stage)
	}
	return n.group.pause(ctx, takes)
}

// report sends a stage to the appliance. A rejection does not end the installation, as with the
// real installer.
func (n *nodeInstaller) report(ctx context.Context, stage models.HostStage, info string) {
	n.emit(Event{Kind: EventStage, ClusterID: n.cluster, Stage: stage, Info: info})
	err := n.group.retry(ctx, func() error { return n.api.progress(ctx, n.ref, stage, info) })
	if err != nil && ctx.Err() == nil {
		n.group.log.Warn("The appliance rejected a stage.", "host", n.machine.hostname, "stage", string(stage),
			"error", err)
	}
}

// download downloads and validates a file of the cluster, or the host's own ignition config if name
// is empty.
func (n *nodeInstaller) download(ctx context.Context, name string) error {
	if n.resume != "" {
		return nil
	}
	var config bytes.Buffer
	err := n.group.retry(ctx, func() error {
		config.Reset()
		if name == "" {
			return n.api.hostIgnition(ctx, n.ref, &config)
		}
		return n.api.clusterFile(ctx, n.cluster, name, &config)
	})
	if err != nil {
		return err
	}
	if name == "" {
		name = "host's own ignition config"
	}
	if err := ignition.Validate(config.Bytes()); err != nil {
		return fmt.Errorf("the %s from the appliance is invalid: %w", name, err)
	}
	return nil
}

func (n *nodeInstaller) writeImage(ctx context.Context) error {
	if err := n.enter(ctx, models.HostStageWritingImageToDisk, "", 0); err != nil || n.resume != "" {
		return err
	}
	if n.write != nil {
		if err := n.write(ctx, n.device); err != nil {
			return err
		}
	}
	for percent := writePercentStep; percent <= 100; percent += writePercentStep {
		if err := n.group.pause(ctx, writeStepTime); err != nil {
			return err
		}
		n.report(ctx, models.HostStageWritingImageToDisk, fmt.Sprintf("%d%%", percent))
		if percent == lostLinkPercent {
			n.cutLink(models.HostStageWritingImageToDisk)
		}
	}
	return nil
}

// waitForMasters makes a worker wait until a control-plane node can serve its configuration.
func (n *nodeInstaller) waitForMasters(ctx context.Context) error {
	if err := n.enter(ctx, models.HostStageWaitingForControlPlane, "", 0); err != nil || n.resume != "" {
		return err
	}
	return n.until(ctx, func() (bool, error) {
		state, err := n.api.cluster(ctx, n.cluster, false)
		if err != nil || conv.Value(state.Kind) == models.ClusterKindAddHostsCluster {
			return err == nil, err
		}
		ready := 0
		for _, role := range []models.HostRole{models.HostRoleMaster, models.HostRoleArbiter} {
			hosts, err := n.api.clusterHosts(ctx, n.cluster, role)
			if err != nil {
				return false, err
			}
			for _, h := range hosts {
				if stageOf(h) == models.HostStageDone {
					ready++
				}
			}
		}
		return ready >= mastersToWaitFor, nil
	})
}

// waitAsBootstrap keeps the temporary control plane running until the permanent control plane is
// complete.
func (n *nodeInstaller) waitAsBootstrap(ctx context.Context) error {
	if err := n.enter(ctx, models.HostStageWaitingForControlPlane, "waiting for the temporary control plane",
		etcdBootstrapTime); err != nil {
		return err
	}
	if n.resume == "" {
		n.report(ctx, models.HostStageWaitingForControlPlane, "waiting for control plane nodes to join")
		if err := n.until(ctx, func() (bool, error) { return n.mastersJoined(ctx) }); err != nil {
			return err
		}
	}
	if err := n.enter(ctx, models.HostStageWaitingForBootkube, "", bootkubeTime); err != nil {
		return err
	}
	if n.resume == "" {
		n.report(ctx, models.HostStageWaitingForBootkube, "waiting for etcd to move to the control plane nodes")
		if err := n.group.pause(ctx, etcdBootstrapTime); err != nil {
			return err
		}
	}
	if err := n.enter(ctx, models.HostStageWaitingForController,
		"waiting for the controller to report that it is ready", 0); err != nil || n.resume != "" {
		return err
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-n.clusterState.controllerUp:
	}
	err := n.group.retry(ctx, func() error {
		return n.api.clusterLogsProgress(ctx, n.cluster,
			models.LogsStateRequested)
	})
	if err != nil && ctx.Err() == nil {
		n.group.log.Debug("Reporting the state of the logs failed.", "host", n.machine.hostname, "error", err)
	}
	return context.Cause(ctx)
}

// mastersJoined reports whether enough control-plane nodes besides the bootstrap have joined.
func (n *nodeInstaller) mastersJoined(ctx context.Context) (bool, error) {
	state, err := n.api.cluster(ctx, n.cluster, true)
	if err != nil {
		return false, err
	}
	others, joined := 0, 0
	for _, h := range state.Hosts {
		if h.ID == nil || *h.ID == n.ref.host || h.Role != models.HostRoleMaster {
			continue
		}
		others++
		if stage := stageOf(h); stage == models.HostStageJoined || stage == models.HostStageDone {
			joined++
		}
	}
	return others > 0 && joined >= min(others, mastersToWaitFor), nil
}

// until repeats a check until it succeeds. A rejection means "not yet", as with the real installer.
func (n *nodeInstaller) until(ctx context.Context, reached func() (bool, error)) error {
	for {
		ok, err := reached()
		if ok {
			return nil
		}
		if err != nil {
			n.group.log.Debug("The state is not available yet.", "host", n.machine.hostname, "error", err)
		}
		if err := n.group.rest(ctx, clusterPoll); err != nil {
			return err
		}
	}
}

// restart sends the logs and restarts the host into the installed system.
func (n *nodeInstaller) restart(ctx context.Context) error {
	if n.resume == "" {
		if err := n.sendLogs(ctx, n.cluster); err != nil && ctx.Err() == nil {
			n.group.log.Warn("The appliance rejected the logs.", "host", n.machine.hostname, "error", err)
		}
	}
	delay := shutdownDelay
	if n.single {
		delay = 0
	}
	if err := n.enter(ctx, models.HostStageRebooting, "", delay); err != nil {
		return err
	}
	n.power(&reboot{into: fromDisk, reason: "the host is installed"})
	return nil
}
