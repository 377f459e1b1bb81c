package simulate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"
)

// Times of a host at speed 1.
const (
	bootTime = 90 * time.Second
	// wrongBootTime is the time until the operator notices that a host with WrongBootOrder booted
	// from the wrong device.
	wrongBootTime = 10 * time.Minute
)

// medium is the device that a host booted from.
type medium string

const (
	fromImage medium = "the discovery image"
	fromDisk  medium = "its disk"
)

// host is one simulated host.
type host struct {
	group   *HostGroup
	machine machine
	ref     hostRef
	link    *link

	// commands passes commands of the cluster's watcher (controller.go) to the host: a *reboot or a
	// *hostResult.
	commands chan error

	mu sync.Mutex
	// disc is the image in the host's drive. It is nil if the host downloads the infra-env's image
	// itself.
	disc *media
	// write, if set, writes the installed system to the disk with the given path.
	write func(ctx context.Context, path string) error
	// agentImage is the agent's version. An upgrade changes it.
	agentImage string
	// vips contains the verified virtual addresses by type. The site's DNS resolves them.
	vips map[models.VipType]string
	// disk is true while the host runs from its disk.
	disk bool
	// bootEpoch is incremented each time the host becomes visible to the appliance: it registers or
	// boots from its disk. steady is true from then until the host's next restart.
	bootEpoch int
	steady    bool
	// bootedWrong is set after WrongBootOrder took effect. linkCuts contains the occasions at which
	// LostLink took effect.
	bootedWrong bool
	linkCuts    map[models.HostStage]bool

	// polls counts the answered polls whose steps were started. gathering counts the running steps
	// that collect logs.
	polls, gathering atomic.Int64
}

func newHost(c *HostGroup, m machine) *host {
	return &host{
		group: c, machine: m, link: &link{clock: c.Clock}, commands: make(chan error, 1),
		ref:  hostRef{infraEnv: strfmt.UUID(c.InfraEnvID), host: strfmt.UUID(m.id)},
		vips: map[models.VipType]string{}, linkCuts: map[models.HostStage]bool{},
	}
}

// reboot ends the current boot of a host.
type reboot struct {
	into   medium
	reason string
}

func (r *reboot) Error() string { return fmt.Sprintf("the host reboots into %s: %s", r.into, r.reason) }

// hostResult ends a host: installed (Err is nil) or failed.
type hostResult struct{ Err error }

func (v *hostResult) Error() string {
	if v.Err == nil {
		return "the host is installed"
	}
	return v.Err.Error()
}

func (v *hostResult) Unwrap() error { return v.Err }

// run runs the host until it is installed (nil) or fails.
func (h *host) run(ctx context.Context) error {
	ctx = context.WithValue(ctx, linkKey{}, h.link)
	recorded, up, err := h.resume(ctx)
	if err != nil {
		return err
	}
	return h.runFrom(ctx, recorded, up)
}

// runFrom runs the host from the given medium. recorded is the host in the API, or nil.
func (h *host) runFrom(ctx context.Context, recorded *models.Host, up medium) error {
	for {
		var end error
		if up == fromDisk {
			end = h.onDisk(ctx, recorded)
		} else {
			end = h.runDiscovery(ctx, recorded)
		}
		recorded = nil
		var restart *reboot
		var result *hostResult
		switch {
		case errors.As(end, &restart):
			up = restart.into
			h.emit(Event{Kind: EventRebooted, Info: string(up) + ": " + restart.reason})
			if err := h.group.pause(ctx, bootTime); err != nil {
				return err
			}
		case errors.As(end, &result):
			return h.finish(ctx, result.Err)
		default:
			return h.finish(ctx, end)
		}
	}
}

// finish ends a host. With KeepFailed, a failed host remains until the group's context ends.
func (h *host) finish(ctx context.Context, err error) error {
	if err != nil && h.group.KeepFailed && ctx.Err() == nil {
		h.emit(Event{Kind: EventFailed, Info: err.Error()})
		<-ctx.Done()
	}
	return err
}

// resume restores the host's state from an earlier run of the group: when a simulator ends, its
// machines stay on. A host in an installation continues it. It does not register again, because the
// appliance would interpret that as a reboot.
func (h *host) resume(ctx context.Context) (*models.Host, medium, error) {
	find, err := h.finder()
	if err != nil {
		return nil, fromImage, err
	}
	var recorded *models.Host
	err = h.group.retry(ctx, func() (err error) {
		recorded, err = find(ctx, h.ref)
		if status := statusOf(err); status == http.StatusNotFound {
			return nil
		}
		return err
	})
	if err != nil || recorded == nil || recorded.Status == nil {
		return nil, fromImage, err
	}
	switch *recorded.Status {
	case models.HostStatusInstalled, models.HostStatusAddedToExistingCluster:
		return recorded, fromDisk, nil
	case models.HostStatusPreparingForInstallation, models.HostStatusPreparingSuccessful, models.HostStatusInstalling,
		models.HostStatusInstallingInProgress, models.HostStatusInstallingPendingUserAction:
		if isAfterReboot(stageOf(recorded)) {
			return recorded, fromDisk, nil
		}
		return recorded, fromImage, nil
	}
	return nil, fromImage, nil
}

// finder returns a function that reads a host from the appliance, or nil. A machine with a disc has
// no operator: it uses the address, the authority and the token on its disc.
func (h *host) finder() (func(context.Context, hostRef) (*models.Host, error), error) {
	h.mu.Lock()
	disc := h.disc
	h.mu.Unlock()
	if disc == nil {
		return newOperator(h.group.base, h.group.Token, h.group.transport).host, nil
	}
	machine, err := h.group.connect(disc.config.ServiceURL, disc.config.PullSecretToken, string(disc.config.ServiceCA))
	if err != nil {
		return nil, err
	}
	return machine.listedHost, nil
}

func stageOf(recorded *models.Host) models.HostStage {
	if recorded == nil || recorded.Progress == nil {
		return ""
	}
	return recorded.Progress.CurrentStage
}

// isAfterReboot reports whether a host can be in the stage only after it booted from its disk.
func isAfterReboot(stage models.HostStage) bool {
	switch stage {
	case models.HostStageRebooting, models.HostStageWaitingForIgnition, models.HostStageConfiguring,
		models.HostStageJoined, models.HostStageDone:
		return true
	}
	return false
}

// onDisk runs a host that booted from its disk. The host sends no requests; its cluster's
// controller reports for it.
func (h *host) onDisk(ctx context.Context, recorded *models.Host) error {
	if recorded != nil && recorded.ClusterID != nil {
		connection, err := h.reconnect(ctx)
		if err != nil {
			return err
		}
		h.group.watch(*recorded.ClusterID, connection)
	}
	if h.bootsImageAgain() {
		return &reboot{into: fromImage, reason: "the boot order is wrong"}
	}
	h.upFromDisk(true)
	defer h.upFromDisk(false)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case command := <-h.commands:
		return command
	}
}

// reconnect finds the appliance for a host that booted from its disk before the group was started.
// It reads the address from the image.
func (h *host) reconnect(ctx context.Context) (*connection, error) {
	inserted, err := h.insert(ctx)
	if err != nil {
		return nil, err
	}
	return h.group.connect(inserted.config.ServiceURL, inserted.config.PullSecretToken,
		string(inserted.config.ServiceCA))
}

func (h *host) bootsImageAgain() bool {
	_, wrong := h.fault(WrongBootOrder)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !wrong || h.bootedWrong {
		return false
	}
	h.bootedWrong = true
	return true
}

// system is a host that runs the discovery image, with the agent and the installer.
type system struct {
	*host
	media *media
	api   *connection
	// power ends the system. The cause is a *reboot or a *hostResult.
	power context.CancelCauseFunc
	// up is the context of everything that runs until the host is shut down.
	up        context.Context
	processes sync.WaitGroup

	// bootedWrong is set until an operator can notice that the host booted from the wrong device.
	bootedWrong bool
	// installStep is true while an install step is executed.
	installStep atomic.Bool

	mu        sync.Mutex
	installer *nodeInstaller
	upgraded  bool
}

// runDiscovery runs one boot from the discovery image until the host reboots (*reboot), ends
// (*hostResult) or the context ends.
func (h *host) runDiscovery(ctx context.Context, recorded *models.Host) error {
	inserted, err := h.insert(ctx)
	if err != nil {
		return err
	}
	api, err := h.group.connect(inserted.config.ServiceURL, inserted.config.PullSecretToken,
		string(inserted.config.ServiceCA))
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.agentImage = inserted.config.AgentImage
	h.ref.infraEnv = strfmt.UUID(inserted.config.InfraEnvID)
	bootedWrong := h.bootedWrong && recorded == nil
	h.mu.Unlock()
	h.emit(Event{Kind: EventBooted, Info: fmt.Sprintf("%s of %s", fromImage, inserted.config.ServiceURL)})

	up, power := context.WithCancelCause(ctx)
	s := &system{host: h, media: inserted, api: api, power: power, up: up, bootedWrong: bootedWrong}
	h.dropCommands()
	s.processes.Go(s.followCommands)
	err = s.agent(up, recorded)
	power(err)
	s.processes.Wait()
	return context.Cause(up)
}

// followCommands executes the commands of the watcher of the host's cluster.
func (s *system) followCommands() {
	select {
	case <-s.up.Done():
	case command := <-s.commands:
		s.power(command)
	}
}

// fixBootOrder acts as an operator who notices some time after the host registered again that it
// booted from the wrong device.
func (s *system) fixBootOrder() {
	if err := s.group.pause(s.up, wrongBootTime); err == nil {
		s.power(&reboot{into: fromDisk, reason: "the boot order was corrected"})
	}
}

// currentEpoch returns the host's boot epoch. A command that depends on the state in the appliance
// carries it.
func (h *host) currentEpoch() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bootEpoch
}

// sendCommand sends the host a command that follows from the cluster's state. That state is older
// than the command. The host ignores the command if it has restarted since, or if it is not visible
// to the appliance yet. A pending command is kept.
func (h *host) sendCommand(command error, epoch int) (accepted bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.steady || h.bootEpoch != epoch {
		return false
	}
	select {
	case h.commands <- command:
	default:
	}
	return true
}

// dropCommands drops a command from before the host's restart.
func (h *host) dropCommands() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.steady = false
	select {
	case <-h.commands:
	default:
	}
}

// emit sends an event of this host.
func (h *host) emit(event Event) {
	event.Host, event.HostID, event.Hostname = h.machine.number, h.ref.host, h.machine.hostname
	h.group.emit(event)
}

// fault returns the host's fault of the given kind.
func (h *host) fault(kind FaultKind) (Fault, bool) {
	return h.group.Faults.find(kind, h.machine.number)
}

// now returns the time on the host's clock.
func (h *host) now() time.Time {
	skew, _ := h.fault(ClockSkew)
	return h.group.Clock.Now().Add(skew.Duration)
}

// cutLink cuts the host's link if the host has that fault and has not lost its link on this
// occasion before.
func (h *host) cutLink(occasion models.HostStage) {
	lost, has := h.fault(LostLink)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !has || h.linkCuts[occasion] {
		return
	}
	h.linkCuts[occasion] = true
	h.link.cut(h.group.scaled(lost.Duration))
}

func (h *host) upFromDisk(up bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.disk, h.steady = up, up
	h.bootEpoch++
}

// markRegistering records that the host is about to register. Until then, the appliance's
// information about the host is outdated.
func (h *host) markRegistering() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.steady = false
}

// markRegistered records that the appliance has registered that the host runs the discovery image.
func (h *host) markRegistered() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.steady = true
	h.bootEpoch++
}

func (h *host) isUpFromDisk() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.disk
}

// version returns the agent's current version.
func (h *host) version() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.agentImage
}

func (h *host) upgrade(image string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.agentImage = image
}

// jitter changes a delay by up to a tenth, so that hosts that start together do not poll together.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}
