// Package simulate simulates the rest of a site: hosts that boot the discovery image and are
// installed (this package), the mirror registry with its release payload (registry),
// openshift-install (installer), BMCs (redfish), and whole sites over long times (scenario). The
// hosts speak the protocols of the Assisted Installer's agent, installer and controller over HTTP.
// The demo, the end-to-end tests and load tests use the same hosts.
//
// A HostGroup contains hosts that boot the image of one infra-env. Each host runs in its own
// goroutine. While it runs the discovery image (host.go), its agent (agent.go) and its installer
// (nodeinstaller.go) send requests. While it runs from its disk, its cluster's controller reports
// for it (controller.go). hardware.go describes the hosts' hardware, faults.go their faults.
package simulate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/jonboulle/clockwork"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/egress"
	"landfall/appliance/mirror"
)

// DefaultNetwork is the network of hosts whose group names none.
func DefaultNetwork() netip.Prefix { return netip.MustParsePrefix("192.168.100.0/24") }

// pollFloor is the minimum time between two polls at any speed. It prevents a busy loop.
const pollFloor = 50 * time.Millisecond

// HostGroup is a group of simulated hosts that boot the discovery image of one infra-env. Set the
// fields before Run and do not change them afterwards.
type HostGroup struct {
	// URL is the appliance's URL from the operator's point of view, without the API's path. Only
	// the discovery image is downloaded from it. The hosts use the address in the image.
	URL string
	// InfraEnvID is the ID of the infra-env.
	InfraEnvID string
	// Count is the number of hosts. First is the number of the first host (0 means 1). A later
	// group for the same infra-env must start with a number that is not used yet.
	Count, First int
	// Speed divides all delays; 1 (and 0) is the speed of real hosts.
	Speed float64
	// Faults are the faults of the hosts.
	Faults Faults
	// KeepFailed keeps failed hosts until Run's context ends, so that the operator can act, for
	// example reset the cluster. Without it, failed hosts are done.
	KeepFailed bool
	// Clock is the hosts' clock; nil means the real clock.
	Clock clockwork.Clock
	// Logger logs one line per event; nil discards them.
	Logger *slog.Logger
	// Token is the bearer token of an operator, with which the hosts request their image. It is ""
	// if the appliance does not authenticate people. Agents use the token in the image.
	Token string
	// HTTP provides the transport of all hosts; nil means a separate transport.
	HTTP *http.Client
	// Seed distinguishes the hosts of two groups for one infra-env. Equal seeds result in equal
	// hosts.
	Seed uint64
	// Network is the IPv4 network of the hosts, which use the addresses from the tenth. The zero
	// value means DefaultNetwork.
	Network netip.Prefix
	// Hardware describes the hosts' hardware.
	Hardware Hardware
	// Planned contains properties of individual hosts, beginning with the host that has the number
	// First.
	Planned []Planned
	// Resolve resolves a name in the site's DNS. nil simulates a DNS with all names of a cluster.
	Resolve func(ctx context.Context, name string) []netip.Addr
	// Egress decides which registries the hosts may reach; nil allows all.
	Egress *egress.Rules
	// Spokes, if set, simulates the APIs of installed clusters. Hosts that join a cluster become
	// its nodes.
	Spokes *Spokes
	// Observer, if set, is called for each event. Calls are not concurrent. It must not block.
	Observer func(Event)

	transport http.RoundTripper
	base      *url.URL
	log       *slog.Logger

	observing sync.Mutex

	mu          sync.Mutex
	connections map[connectionKey]*connection
	mirrors     map[string]*mirror.Client
	verified    map[string]bool
	hosts       map[strfmt.UUID]*host
	clusters    map[strfmt.UUID]*cluster
	pending     int
	controllers sync.WaitGroup
	// lifetime is Run's context. Controllers use it, because they belong to no host.
	lifetime context.Context
	failures []error
}

// EventKind is the kind of an event.
type EventKind string

// Kinds of events.
const (
	// EventBooted: the host runs the discovery image. Info identifies the image.
	EventBooted EventKind = "booted"
	// EventRegistered: the host is registered.
	EventRegistered EventKind = "registered"
	// EventStep: the host executed a step. Info is the step's type.
	EventStep EventKind = "step"
	// EventStage: the host's installation reached Stage. Info is the progress within it.
	EventStage EventKind = "stage"
	// EventRebooted: the host restarted. Info contains the medium.
	EventRebooted EventKind = "rebooted"
	// EventFrozen: the agent stopped until a reboot, like a real agent. Info is the reason.
	EventFrozen EventKind = "frozen"
	// EventInstalled and EventFailed end a host. Info is the reason for a failure.
	EventInstalled EventKind = "installed"
	EventFailed    EventKind = "failed"
	// EventFinalizing: the cluster's controller reached the finalizing stage in Info.
	EventFinalizing EventKind = "finalizing"
	// EventCompleted: the controller reported the end of the installation.
	EventCompleted EventKind = "completed"
)

// Event is an event of a host. If Host is 0, it is an event of a cluster.
type Event struct {
	Time      time.Time
	Kind      EventKind
	Host      int
	HostID    strfmt.UUID
	Hostname  string
	ClusterID strfmt.UUID
	Stage     models.HostStage
	Info      string
}

// HostError reports the failure of a host.
type HostError struct {
	Host     int
	Hostname string
	ID       strfmt.UUID
	Err      error
}

// Error returns the host and the reason.
func (e *HostError) Error() string {
	return fmt.Sprintf("simulated host %d (%s, %s): %v", e.Host, e.Hostname, e.ID, e.Err)
}

// Unwrap returns the reason.
func (e *HostError) Unwrap() error { return e.Err }

// Run boots the hosts. It returns when all hosts are installed or have failed and the controllers
// of their clusters have ended. The error joins a HostError per failed host, and the context's
// error if the context ended first. Run waits for an appliance that does not respond.
func (c *HostGroup) Run(ctx context.Context) error {
	if err := c.prepare(); err != nil {
		return err
	}
	hosts, err := c.newHosts()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.lifetime = ctx
	c.pending = len(hosts)
	var running sync.WaitGroup
	for _, h := range hosts {
		running.Go(func() { c.finish(h, h.run(ctx)) })
	}
	running.Wait()
	c.controllers.Wait()

	c.mu.Lock()
	defer c.mu.Unlock()
	for _, registries := range c.mirrors {
		registries.CloseIdleConnections()
	}
	return errors.Join(append(c.failures, context.Cause(ctx))...)
}

func (c *HostGroup) prepare() error {
	base, err := url.Parse(c.URL)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return fmt.Errorf("%q is not the URL of an appliance: use a URL such as http://127.0.0.1:8090", c.URL)
	}
	if !strfmt.IsUUID(c.InfraEnvID) {
		return fmt.Errorf("%q is not the id of an infra-env: ids are UUIDs", c.InfraEnvID)
	}
	if c.Count < 1 {
		return fmt.Errorf("a group cannot have %d hosts: request 1 or more", c.Count)
	}
	if c.Speed < 0 {
		return fmt.Errorf("speed %g is negative: 1 is real time, 60 is one minute per second", c.Speed)
	}
	if !c.Network.IsValid() {
		c.Network = DefaultNetwork()
	}
	if !c.Network.Addr().Is4() || c.Network.Bits() > 30 {
		return fmt.Errorf("network %s is not an IPv4 network with space for hosts", c.Network)
	}
	if c.Speed == 0 {
		c.Speed = 1
	}
	if c.First < 1 {
		c.First = 1
	}
	if c.Clock == nil {
		c.Clock = clockwork.NewRealClock()
	}
	c.log = c.Logger
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	var lent http.RoundTripper
	if c.HTTP != nil {
		lent = c.HTTP.Transport
	}
	c.base = base
	c.transport, err = newTransport(lent, "")
	c.connections = map[connectionKey]*connection{}
	c.mirrors = map[string]*mirror.Client{}
	c.verified = map[string]bool{}
	c.hosts = map[strfmt.UUID]*host{}
	c.clusters = map[strfmt.UUID]*cluster{}
	return err
}

// newHosts creates the hosts.
func (c *HostGroup) newHosts() ([]*host, error) {
	var hosts []*host
	for number := c.First; number < c.First+c.Count; number++ {
		m, err := newMachine(c, number)
		if err != nil {
			return nil, err
		}
		h := newHost(c, m)
		hosts = append(hosts, h)
		c.hosts[h.ref.host] = h
	}
	return hosts, nil
}

// finish records the end of a host.
func (c *HostGroup) finish(h *host, err error) {
	c.mu.Lock()
	c.pending--
	c.mu.Unlock()
	if err == nil {
		h.emit(Event{Kind: EventInstalled})
		return
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return
	}
	h.emit(Event{Kind: EventFailed, Info: err.Error()})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures = append(c.failures, &HostError{Host: h.machine.number, Hostname: h.machine.hostname, ID: h.ref.host,
		Err: err})
}

// emit logs an event and calls the observer.
func (c *HostGroup) emit(event Event) {
	event.Time = c.Clock.Now()
	c.log.Info(string(event.Kind), "host", event.Hostname, "host_id", string(event.HostID), "cluster_id",
		string(event.ClusterID),
		"stage", string(event.Stage), "info", event.Info)
	if c.Observer == nil {
		return
	}
	c.observing.Lock()
	defer c.observing.Unlock()
	c.Observer(event)
}

type connectionKey struct{ url, token, ca string }

// connect returns the connection to an appliance with a token and a CA. Hosts with equal arguments
// share it.
func (c *HostGroup) connect(address, token, ca string) (*connection, error) {
	base, err := url.Parse(address)
	if err != nil || base.Host == "" {
		return nil, fmt.Errorf("the appliance's address in the discovery config, %q, is not a URL", address)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := connectionKey{address, token, ca}
	if existing, ok := c.connections[key]; ok {
		return existing, nil
	}
	transport, err := newTransport(c.transport, ca)
	if err != nil {
		return nil, err
	}
	c.connections[key] = newConnection(base, token, transport)
	return c.connections[key], nil
}

// otherHost returns the group's host with the given ID, or nil.
func (c *HostGroup) otherHost(id strfmt.UUID) *host {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hosts[id]
}

// epochs returns the boot epochs of the hosts.
func (c *HostGroup) epochs() map[strfmt.UUID]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	epochs := make(map[strfmt.UUID]int, len(c.hosts))
	for id, h := range c.hosts {
		epochs[id] = h.currentEpoch()
	}
	return epochs
}

// scaled returns the duration of a delay of d in this group.
func (c *HostGroup) scaled(d time.Duration) time.Duration { return time.Duration(float64(d) / c.Speed) }

// pause waits for a scaled duration. If the context ends, it returns the cause.
func (c *HostGroup) pause(ctx context.Context, d time.Duration) error {
	return c.wait(ctx, c.scaled(d))
}

// rest waits between two polls, for pollFloor at least.
func (c *HostGroup) rest(ctx context.Context, d time.Duration) error {
	return c.wait(ctx, max(c.scaled(d), pollFloor))
}

func (c *HostGroup) wait(ctx context.Context, d time.Duration) error {
	if d <= 0 || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	timer := c.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.Chan():
		return nil
	}
}

// backoff computes growing random delays up to a limit. They differ between hosts.
type backoff struct{ next, limit time.Duration }

// agentBackoff returns the agent's backoff after polls without a response.
func agentBackoff() *backoff { return &backoff{next: 500 * time.Millisecond, limit: time.Minute} }

// installerBackoff returns the installer's and the controller's backoff between attempts of a
// request.
func installerBackoff() *backoff { return &backoff{next: 2 * time.Second, limit: 10 * time.Second} }

func (b *backoff) delay() time.Duration {
	d := b.next
	b.next = min(b.next*3/2, b.limit)
	return time.Duration(float64(d) * (0.5 + rand.Float64()))
}

// missingRetries is the number of the installer's retries after 404, 423 or 425.
const missingRetries = 10

// retry repeats a request like the installer. It repeats without limit if there is no response or
// the status is 5xx (except 501), 408 or 429, and a few times for 404, 423 and 425. It does not
// repeat after other rejections.
func (c *HostGroup) retry(ctx context.Context, request func() error) error {
	waiting := installerBackoff()
	missing := 0
	for {
		err := request()
		if err == nil || ctx.Err() != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		switch status := statusOf(err); {
		case status == 0, status >= 500 && status != http.StatusNotImplemented, status == http.StatusRequestTimeout,
			status == http.StatusTooManyRequests:
		case (status == http.StatusNotFound || status == http.StatusLocked || status == http.StatusTooEarly) &&
			missing < missingRetries:
			missing++
		default:
			return err
		}
		if err := c.rest(ctx, waiting.delay()); err != nil {
			return err
		}
	}
}
