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

// How long the parts of a host's life take at speed 1.
const (
	bootTime = 90 * time.Second
	// wrongBootTime is how long nobody notices that a host with WrongBootOrder is up from the wrong
	// device.
	wrongBootTime = 10 * time.Minute
)

// medium is what a host is up from.
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

	// orders is how the cluster's watcher (controller.go) speaks to a host: a *reboot or a
	// *verdict.
	orders chan error

	mu sync.Mutex
	// disc is what was put into its drive; nil if the host finds the infra-env's image by itself.
	disc *media
	// write, if set, writes to the disk at a path what the host comes up from after its
	// installation.
	write func(ctx context.Context, path string) error
	// agentImage is the agent's version, which an upgrade changes.
	agentImage string
	// vips are those that the appliance had verified, by type: the site's DNS answers with them.
	vips map[models.VipType]string
	// disk is true while the host is up from its disk.
	disk bool
	// standings counts the times that the host came to where the appliance can know of it:
	// registered, or up from its disk. It is steady from then on until it restarts.
	standings int
	steady    bool
	// misbooted is set once WrongBootOrder has had its effect, and linkCuts remembers on which
	// occasions LostLink has.
	misbooted bool
	linkCuts  map[models.HostStage]bool

	// polls counts the answers to its agent's polls whose steps were begun, gathering how many of
	// these gather logs just now.
	polls, gathering atomic.Int64
}

func newHost(c *HostGroup, m machine) *host {
	return &host{
		group: c, machine: m, link: &link{clock: c.Clock}, orders: make(chan error, 1),
		ref:  hostRef{infraEnv: strfmt.UUID(c.InfraEnvID), host: strfmt.UUID(m.id)},
		vips: map[models.VipType]string{}, linkCuts: map[models.HostStage]bool{},
	}
}

// reboot is the end of what a host is up from now.
type reboot struct {
	into medium
	why  string
}

func (r *reboot) Error() string { return fmt.Sprintf("the host reboots into %s: %s", r.into, r.why) }

// verdict is the end of a host: installed (Err nil) or failed for good.
type verdict struct{ Err error }

func (v *verdict) Error() string {
	if v.Err == nil {
		return "the host is installed"
	}
	return v.Err.Error()
}

func (v *verdict) Unwrap() error { return v.Err }

// run lives the host's life: nil means that it ended installed.
func (h *host) run(ctx context.Context) error {
	ctx = context.WithValue(ctx, linkKey{}, h.link)
	known, up, err := h.resume(ctx)
	if err != nil {
		return err
	}
	return h.runFrom(ctx, known, up)
}

// runFrom lives the host's life from where it is up from.
func (h *host) runFrom(ctx context.Context, known *models.Host, up medium) error {
	for {
		var end error
		if up == fromDisk {
			end = h.onDisk(ctx, known)
		} else {
			end = h.live(ctx, known)
		}
		known = nil
		var restart *reboot
		var settled *verdict
		switch {
		case errors.As(end, &restart):
			up = restart.into
			h.emit(Event{Kind: EventRebooted, Info: string(up) + ": " + restart.why})
			if err := h.group.pause(ctx, bootTime); err != nil {
				return err
			}
		case errors.As(end, &settled):
			return h.settle(ctx, settled.Err)
		default:
			return h.settle(ctx, end)
		}
	}
}

// settle ends a host; one that failed stays until the operator ends the group if KeepFailed says
// so.
func (h *host) settle(ctx context.Context, err error) error {
	if err != nil && h.group.KeepFailed && ctx.Err() == nil {
		h.emit(Event{Kind: EventFailed, Info: err.Error()})
		<-ctx.Done()
	}
	return err
}

// recall finds out where the host was left when the group ran before: machines do not lose their
// power because a simulator ended. A host in the middle of an installation goes on with it instead
// of registering anew, which the appliance would have to take for a reboot.
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

// isAfterReboot is true of the stages that only a host which is up from its disk has.
func isAfterReboot(stage models.HostStage) bool {
	switch stage {
	case models.HostStageRebooting, models.HostStageWaitingForIgnition, models.HostStageConfiguring,
		models.HostStageJoined, models.HostStageDone:
		return true
	}
	return false
}

// onDisk is a host that is up from its disk: it speaks to nobody here, and its cluster's controller
// speaks for it.
func (h *host) onDisk(ctx context.Context, known *models.Host) error {
	if known != nil && known.ClusterID != nil {
		connection, err := h.reconnect(ctx)
		if err != nil {
			return err
		}
		h.group.watch(*known.ClusterID, connection)
	}
	if h.bootsImageAgain() {
		return &reboot{into: fromImage, why: "its boot order is wrong"}
	}
	h.upFromDisk(true)
	defer h.upFromDisk(false)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case order := <-h.orders:
		return order
	}
}

// reconnect finds the appliance again for a host that is up from its disk since before the group
// ran: its address is in the image still.
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
	if !wrong || h.misbooted {
		return false
	}
	h.misbooted = true
	return true
}

// system is a host that is up from the discovery image: the agent, and the installer beside it.
type system struct {
	*host
	media *media
	api   *connection
	// power ends it; the cause says what comes after (a *reboot or *verdict).
	power context.CancelCauseFunc
	// up is the context of everything that runs while the host is up.
	up        context.Context
	processes sync.WaitGroup

	// ordered is true while an install step is being carried out.
	ordered atomic.Bool

	mu        sync.Mutex
	installer *nodeInstaller
	upgraded  bool
}

// live is one boot from the discovery image. It returns when the host reboots (*reboot), ends
// (*verdict) or ctx does.
func (h *host) live(ctx context.Context, known *models.Host) error {
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
	misbooted := h.misbooted && known == nil
	h.mu.Unlock()
	h.emit(Event{Kind: EventBooted, Info: fmt.Sprintf("%s of %s", fromImage, inserted.config.ServiceURL)})

	up, power := context.WithCancelCause(ctx)
	s := &system{host: h, media: inserted, api: api, power: power, up: up}
	h.forgetOrders()
	s.processes.Go(s.followOrders)
	if misbooted {
		s.processes.Go(s.fixBootOrder)
	}
	err = s.agent(up, known)
	power(err)
	s.processes.Wait()
	return context.Cause(up)
}

// obey carries out what the watcher of the host's cluster orders.
func (s *system) followOrders() {
	select {
	case <-s.up.Done():
	case order := <-s.orders:
		s.power(order)
	}
}

// fixBootOrder is the operator who notices after a while that a host came up from the wrong device.
func (s *system) fixBootOrder() {
	if err := s.group.pause(s.up, wrongBootTime); err == nil {
		s.power(&reboot{into: fromDisk, why: "its boot order was put right"})
	}
}

// stands says where the host is in its life, for an order that is decided by what the appliance
// says of it.
func (h *host) stands() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.standings
}

// order tells the host what its cluster's state means for it. The state is older than the order: a
// host that has restarted since, or has not come back to the appliance yet, does not hear it. An
// order that the host has not taken yet stays the one that counts.
func (h *host) order(what error, standings int) (heard bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.steady || h.standings != standings {
		return false
	}
	select {
	case h.orders <- what:
	default:
	}
	return true
}

// forgetOrders drops an order from before the host restarted.
func (h *host) forgetOrders() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.steady = false
	select {
	case <-h.orders:
	default:
	}
}

// emit sends an event of this host.
func (h *host) emit(event Event) {
	event.Host, event.HostID, event.Hostname = h.machine.number, h.ref.host, h.machine.hostname
	h.group.emit(event)
}

// fault is the host's fault of that kind, if it has it.
func (h *host) fault(kind FaultKind) (Fault, bool) {
	return h.group.Faults.find(kind, h.machine.number)
}

// now is the time that the host's clock shows.
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
	h.standings++
}

// unsettled notes that the host is about to register: what the appliance says of it until then is
// old.
func (h *host) unsettled() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.steady = false
}

// settled notes that the appliance knows of the host being up from the discovery image.
func (h *host) settled() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.steady = true
	h.standings++
}

func (h *host) isUpFromDisk() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.disk
}

// version is the agent's version now.
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

// jitter moves a wait by up to a tenth, so that hosts which were started together do not poll
// together.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}
