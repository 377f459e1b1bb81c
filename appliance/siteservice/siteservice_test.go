package siteservice

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/google/uuid"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/fault"
	"landfall/appliance/siteservice/dhcpserver"
	"landfall/appliance/siteservice/link"
	"landfall/appliance/siteservice/nameserver"
	"landfall/store"
)

// berlin is a cluster with virtual addresses.
func berlin() models.Cluster {
	return models.Cluster{Name: "berlin", BaseDNSDomain: "site.example",
		APIVips: []*models.APIVip{{IP: "192.0.2.5"}}, IngressVips: []*models.IngressVip{{IP: "192.0.2.6"}}}
}

func TestZones_clusterWithVIPs(t *testing.T) {
	b := newBench(t)
	id := b.addCluster(t, berlin())
	b.addCluster(t, models.Cluster{Name: "paris", BaseDNSDomain: "site.example"})
	b.addCluster(t, models.Cluster{Name: "unnamed"})
	zones, err := readZones(b.db, b.manager(t, Configured{}).Site)
	require.NoError(t, err)
	require.Len(t, zones, 2)
	require.Equal(t, nameserver.Zone{Name: "berlin.site.example", Cluster: "berlin", ClusterID: id,
		Records: []nameserver.Record{
			{Name: "*.apps.berlin.site.example", Type: "A", Value: "192.0.2.6"},
			{Name: "api-int.berlin.site.example", Type: "A", Value: "192.0.2.5"},
			{Name: "api.berlin.site.example", Type: "A", Value: "192.0.2.5"},
			{Name: "5.2.0.192.in-addr.arpa", Type: "PTR", Value: "api.berlin.site.example"},
		}}, zones[0])
	require.Equal(t, []string{"api.paris.site.example", "api-int.paris.site.example", "*.apps.paris.site.example"},
		zones[1].Missing)
}

// An imported cluster has the name of the cluster that hosts join, which may be one of this
// appliance.
func TestZones_importedCluster(t *testing.T) {
	b := newBench(t)
	opened := berlin()
	opened.Kind = conv.Pointer(models.ClusterKindAddHostsCluster)
	own := b.addCluster(t, opened)
	for _, name := range []string{"berlin", "paris"} {
		b.addCluster(t, models.Cluster{Name: name, BaseDNSDomain: "site.example", Imported: conv.Pointer(true),
			Kind: conv.Pointer(models.ClusterKindAddHostsCluster)})
	}
	overview, err := b.manager(t, Configured{}).Overview()
	require.NoError(t, err)
	require.Len(t, overview.DNS.Zones, 1)
	require.Equal(t, own, overview.DNS.Zones[0].ClusterID)
	require.True(t, overview.DNS.Zones[0].Answered)
}

// TestZones_namesOfHosts holds that a host gets a record by its short name, and that no host can
// add addresses to the names of the cluster or lines to a zone file.
func TestZones_namesOfHosts(t *testing.T) {
	cluster, id := berlin(), strfmt.UUID(uuid.NewString())
	cluster.ID = &id
	var hosts []*inventory.Host
	for i, name := range []string{"Node-1.elsewhere.example", "api", "api-int.site.example", "apps", "ns", "localhost",
		"", "*", "a 60 IN AAAA fd00::1 ;", "b\nc"} {
		nic := &models.Interface{IPV4Addresses: []string{fmt.Sprintf("192.0.2.%d/24", 50+i)}}
		hosts = append(hosts, inventory.NewHost(&models.Host{}, &inventory.Facts{
			Inventory: &models.Inventory{Hostname: name, Interfaces: []*models.Interface{nic}},
		}))
	}
	var records []nameserver.Record
	for _, record := range zoneOf(&cluster, hosts).Records {
		if record.Value != "192.0.2.5" && record.Value != "192.0.2.6" {
			records = append(records, record)
		}
	}
	require.Equal(t, []nameserver.Record{
		{Name: "5.2.0.192.in-addr.arpa", Type: "PTR", Value: "api.berlin.site.example"},
		{Name: "node-1.berlin.site.example", Type: "A", Value: "192.0.2.50"},
		{Name: "50.2.0.192.in-addr.arpa", Type: "PTR", Value: "node-1.berlin.site.example"},
	}, records)
}

// Only the node of a single node serves the API, whichever hosts join the cluster.
func TestZones_singleNode(t *testing.T) {
	host := func(address, kind, status string) *inventory.Host {
		nic := &models.Interface{IPV4Addresses: []string{address + "/24"}}
		return inventory.NewHost(&models.Host{Kind: &kind, Status: &status}, &inventory.Facts{
			Inventory: &models.Inventory{Interfaces: []*models.Interface{nic}}})
	}
	joining := host("192.0.2.51", models.HostKindAddToExistingClusterHost, models.HostStatusKnown)
	unused := host("192.0.2.52", models.HostKindHost, models.HostStatusDisabled)
	node := host("192.0.2.53", models.HostKindHost, models.HostStatusInstalled)
	id := strfmt.UUID(uuid.NewString())
	cluster := &models.Cluster{ID: &id, Name: "edge", BaseDNSDomain: "site.example", ControlPlaneCount: 1}
	addresses := map[string]string{}
	for _, record := range zoneOf(cluster, []*inventory.Host{joining, unused, node}).Records {
		addresses[record.Name] = record.Value
	}
	require.Equal(t, map[string]string{"api.edge.site.example": "192.0.2.53", "api-int.edge.site.example": "192.0.2.53",
		"*.apps.edge.site.example": "192.0.2.53", "53.2.0.192.in-addr.arpa": "api.edge.site.example"}, addresses)
	without := zoneOf(cluster, []*inventory.Host{joining, unused})
	require.Empty(t, without.Records)
	require.Equal(t, []string{"api.edge.site.example", "api-int.edge.site.example", "*.apps.edge.site.example"},
		without.Missing)
}

// TestZones_damagedRows holds that a damaged row costs only its own records.
func TestZones_damagedRows(t *testing.T) {
	b := newBench(t)
	id, env := b.addCluster(t, berlin()), uuid.NewString()
	b.addHost(t, id, env, "node-1", "52:54:00:00:00:01", "192.0.2.51/24")
	damage(t, b.db, "hosts", b.addHost(t, id, env, "node-2", "52:54:00:00:00:02", "192.0.2.52/24"))
	damage(t, b.db, "clusters", b.addCluster(t, models.Cluster{Name: "paris", BaseDNSDomain: "site.example"}))
	overview, err := b.manager(t, Configured{}).Overview()
	require.NoError(t, err)
	require.Len(t, overview.DNS.Zones, 1)
	var names []string
	for _, record := range overview.DNS.Zones[0].Records {
		names = append(names, record.Name)
	}
	require.Contains(t, names, "node-1.berlin.site.example")
	require.NotContains(t, names, "node-2.berlin.site.example")
}

// Case 48: two clusters with one DNS name: the appliance answers for none of them and says so.
func TestFault48_oneNameInTwoClusters(t *testing.T) {
	b := newBench(t)
	b.addCluster(t, berlin())
	b.addCluster(t, berlin())
	overview, err := b.manager(t, Configured{}).Overview()
	require.NoError(t, err)
	require.Len(t, overview.DNS.Zones, 2)
	for _, zone := range overview.DNS.Zones {
		require.False(t, zone.Answered)
		require.Contains(t, zone.Message, "Several clusters have this name.")
	}
}

// Case 48: while the DNS service is switched on, a second cluster with the same DNS name is refused
// when it is saved.
func TestFault48_secondClusterIsRefused(t *testing.T) {
	b := newBench(t)
	id := strfmt.UUID(b.addCluster(t, berlin()))
	b.addCluster(t, models.Cluster{Name: "rome", BaseDNSDomain: "site.example", Imported: conv.Pointer(true),
		Kind: conv.Pointer(models.ClusterKindAddHostsCluster)})
	check := func(configured bool, alter func(*models.Cluster)) error {
		t.Helper()
		cluster := berlin()
		cluster.ID = new(strfmt.UUID)
		alter(&cluster)
		return b.db.View(func(tx *store.Tx) error { return CheckClusterName(configured)(tx, &cluster) })
	}
	same := func(*models.Cluster) {}
	require.NoError(t, check(false, same), "the DNS service is off")
	var taken *NameTakenError
	require.ErrorAs(t, check(true, same), &taken)
	require.Equal(t, NameTakenError{Name: "berlin.site.example", Cluster: "berlin", ID: id.String()}, *taken)
	require.Equal(t, fault.Conflict, fault.KindOf(taken))

	_, err := b.manager(t, Configured{}).Enable(t.Context(), Switch{Service: NTP, Interface: "eth1"})
	require.NoError(t, err)
	require.NoError(t, check(false, same), "only the time is served")
	_, err = b.manager(t, Configured{}).Enable(t.Context(), Switch{Service: DNS, Interface: "eth1"})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		alter   func(*models.Cluster)
		refused bool
	}{
		"same name":                   {same, true},
		"other capitals":              {func(c *models.Cluster) { c.Name = "Berlin" }, true},
		"itself":                      {func(c *models.Cluster) { c.ID = &id }, false},
		"other name":                  {func(c *models.Cluster) { c.Name = "paris" }, false},
		"name of an imported cluster": {func(c *models.Cluster) { c.Name = "rome" }, false},
		"other domain":                {func(c *models.Cluster) { c.BaseDNSDomain = "example" }, false},
		"no domain":                   {func(c *models.Cluster) { c.BaseDNSDomain = "" }, false},
		"hosts that join": {func(c *models.Cluster) {
			c.Kind = conv.Pointer(models.ClusterKindAddHostsCluster)
		}, false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.refused, check(false, c.alter) != nil) })
	}
}

func TestManager_switchesSurviveRestart(t *testing.T) {
	b := newBench(t)
	m := b.manager(t, Configured{Switches: []Switch{{Service: DNS, Interface: "eth0"}}})
	status, err := m.Enable(t.Context(), Switch{Service: NTP, Interface: "eth1", LocalClock: true})
	require.NoError(t, err)
	require.Equal(t, StateLooking, status.State)
	require.Equal(t, SourceAdministrator, status.Source)

	restarted := b.manager(t, Configured{})
	statuses := restarted.Statuses()
	require.Len(t, statuses, 1)
	require.Equal(t, Switch{Service: NTP, Interface: "eth1", Source: SourceAdministrator, LocalClock: true},
		statuses[0].Switch)
	require.NoError(t, restarted.Disable(t.Context(), NTP, "eth1"))
	require.Empty(t, b.manager(t, Configured{}).Statuses())
}

func TestManager_ownDHCPServers(t *testing.T) {
	m := newBench(t).manager(t, Configured{Switches: []Switch{
		{Service: DHCP, Interface: "eth1", Mode: dhcpserver.Reservations},
		{Service: DHCP, Interface: "eth2", Mode: dhcpserver.Proxy},
		{Service: DHCP, Interface: "eth3", Mode: dhcpserver.Reservations},
		{Service: NTP, Interface: "eth1"}}})
	for _, status := range m.Statuses() {
		status.State, status.Addresses = StateServing, []string{"192.0.2.10"}
		if status.Interface == "eth3" {
			status.State = StateYielded
		}
		m.note(status)
	}
	require.Equal(t, map[string][]string{"eth1": {"192.0.2.10"}}, m.DHCPServers())
}

// A machine whose lease has ended loses nothing when the appliance leaves the site.
func TestManager_refusesReservationsOfUnfitAddresses(t *testing.T) {
	b := newBench(t)
	m := b.manager(t, Configured{Switches: []Switch{{Service: DHCP, Interface: "eth1", Mode: dhcpserver.Reservations}},
		DHCP: DHCPSettings{Relayed: []dhcpserver.Subnet{{Network: netip.MustParsePrefix("198.51.100.0/24")}}}})
	for address, what := range map[string]string{
		"192.0.2.10":     "the address of the appliance",
		"192.0.2.0":      "the address of the network 192.0.2.0/24 itself",
		"192.0.2.255":    "the broadcast address of the network 192.0.2.0/24",
		"198.51.100.0":   "the address of the network 198.51.100.0/24 itself",
		"198.51.100.255": "the broadcast address of the network 198.51.100.0/24",
	} {
		_, err := m.Reserve(t.Context(), dhcpserver.Reservation{MAC: "52:54:00:00:00:01", Address: address})
		require.EqualError(t, err, "The address "+address+" can't be reserved, because it is "+what+
			". Reserve another address.")
		require.Equal(t, fault.Invalid, fault.KindOf(err))
	}
	for _, address := range []string{"192.0.2.11", "198.51.100.7", "203.0.113.255"} {
		_, err := m.Reserve(t.Context(), dhcpserver.Reservation{MAC: "52:54:00:00:00:01", Address: address})
		require.NoError(t, err)
	}
}

func TestManager_departureWithoutEndedLeases(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.db.Update(t.Context(), func(tx *store.Tx) error {
		return store.NewBucket[dhcpserver.Lease]("dhcp-leases", 1).Put(tx, "52:54:00:00:00:01", &dhcpserver.Lease{
			Address: "192.0.2.100", MAC: "52:54:00:00:00:01", Duration: time.Hour, Granted: b.clock.Now()})
	}))
	m := b.manager(t, Configured{})
	departure := func() []string {
		overview, err := m.Overview()
		require.NoError(t, err)
		return overview.Departure
	}
	require.Len(t, departure(), 1)
	b.clock.Advance(time.Hour)
	require.Empty(t, departure())
}

func TestManager_wrongSwitches(t *testing.T) {
	b := newBench(t)
	m := b.manager(t, Configured{Switches: []Switch{{Service: DNS, Interface: "eth1"}}})
	for name, c := range map[string]struct {
		wanted Switch
		kind   fault.Kind
	}{
		"unknown service":          {Switch{Service: "smtp", Interface: "eth1"}, fault.NotFound},
		"no interface":             {Switch{Service: DNS}, fault.Invalid},
		"local clock for DNS":      {Switch{Service: DNS, Interface: "eth1", LocalClock: true}, fault.Invalid},
		"fixed by the file's keys": {Switch{Service: DNS, Interface: "eth1"}, fault.Conflict},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := m.Enable(t.Context(), c.wanted)
			require.Equal(t, c.kind, fault.KindOf(err), err)
		})
	}
	require.Equal(t, fault.NotFound, fault.KindOf(m.Disable(t.Context(), NTP, "eth1")))
	require.Equal(t, fault.Conflict, fault.KindOf(m.Disable(t.Context(), DNS, "eth1")))
	_, err := New(Options{DB: b.db, Configured: Configured{Switches: []Switch{{Service: "smtp", Interface: "eth1"}}}})
	require.Error(t, err)
}

// TestManager_servesClusterOnLoopback runs the DNS service on the loopback interface, with a
// cluster that is created while it runs.
func TestManager_servesClusterOnLoopback(t *testing.T) {
	b := newBench(t)
	m, resolves, stop := b.serveOnLoopback(t)
	require.Eventually(t, resolves("landfall.site.example", "127.0.0.1"), time.Minute, 20*time.Millisecond)
	b.addCluster(t, berlin())
	require.Eventually(t, resolves("console.apps.berlin.site.example", "192.0.2.6"), time.Minute, 20*time.Millisecond)
	require.Equal(t, []string{"127.0.0.1:53"}, m.NameServers())
	require.EqualValues(t, 1, b.limited.Load())
	require.NoError(t, stop())
}

// TestManager_goesOnWithUnreadableRows holds that a damaged cluster, and a cluster of a newer
// program, end neither the DNS service nor the other services.
func TestManager_goesOnWithUnreadableRows(t *testing.T) {
	b := newBench(t)
	damage(t, b.db, "clusters", uuid.NewString())
	newer, newerID := store.NewBucket[string]("clusters", 99), uuid.NewString()
	require.NoError(t, b.db.Update(t.Context(), func(tx *store.Tx) error {
		return newer.Put(tx, newerID, new("newer"))
	}))
	errorsLogged := make(lines, 8)
	b.log = slog.New(slog.NewTextHandler(errorsLogged, &slog.HandlerOptions{Level: slog.LevelError}))
	_, resolves, stop := b.serveOnLoopback(t)
	require.Eventually(t, resolves("landfall.site.example", "127.0.0.1"), time.Minute, 20*time.Millisecond)
	require.Contains(t, <-errorsLogged, "could not read the clusters")
	require.NoError(t, b.db.Update(t.Context(), func(tx *store.Tx) error { return newer.Delete(tx, newerID) }))
	b.addCluster(t, berlin())
	require.Eventually(t, resolves("api.berlin.site.example", "192.0.2.5"), time.Minute, 20*time.Millisecond)
	require.NoError(t, stop())
}

// lines implements io.Writer.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// serveOnLoopback runs the DNS service on the loopback interface. It returns a function that asks
// it, and one that stops it.
func (b *bench) serveOnLoopback(t *testing.T) (m *Manager, resolves func(name, address string) func() bool,
	stop func() error) {
	t.Helper()
	b.move(link.Link{Name: "lo", Prefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8")}})
	m = b.manager(t, Configured{Switches: []Switch{{Service: DNS, Interface: "lo"}},
		Names: []string{"landfall.site.example"}})
	m.names.server.Port = freePort(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"),
			m.names.server.Port).String())
	}}
	resolves = func(name, address string) func() bool {
		return func() bool {
			found, err := resolver.LookupHost(t.Context(), name)
			return err == nil && len(found) == 1 && found[0] == address
		}
	}
	return m, resolves, func() error {
		cancel()
		return <-ended
	}
}

func freePort(t *testing.T) uint16 {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	return netip.MustParseAddrPort(listener.Addr().String()).Port()
}
