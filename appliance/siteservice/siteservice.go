// Package siteservice runs network services for a site that has none: DNS, NTP, DHCP with network
// boot, and TFTP. Each service is off by default and is switched on for one network interface at a
// time, by the configuration or by an administrator. Before it starts and while it runs, it looks
// whether another server answers there, and then does not serve.
//
//	siteservice.go  the services, their states, and the Manager
//	switches.go     the switches in the configuration and in the store
//	supervise.go    looks, starts and stops one service on one interface
//	zones.go        the DNS zones of the clusters
//	names.go        the DNS service: its zones, and their comparison with the site's DNS
//	addresses.go    the DHCP service: its options, leases and reservations
//	clock.go        whether this machine's clock can be right
//	boots.go        what machines boot from the network, by DHCP and TFTP
//
// Design: docs/design.md#services-for-a-bare-site.
package siteservice

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
	"golang.org/x/sync/errgroup"

	"landfall/appliance/bmc"
	"landfall/appliance/doctor"
	"landfall/appliance/engine/view"
	"landfall/appliance/fault"
	"landfall/appliance/siteservice/dhcpserver"
	"landfall/appliance/siteservice/link"
	"landfall/appliance/siteservice/nameserver"
	"landfall/appliance/siteservice/timeserver"
	"landfall/store"
)

// Service is a service of the site.
type Service string

// Services.
const (
	DNS  Service = "dns"
	NTP  Service = "ntp"
	DHCP Service = "dhcp"
	TFTP Service = "tftp"
)

// Services returns all services.
func Services() []Service { return []Service{DNS, NTP, DHCP, TFTP} }

// State is the state of a service on an interface.
type State string

// States. A service that is off has no status.
const (
	StateLooking State = "looking"        // whether another server answers
	StateServing State = "serving"        // it answers
	StateYielded State = "another-server" // another server answers, so this one does not
	StateFailed  State = "failed"         // it can't answer; it tries again
)

// Status is the state of a service on an interface.
type Status struct {
	Switch
	State     State        `json:"state"`
	Since     time.Time    `json:"since"`
	Addresses []string     `json:"addresses,omitempty"` // at which it answers
	Others    []link.Other `json:"others,omitempty"`    // servers that answer in its place
	Message   string       `json:"message,omitempty"`   // why it does not answer, and what to do
}

// Interface is a network interface of this machine.
type Interface struct {
	Name      string   `json:"name"`
	MAC       string   `json:"mac,omitempty"`
	Addresses []string `json:"addresses"` // with their networks
}

// Overview describes the services of the site.
type Overview struct {
	Services   []Status    `json:"services"` // those that are switched on
	Interfaces []Interface `json:"interfaces"`
	DNS        Names       `json:"dns"`
	Clock      Clock       `json:"clock"`
	// Departure says in sentences what stops when this machine leaves the site.
	Departure []string `json:"departure"`
}

// Clock is the clock that the NTP service shows to hosts.
type Clock struct {
	Synchronized bool   `json:"synchronized"`
	MaxError     string `json:"max_error,omitempty"` // the largest possible error
}

// Site knows the site's clusters and hosts. The engine implements it.
type Site interface {
	Rows(tx *store.Tx) view.Rows
}

// Options configures [New].
type Options struct {
	DB         *store.DB
	Site       Site
	Configured Configured
	// TimeServers returns the site's time servers. This appliance may be one of them.
	TimeServers func() []string
	// Resolvers returns the DNS servers of this machine; nil means those of the system.
	Resolvers func() []netip.AddrPort
	// Limit returns a listener that limits the connections of clients; nil means no limit.
	Limit func(net.Listener) net.Listener
	// Images provides the files for network boot.
	Images Images
	// Servers returns the servers with a BMC.
	Servers func() ([]*bmc.Server, error)
	// CheckNetworkBoot returns an error for a machine that boots from its disk.
	CheckNetworkBoot func(infraEnvID, mac string) error
	// Neighbour returns the MAC address of the machine with an address, or ""; nil means that of
	// the kernel's table.
	Neighbour func(ctx context.Context, address netip.Addr) (string, error)
	// Discover returns the offers of other DHCP servers; nil means those on the interface.
	Discover func(ctx context.Context, on link.Link) ([]dhcpserver.Offer, error)
	// Links finds an interface; nil means the interfaces of this machine.
	Links func(name string) (link.Link, error)
	// KernelClock reads the state of this machine's clock; nil means the kernel's.
	KernelClock func() (timeserver.Reading, error)
	Clock       clockwork.Clock
	Logger      *slog.Logger
}

// server is a service on one interface.
type server interface {
	// Look returns the other servers that answer in place of the service.
	Look(ctx context.Context, on link.Link) ([]link.Other, error)
	// Serve opens the sockets, calls ready, and answers until the context ends.
	Serve(ctx context.Context, on link.Link, ready func()) error
}

// Manager runs the services. Its methods are safe for concurrent use.
type Manager struct {
	Options
	switches *switches
	names    *names
	leases   *dhcpserver.Leases
	events   events
	changed  chan struct{} // holds one item if the switches have changed

	mu       sync.Mutex
	statuses map[switchKey]Status
}

// New returns a Manager. Its error is a sentence.
func New(options Options) (*Manager, error) {
	if options.Links == nil {
		options.Links = link.Find
	}
	if options.KernelClock == nil {
		options.KernelClock = timeserver.ReadKernel
	}
	if options.Discover == nil {
		options.Discover = discoverServers
	}
	if options.TimeServers == nil {
		options.TimeServers = func() []string { return nil }
	}
	if options.Resolvers == nil {
		options.Resolvers = func() []netip.AddrPort { return systemResolvers(options.Logger) }
	}
	if options.Limit == nil {
		options.Limit = func(listener net.Listener) net.Listener { return listener }
	}
	if options.Neighbour == nil {
		options.Neighbour = doctor.FindNeighbour
	}
	s, err := openSwitches(options.DB, options.Configured)
	if err != nil {
		return nil, err
	}
	m := &Manager{Options: options, switches: s, changed: make(chan struct{}, 1), statuses: map[switchKey]Status{}}
	m.names = newNames(m)
	m.leases, err = dhcpserver.OpenLeases(options.DB, options.Clock)
	return m, err
}

// Run runs the services that are switched on, until the context ends.
func (m *Manager) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return m.names.run(ctx) })
	group.Go(func() error { return m.runSwitches(ctx) })
	return group.Wait()
}

// running is a service that runs on an interface.
type running struct {
	of   Switch
	stop context.CancelFunc
	done chan struct{}
}

func (m *Manager) runSwitches(ctx context.Context) error {
	active := map[switchKey]*running{}
	stop := func(key switchKey) {
		active[key].stop()
		<-active[key].done
		delete(active, key)
		m.forget(key)
	}
	defer func() {
		for _, key := range slices.Collect(maps.Keys(active)) {
			stop(key)
		}
	}()
	for {
		wanted := map[switchKey]Switch{}
		for _, s := range m.switches.list() {
			wanted[s.key()] = s
		}
		for _, key := range slices.Collect(maps.Keys(active)) {
			if wanted[key] != active[key].of {
				stop(key)
			}
		}
		for key, s := range wanted {
			if active[key] == nil {
				active[key] = m.start(ctx, s)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-m.changed:
		}
	}
}

func (m *Manager) start(ctx context.Context, s Switch) *running {
	ctx, cancel := context.WithCancel(ctx)
	r := &running{of: s, stop: cancel, done: make(chan struct{})}
	supervisor := &supervisor{of: s, server: m.serverOf(s), links: m.Links, clock: m.Clock, note: m.note, log: m.Logger}
	m.note(Status{Switch: s, State: StateLooking})
	go func() {
		defer close(r.done)
		supervisor.run(ctx)
	}()
	return r
}

func (m *Manager) serverOf(s Switch) server {
	switch s.Service {
	case NTP:
		return &timeserver.Server{Local: s.LocalClock, Read: m.KernelClock, Sources: m.TimeServers, Own: link.IsOwn,
			Clock: m.Clock, Port: timeserver.Port}
	case DHCP:
		return m.newDHCPServer(s)
	case TFTP:
		return m.newTFTPServer()
	}
	return m.names.server
}

// note keeps the status of a service.
func (m *Manager) note(status Status) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := m.statuses[status.key()]
	status.Since = m.Clock.Now().UTC()
	if last.State == status.State && last.Message == status.Message {
		status.Since = last.Since
	}
	m.statuses[status.key()] = status
}

func (m *Manager) forget(key switchKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.statuses, key)
}

// Statuses returns the services that are switched on, ordered by service and interface.
func (m *Manager) Statuses() []Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	statuses := []Status{}
	for _, s := range m.switches.list() {
		status, ok := m.statuses[s.key()]
		if !ok {
			status = Status{Switch: s, State: StateLooking, Since: m.Clock.Now().UTC()}
		}
		statuses = append(statuses, status)
	}
	return statuses
}

// serving returns the addresses at which a service answers.
func (m *Manager) serving(service Service) []netip.Addr {
	var addresses []netip.Addr
	for _, status := range m.Statuses() {
		if status.Service != service || status.State != StateServing {
			continue
		}
		for _, text := range status.Addresses {
			if address, err := netip.ParseAddr(text); err == nil {
				addresses = append(addresses, address)
			}
		}
	}
	return addresses
}

// NameServers returns the addresses of the DNS servers of the appliance, each "address:port".
func (m *Manager) NameServers() []string {
	var servers []string
	for _, address := range m.serving(DNS) {
		servers = append(servers, netip.AddrPortFrom(address, nameserver.Port).String())
	}
	return servers
}

// OwnTimeServers returns the addresses at which the appliance serves the time.
func (m *Manager) OwnTimeServers() []string {
	var servers []string
	for _, address := range m.serving(NTP) {
		servers = append(servers, address.String())
	}
	return servers
}

// DHCPServers returns the addresses of the appliance by the interfaces on which it gives addresses
// to machines.
func (m *Manager) DHCPServers() map[string][]string {
	servers := map[string][]string{}
	for _, status := range m.Statuses() {
		if status.Service == DHCP && status.State == StateServing && status.Mode != dhcpserver.Proxy {
			servers[status.Interface] = status.Addresses
		}
	}
	return servers
}

// Overview describes all services.
func (m *Manager) Overview() (*Overview, error) {
	described, err := m.names.describe()
	if err != nil {
		return nil, err
	}
	overview := &Overview{Services: m.Statuses(), Interfaces: []Interface{}, DNS: described}
	for _, name := range link.Names() {
		found, err := m.Links(name)
		if err != nil {
			continue // an interface that is down serves nobody
		}
		shown := Interface{Name: name, MAC: found.MAC.String(), Addresses: []string{}}
		for _, prefix := range found.Prefixes {
			shown.Addresses = append(shown.Addresses, prefix.String())
		}
		overview.Interfaces = append(overview.Interfaces, shown)
	}
	if overview.Departure, err = m.departure(); err != nil {
		return nil, err
	}
	reading, err := m.KernelClock()
	if err != nil {
		return nil, fmt.Errorf("read the state of this machine's clock: %w", err)
	}
	overview.Clock.Synchronized = reading.Synchronized
	if reading.Synchronized {
		overview.Clock.MaxError = reading.MaxError.String()
	}
	return overview, nil
}

// departure says what stops when this machine leaves the site.
func (m *Manager) departure() ([]string, error) {
	departure := []string{}
	leases, err := m.leases.List()
	if err != nil {
		return nil, fmt.Errorf("read the DHCP leases: %w", err)
	}
	now := m.Clock.Now()
	finite := slices.DeleteFunc(leases, func(l dhcpserver.Lease) bool {
		return l.Duration >= dhcpserver.Infinite || !now.Before(l.Until)
	})
	if len(finite) > 0 {
		departure = append(departure, fmt.Sprintf("Machines with an address from this machine (%d) lose it "+
			"when their lease ends: give them static addresses, or make the leases infinite "+
			"(site.dhcp.lease).", len(finite)))
	}
	for _, status := range m.Statuses() {
		if status.State != StateServing {
			continue
		}
		switch status.Service {
		case DNS:
			departure = append(departure, "The names of the clusters no longer resolve for hosts that use the "+
				"DNS service on "+status.Interface+": copy the records to the site's DNS (landfall site dns records).")
		case NTP:
			departure = append(departure, "Hosts that use the NTP service on "+status.Interface+" lose their time "+
				"server: their clocks drift apart, by seconds in a week.")
		case DHCP:
			departure = append(departure, "Machines on "+status.Interface+" can no longer boot from the network.")
		}
	}
	return departure, nil
}

// Enable switches a service on for an interface, and returns its status.
func (m *Manager) Enable(ctx context.Context, wanted Switch) (*Status, error) {
	wanted.Source = SourceAdministrator
	if err := wanted.check(); err != nil {
		return nil, err
	}
	if _, err := m.Links(wanted.Interface); err != nil {
		return nil, fault.Wrap(fault.Invalid, err)
	}
	if err := m.switches.put(ctx, wanted); err != nil {
		return nil, err
	}
	m.signal()
	m.Logger.Info("A service of the site was switched on.", "service", wanted.Service, "interface", wanted.Interface)
	return &Status{Switch: wanted, State: StateLooking, Since: m.Clock.Now().UTC()}, nil
}

// Disable switches a service off for an interface.
func (m *Manager) Disable(ctx context.Context, service Service, iface string) error {
	if err := m.switches.remove(ctx, switchKey{service, iface}); err != nil {
		return err
	}
	m.signal()
	m.Logger.Info("A service of the site was switched off.", "service", service, "interface", iface)
	return nil
}

// signal makes runSwitches read the switches.
func (m *Manager) signal() {
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// errEnded is the error of a server that has stopped although its context has not ended.
var errEnded = errors.New("the service has stopped")
