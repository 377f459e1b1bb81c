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
	// wrongBootTime is the time until somebody notices that a host with WrongBootOrder booted from
	// the wrong device.
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

	// orders passes orders of the cluster's watcher (controller.go) to the host: a *reboot or a
	// *verdict.
	commands chan error

	mu sync.Mutex
	// disc is the image in the host's drive; nil if the host fetches the infra-env's image by
	// itself.
	disc *media
	// write, if set, writes the installed system to the disk with the given path.
	write func(ctx context.Context, path string) error
	// agentImage is the agent's version, which an upgrade changes.
	agentImage string
	// vips are the verified virtual addresses by type. The site's DNS answers with them.
	vips map[models.VipType]string
	// disk is true while the host runs from its disk.
	disk bool
	// standings counts the times that the host became visible to the appliance: it registered or
	// booted from its disk. The host is steady from then until its restart.
	bootEpoch int
	steady    bool
	// bootedWrong is set after WrongBootOrder had its effect. linkCuts holds the occasions of
	// LostLink that had theirs.
	bootedWrong bool
	linkCuts    map[models.HostStage]bool

	// polls counts the answered polls whose steps were started, gathering those that are gathering
	// logs now.
	polls, gathering atomic.Int64
}

func newHost(c *HostGroup, m machine) *host {
	return &host{
		group: c, machine: m, link: &link{clock: c.Clock}, commands: make(chan error, 1),
		ref:  hostRef{infraEnv: strfmt.UUID(c.InfraEnvID), host: strfmt.UUID(m.id)},
		vips: map[models.VipType]string{}, linkCuts: map[models.HostStage]bool{},
	}
}

// reboot ends the present boot of a host.
type reboot struct {
	into   medium
	reason string
}

func (r *reboot) Error() string { return fmt.Sprintf("the host reboots into %s: %s", r.into, r.reason) }

// verdict ends a host: installed (Err nil) or failed.
type hostResult struct{ Err error }

func (v *hostResult) Error() string {
	if v.Err == nil {
		return "the host is installed"
	}
	return v.Err.Error()
}

func (v *hostResult) Unwrap() error { return v.Err }

// run runs the host until it is installed (nil) or has failed.
func (h *host) run(ctx context.Context) error {
	ctx = context.WithValue(ctx, linkKey{}, h.link)
	known, up, err := h.resume(ctx)
	if err != nil {
		return err
	}
	return h.runFrom(ctx, known, up)
}

// runFrom runs the host from the given medium.
func (h *host) runFrom(ctx context.Context, known *models.Host, up medium) error {
	for {
		var end error
		if up == fromDisk {
			end = h.onDisk(ctx, known)
		} else {
			end = h.runDiscovery(ctx, known)
		}
		known = nil
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

// finish ends a host. With KeepFailed, a failed host stays until the operator ends the group.
func (h *host) finish(ctx context.Context, err error) error {
	if err != nil && h.group.KeepFailed && ctx.Err() == nil {
		h.emit(Event{Kind: EventFailed, Info: err.Error()})
		<-ctx.Done()
	}
	return err
}

// resume finds the host's state from an earlier run of the group, because machines keep their power
// when a simulator ends. A host in an installation continues it. It does not register again, since
// the appliance would take that for a reboot.
func (h *host) resume(ctx context.Context) (*models.Host, medium, error) {
	operator := newConnection(h.group.base, "", h.group.transport)
	var known *models.Host
	err := h.group.retry(ctx, func() (err error) {
		known, err = operator.host(ctx, h.ref)
		if status := statusOf(err); status == http.StatusNotFound {
			return nil
		}
		return err
	})
	if err != nil || known == nil || known.Status == nil {
		return nil, fromImage, err
	}
	switch *known.Status {
	case models.HostStatusInstalled, models.HostStatusAddedToExistingCluster:
		return known, fromDisk, nil
	case models.HostStatusPreparingForInstallation, models.HostStatusPreparingSuccessful, models.HostStatusInstalling,
		models.HostStatusInstallingInProgress, models.HostStatusInstallingPendingUserAction:
		if isAfterReboot(stageOf(known)) {
			return known, fromDisk, nil
		}
		return known, fromImage, nil
	}
	return nil, fromImage, nil
}

func stageOf(known *models.Host) models.HostStage {
	if known == nil || known.Progress == nil {
		return ""
	}
	return known.Progress.CurrentStage
}

// isAfterReboot reports whether only a host that booted from its disk has the stage.
func isAfterReboot(stage models.HostStage) bool {
	switch stage {
	case models.HostStageRebooting, models.HostStageWaitingForIgnition, models.HostStageConfiguring,
		models.HostStageJoined, models.HostStageDone:
		return true
	}
	return false
}

// onDisk runs a host that booted from its disk. It sends nothing itself; its cluster's controller
// reports for it.
func (h *host) onDisk(ctx context.Context, known *models.Host) error {
	if known != nil && known.ClusterID != nil {
		connection, err := h.reconnect(ctx)
		if err != nil {
			return err
		}
		h.group.watch(*known.ClusterID, connection)
	}
	if h.bootsImageAgain() {
		return &reboot{into: fromImage, reason: "its boot order is wrong"}
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

// reconnect finds the appliance for a host that booted from its disk before the group ran. The
// address is still in the image.
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

// system is a host that runs the discovery image: the agent, and the installer beside it.
type system struct {
	*host
	media *media
	api   *connection
	// power ends the system. The cause (a *reboot or *verdict) says what follows.
	power context.CancelCauseFunc
	// up is the context of everything that runs while the host is up.
	up        context.Context
	processes sync.WaitGroup

	// installStep is true while an install step is executed.
	installStep atomic.Bool

	mu        sync.Mutex
	installer *nodeInstaller
	upgraded  bool
}

// live runs one boot from the discovery image until the host reboots (*reboot), ends (*verdict) or
// the context is done.
func (h *host) runDiscovery(ctx context.Context, known *models.Host) error {
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
	bootedWrong := h.bootedWrong && known == nil
	h.mu.Unlock()
	h.emit(Event{Kind: EventBooted, Info: fmt.Sprintf("%s of %s", fromImage, inserted.config.ServiceURL)})

	up, power := context.WithCancelCause(ctx)
	s := &system{host: h, media: inserted, api: api, power: power, up: up}
	h.dropCommands()
	s.processes.Go(s.followCommands)
	if bootedWrong {
		s.processes.Go(s.fixBootOrder)
	}
	err = s.agent(up, known)
	power(err)
	s.processes.Wait()
	return context.Cause(up)
}

// followCommands executes the orders of the watcher of the host's cluster.
func (s *system) followCommands() {
	select {
	case <-s.up.Done():
	case command := <-s.commands:
		s.power(command)
	}
}

// fixBootOrder acts as the operator who notices after a while that a host booted from the wrong
// device.
func (s *system) fixBootOrder() {
	if err := s.group.pause(s.up, wrongBootTime); err == nil {
		s.power(&reboot{into: fromDisk, reason: "its boot order was put right"})
	}
}

// stands returns the host's count of standings, for an order that depends on what the appliance
// reports.
func (h *host) currentEpoch() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bootEpoch
}

// order gives the host an order that follows from the cluster's state. The state is older than the
// order: a host that has restarted since, or is not yet visible to the appliance again, ignores it.
// A pending order stays.
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

// dropCommands drops an order from before the host's restart.
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

// cutLink cuts the host's link if it has that fault and has not lost it on this occasion before.
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

// unsettled records that the host is about to register: until then, the appliance's information is
// old.
func (h *host) markRegistering() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.steady = false
}

// settled records that the appliance knows that the host runs the discovery image.
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

// version returns the agent's present version.
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

// jitter changes a wait by up to a tenth, so that hosts that start together do not poll together.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}
