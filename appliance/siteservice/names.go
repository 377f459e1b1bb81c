package siteservice

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"landfall/appliance/engine/record"
	"landfall/appliance/siteservice/link"
	"landfall/appliance/siteservice/nameserver"
	"landfall/store"
)

const (
	// compareInterval is the time between two comparisons with the site's DNS.
	compareInterval = 5 * time.Minute
	// settleTime is the time for which changes of clusters and hosts are collected.
	settleTime = 2 * time.Second
)

// Names describes the DNS service.
type Names struct {
	Zones   []ZoneStatus      `json:"zones"`
	Own     []string          `json:"own_names"` // names of the appliance
	Forward []string          `json:"forward"`   // DNS servers for other names
	Counts  nameserver.Counts `json:"counts"`
}

// ZoneStatus is a zone and what the site's DNS has of it.
type ZoneStatus struct {
	nameserver.Zone
	nameserver.Comparison
	Answered bool   `json:"answered"` // whether the appliance answers for the zone
	Message  string `json:"message,omitempty"`
}

// names is the DNS service: the zones of the clusters, and the server that all interfaces share.
type names struct {
	m      *Manager
	server *nameServer
	table  atomic.Pointer[nameserver.Table]
	serial uint32

	mu          sync.Mutex
	zones       []ZoneStatus
	comparisons map[string]nameserver.Comparison // by zone
	wake        chan struct{}                    // holds one item if a comparison is due
}

// nameServer implements server. A DNS server elsewhere in the network does not disturb this one, so
// it is no reason not to start.
type nameServer struct {
	nameserver.Server
	started func()
}

// Look implements server.
func (*nameServer) Look(context.Context, link.Link) ([]link.Other, error) { return nil, nil }

// Serve implements server.
func (s *nameServer) Serve(ctx context.Context, on link.Link, ready func()) error {
	s.started()
	return s.Server.Serve(ctx, on, ready)
}

func newNames(m *Manager) *names {
	n := &names{m: m, comparisons: map[string]nameserver.Comparison{}, wake: make(chan struct{}, 1)}
	n.table.Store(nameserver.NewTable(nil, m.Configured.Names, 0))
	n.server = &nameServer{started: n.compareSoon}
	n.server.Table, n.server.Port, n.server.Limit = n.table.Load, nameserver.Port, m.Limit
	n.server.Forward = nameserver.NewForwarder(m.Configured.Forward, m.Clock)
	return n
}

// compareSoon wakes run, which reads the zones and compares them.
func (n *names) compareSoon() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// run follows the clusters and hosts, and compares their zones with the site's DNS, while the DNS
// service is switched on.
func (n *names) run(ctx context.Context) error {
	ticker := n.m.Clock.NewTicker(compareInterval)
	defer ticker.Stop()
	for from := n.m.DB.Revision(); ctx.Err() == nil; from = n.m.DB.Revision() {
		watcher := n.m.DB.Watch(ctx, from, record.Clusters.Prefix(), record.Hosts.Prefix())
		n.follow(ctx, watcher, ticker.Chan())
		if err := watcher.Err(); !errors.Is(err, store.ErrCompacted) && ctx.Err() == nil {
			return fmt.Errorf("follow the clusters for DNS: %w", err)
		}
		n.compareSoon() // the watcher has missed changes
	}
	return nil
}

// follow keeps the zones current until the watcher ends. If they can't be read, the server answers
// from the last ones, and the next change or tick tries again.
func (n *names) follow(ctx context.Context, watcher *store.Watcher, ticks <-chan time.Time) {
	for {
		changedOnly := false
		select {
		case _, ok := <-watcher.C():
			if !ok {
				return
			}
			n.collect(ctx, watcher)
			changedOnly = true
		case <-n.wake:
		case <-ticks:
		}
		if !n.on() {
			continue
		}
		changed, err := n.update()
		if err != nil {
			n.m.Logger.ErrorContext(ctx, "The DNS service could not read the clusters. It goes on with their last "+
				"names and addresses.", "error", err)
			continue
		}
		if changed || !changedOnly {
			n.compare(ctx)
		}
	}
}

// on reports whether DNS is switched on for any interface.
func (n *names) on() bool {
	return slices.ContainsFunc(n.m.switches.list(), func(s Switch) bool { return s.Service == DNS })
}

// collect waits for further changes, so that many changes make one table.
func (n *names) collect(ctx context.Context, watcher *store.Watcher) {
	timeout := time.NewTimer(settleTime)
	defer timeout.Stop()
	for {
		select {
		case _, ok := <-watcher.C():
			if !ok {
				return
			}
		case <-timeout.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// update reads the zones and makes the table that the server answers from. It reports whether the
// zones have changed.
func (n *names) update() (bool, error) {
	zones, err := readZones(n.m.DB, n.m.Site)
	if err != nil {
		return false, fmt.Errorf("read the DNS zones of the clusters: %w", err)
	}
	n.mu.Lock()
	same := slices.EqualFunc(n.zones, zones, func(a ZoneStatus, b nameserver.Zone) bool {
		return reflect.DeepEqual(a.Zone, b)
	})
	n.mu.Unlock()
	if !same {
		n.apply(zones)
	}
	return !same, nil
}

func (n *names) apply(zones []nameserver.Zone) {
	n.mu.Lock()
	defer n.mu.Unlock()
	twice := nameserver.Duplicates(zones)
	var answered []nameserver.Zone
	statuses := []ZoneStatus{}
	for _, zone := range zones {
		status := ZoneStatus{Zone: zone, Comparison: n.comparisons[zone.Name]}
		switch {
		case twice[zone.Name] != nil:
			status.Message = "Several clusters have this name. The appliance answers for none of them; delete or " +
				"rename one."
		case len(status.Differences) > 0:
			status.Message = "The site's DNS has other records, so the appliance does not answer for this zone. " +
				"Correct them there, or remove them. A server that does not answer counts with its last records; if " +
				"it no longer exists, remove it from the DNS servers of this machine."
		default:
			status.Answered = true
			answered = append(answered, zone)
			if status.Served {
				status.Message = "The site's DNS has the same records; the hosts may use it alone."
			}
		}
		statuses = append(statuses, status)
	}
	n.serial++
	n.zones = statuses
	n.table.Store(nameserver.NewTable(answered, n.m.Configured.Names, n.serial))
}

// compare compares the zones with the site's DNS.
func (n *names) compare(ctx context.Context) {
	servers := n.siteServers()
	n.mu.Lock()
	var zones []nameserver.Zone
	for _, status := range n.zones {
		zones = append(zones, status.Zone)
	}
	former := n.comparisons
	n.mu.Unlock()
	compared := nameserver.Compare(ctx, servers, zones, former)
	if ctx.Err() != nil {
		return
	}
	n.mu.Lock()
	n.comparisons = compared
	n.mu.Unlock()
	n.apply(zones)
}

// siteServers returns the DNS servers of the site: those of this machine and those for other names,
// without the appliance itself.
func (n *names) siteServers() []netip.AddrPort {
	own := n.m.serving(DNS)
	var servers []netip.AddrPort
	for _, server := range slices.Concat(n.m.Resolvers(), n.m.Configured.Forward) {
		if !slices.Contains(own, server.Addr()) && !slices.Contains(servers, server) {
			servers = append(servers, server)
		}
	}
	return servers
}

func (n *names) describe() (Names, error) {
	if !n.on() { // nobody has read the zones
		if _, err := n.update(); err != nil {
			return Names{}, err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	described := Names{Zones: n.zones, Own: n.m.Configured.Names, Forward: []string{}, Counts: n.server.Counts()}
	if described.Zones == nil {
		described.Zones = []ZoneStatus{}
	}
	if described.Own == nil {
		described.Own = []string{}
	}
	for _, server := range n.m.Configured.Forward {
		described.Forward = append(described.Forward, server.String())
	}
	return described, nil
}
