package network

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/inventory"
)

func id(n int) strfmt.UUID { return strfmt.UUID(fmt.Sprintf("host-%02d", n)) }

func address(n int) string { return fmt.Sprintf("192.168.1.%d", 10+n) }

// connectedHosts returns n hosts in one network. The function reaches reports which of them are
// connected.
func connectedHosts(n int, reaches func(from, to int) bool) []*inventory.Host {
	hosts := make([]*inventory.Host, n)
	for from := range hosts {
		uuid := id(from)
		facts := &inventory.Facts{
			Inventory: &models.Inventory{Interfaces: []*models.Interface{{Name: "eno1",
				IPV4Addresses: []string{address(from) + "/24"}}}},
			Connectivity: &models.ConnectivityReport{},
		}
		for to := range n {
			if to == from || !reaches(from, to) {
				continue
			}
			facts.Connectivity.RemoteHosts = append(facts.Connectivity.RemoteHosts, &models.ConnectivityRemoteHost{
				HostID: id(to),
				L2Connectivity: []*models.L2Connectivity{{OutgoingNic: "eno1", RemoteIPAddress: address(to),
					RemoteMac: fmt.Sprint("mac", to), Successful: true}},
				L3Connectivity: []*models.L3Connectivity{{RemoteIPAddress: address(to), Successful: true}},
			})
		}
		hosts[from] = inventory.NewHost(&models.Host{ID: &uuid}, facts)
	}
	return hosts
}

func ids(numbers ...int) []strfmt.UUID {
	list := []strfmt.UUID{}
	for _, n := range numbers {
		list = append(list, id(n))
	}
	return list
}

func TestMajorityGroups(t *testing.T) {
	tests := []struct {
		name    string
		hosts   int
		reaches func(from, to int) bool
		want    []strfmt.UUID
	}{
		{"all", 5, func(_, _ int) bool { return true }, ids(0, 1, 2, 3, 4)},
		{"none", 5, func(_, _ int) bool { return false }, ids()},
		{"two hosts are not a majority", 2, func(_, _ int) bool { return true }, ids()},
		{"one host is disconnected", 4, func(from, to int) bool { return from != 2 && to != 2 }, ids(0, 1, 3)},
		{"one host is reached but does not reach others", 4, func(from, _ int) bool { return from != 1 }, ids(0, 2, 3)},
		{"two islands", 7, func(from, to int) bool { return (from < 3) == (to < 3) }, ids(3, 4, 5, 6)},
		{"a ring", 6, func(from, to int) bool { d := (from - to + 6) % 6; return d == 1 || d == 5 }, ids()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := MajorityGroups(connectedHosts(tt.hosts, tt.reaches), 3)
			require.Equal(t, tt.want, g.MajorityGroups["192.168.1.0/24"])
			require.Equal(t, tt.want, g.MajorityGroups[IPv4Group])
			require.Empty(t, g.MajorityGroups[IPv6Group])
		})
	}
}

func TestMajorityGroups_areMaximalFullMeshes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n := 3 + random.IntN(12)
		links := make(map[[2]int]bool)
		for from := range n {
			for to := range n {
				links[[2]int{from, to}] = random.IntN(4) > 0
			}
		}
		both := func(a, b strfmt.UUID) bool {
			var x, y int
			_, err := fmt.Sscanf(string(a)+" "+string(b), "host-%d host-%d", &x, &y)
			require.NoError(t, err)
			return links[[2]int{x, y}] && links[[2]int{y, x}]
		}
		group := MajorityGroups(connectedHosts(n, func(from, to int) bool { return links[[2]int{from, to}] }),
			3).MajorityGroups["192.168.1.0/24"]
		if len(group) == 0 {
			continue
		}
		require.GreaterOrEqual(t, len(group), 3)
		for i, a := range group {
			for _, b := range group[:i] {
				require.True(t, both(a, b))
			}
		}
		for k := range n {
			if !slices.Contains(group, id(k)) {
				require.True(t, slices.ContainsFunc(group, func(m strfmt.UUID) bool { return !both(m, id(k)) }))
			}
		}
	}
}

func TestParseGroups_readsJSON(t *testing.T) {
	hosts := connectedHosts(3, func(_, _ int) bool { return true })
	g := MajorityGroups(hosts, 3)
	require.Equal(t, []string{address(1)}, g.L3ConnectedAddresses[id(1)])
	text, err := g.JSON()
	require.NoError(t, err)
	back, err := ParseGroups(text)
	require.NoError(t, err)
	require.Equal(t, g, back)
	slices.Reverse(hosts)
	again, err := MajorityGroups(hosts, 3).JSON()
	require.NoError(t, err)
	require.Equal(t, text, again, "the order of the hosts does not matter")

	none, err := ParseGroups("")
	require.NoError(t, err)
	require.Nil(t, none)
	_, err = ParseGroups("{")
	require.ErrorContains(t, err, "groups of connected hosts")
}

func TestMajorityGroups_IPv6PingCounts(t *testing.T) {
	hosts := connectedHosts(3, func(_, _ int) bool { return true })
	for n, h := range hosts {
		h.Inventory.Interfaces[0].IPV6Addresses = []string{fmt.Sprintf("fd00::%d/64", n+1), "fe80::1/64"}
		for _, r := range h.Connectivity.RemoteHosts {
			var to int
			_, err := fmt.Sscanf(string(r.HostID), "host-%d", &to)
			require.NoError(t, err)
			r.L3Connectivity = append(r.L3Connectivity, &models.L3Connectivity{RemoteIPAddress: fmt.Sprintf("fd00::%d",
				to+1), Successful: true})
		}
	}
	g := MajorityGroups(hosts, 3)
	require.Equal(t, ids(0, 1, 2), g.MajorityGroups["fd00::/64"])
	require.Equal(t, ids(0, 1, 2), g.MajorityGroups[IPv6Group])
	require.NotContains(t, g.MajorityGroups, "fe80::/64")
}

func TestCollisions(t *testing.T) {
	hosts := connectedHosts(3, func(_, _ int) bool { return true })
	require.Empty(t, Collisions(hosts))
	r := hosts[0].Connectivity.RemoteHosts[0]
	r.L2Connectivity = append(r.L2Connectivity, &models.L2Connectivity{OutgoingNic: "eno1", RemoteIPAddress: address(1),
		RemoteMac: "aa"})
	require.Equal(t, map[string][]string{address(1): {"aa", "mac1"}}, Collisions(hosts))
}

func TestHostNetworks(t *testing.T) {
	hosts := connectedHosts(2, func(_, _ int) bool { return true })
	hosts[1].Inventory.Interfaces = append(hosts[1].Inventory.Interfaces,
		&models.Interface{IPV4Addresses: []string{"10.0.0.9/8", "broken"}})
	require.Equal(t, []*models.HostNetwork{
		{Cidr: "10.0.0.0/8", HostIds: ids(1)}, {Cidr: "192.168.1.0/24", HostIds: ids(0, 1)},
	}, HostNetworks(hosts))

	p, ok := NetworkOf(netip.MustParseAddr("10.200.0.1"), hosts)
	require.True(t, ok)
	require.Equal(t, "10.0.0.0/8", p.String())
	_, ok = NetworkOf(netip.MustParseAddr("172.16.0.1"), hosts)
	require.False(t, ok)
	ip, nic, ok := AddressIn(netip.MustParsePrefix("192.168.1.0/24"), hosts[0].Inventory)
	require.True(t, ok)
	require.Equal(t, "192.168.1.10 eno1", ip.String()+" "+nic.Name)
	require.Empty(t, Networks(nil))
}

func TestFreeAddress(t *testing.T) {
	hosts := connectedHosts(2, func(_, _ int) bool { return true })
	network, ip := netip.MustParsePrefix("192.168.1.0/24"), netip.MustParseAddr("192.168.1.5")
	require.Equal(t, models.VipVerificationUnverified, FreeAddress(ip, network, hosts))
	hosts[0].FreeAddresses = models.FreeNetworksAddresses{{Network: "192.168.1.0/24",
		FreeAddresses: []strfmt.IPv4{"192.168.1.5", "192.168.1.6"}}}
	require.Equal(t, models.VipVerificationSucceeded, FreeAddress(ip, network, hosts))
	hosts[1].FreeAddresses = models.FreeNetworksAddresses{{Network: "192.168.1.0/24",
		FreeAddresses: []strfmt.IPv4{"192.168.1.6"}}}
	require.Equal(t, models.VipVerificationFailed, FreeAddress(ip, network, hosts))
	require.Equal(t, models.VipVerificationUnverified, FreeAddress(ip, netip.MustParsePrefix("10.0.0.0/24"), hosts))
}

func TestCheckRange(t *testing.T) {
	for _, tt := range []struct{ kind, text, want string }{
		{MachineRange, "192.168.1.0/24", ""},
		{MachineRange, "192.168.1.0/28", ""},
		{MachineRange, "192.168.1.0/29", "too small"},
		{ExternalLBRange, "192.168.1.0/30", ""},
		{SNOMachineRange, "192.168.1.0/31", ""},
		{SNOMachineRange, "192.168.1.0/32", "too small"},
		{ClusterOrServices, "10.128.0.0/14", ""},
		{ClusterOrServices, "fd01::/48", ""},
		{ClusterOrServices, "10.128.0.0/26", "128 addresses"},
		{MachineRange, "192.168.1.7/24", "use the network itself, 192.168.1.0/24"},
		{MachineRange, "192.168.1.0", "not a network"},
		{MachineRange, "", "not a network"},
		{MachineRange, "0.0.0.0/0", "whole address space"},
		{MachineRange, "0.0.0.0/8", "unspecified"},
	} {
		fault := CheckRange(tt.kind, tt.text)
		require.Equal(t, tt.want == "", fault == "", "%s: %s", tt.text, fault)
		require.Contains(t, fault, tt.want)
	}
}

func TestCheckHostPrefix(t *testing.T) {
	for _, tt := range []struct {
		network          string
		hostPrefix, host int
		want             string
	}{
		{"10.128.0.0/14", 23, 500, ""}, {"10.128.0.0/14", 23, 513, "512 parts"}, {"10.128.0.0/22", 23, 1, ""},
		{"10.128.0.0/22", 23, 2, "need 4"}, {"10.128.0.0/14", 26, 3, "128 addresses"},
		{"10.128.0.0/14", 0, 3, "positive"},
		{"fd01::/48", 64, 5000, ""},
		{"10.128.0.0/24", 23, 3, "shorter than the prefix"},
		{"10.128.0.0/24", 23, 1, "shorter than the prefix"}, {"10.128.0.0/23", 23, 1, ""},
		{"10.128.0.0/23", 23, 3, "1 parts"},
	} {
		fault := CheckHostPrefix(netip.MustParsePrefix(tt.network), tt.hostPrefix, tt.host)
		require.Equal(t, tt.want == "", fault == "", fault)
		require.Contains(t, fault, tt.want)
	}
}

func TestCheckNames(t *testing.T) {
	long := strings.Repeat("a", 64)
	for _, tt := range []struct {
		check      func(string) string
		name, want string
	}{
		{CheckClusterName, "harbour-1", ""}, {CheckClusterName, "1", ""}, {CheckClusterName, "", "no name"},
		{CheckClusterName, "a.b", `'.'`},
		{CheckClusterName, "Harbour", `'H'`}, {CheckClusterName, "-a", "hyphen"}, {CheckClusterName, "a-", "hyphen"},
		{CheckClusterName, long, "at most 54"},
		{CheckClusterName, "häfen", "character"},
		{CheckBaseDomain, "site.example", ""}, {CheckBaseDomain, "local", ""}, {CheckBaseDomain, "", "no base domain"},
		{CheckBaseDomain, "a..b", "extra dot"},
		{CheckBaseDomain, ".a", "extra dot"}, {CheckBaseDomain, "a.", "extra dot"},
		{CheckBaseDomain, "10.0.0.1", "IP address"}, {CheckBaseDomain, "a_b.c", `'_'`},
		{CheckBaseDomain, long + ".example", "at most 63"}, {CheckBaseDomain, strings.Repeat("a.", 100) + "b",
			"characters"},
		{CheckHostname, "node-1.site.example", ""}, {CheckHostname, "", "no name"},
		{CheckHostname, "localhost", "the local machine"}, {CheckHostname, "Node", `'N'`},
		{CheckHostname, long, "at most 63"}, {CheckHostname, "a b", `' '`},
	} {
		fault := tt.check(tt.name)
		require.Equal(t, tt.want == "", fault == "", "%q: %s", tt.name, fault)
		require.Contains(t, fault, tt.want)
	}
}

func TestPrefixes(t *testing.T) {
	network := netip.MustParsePrefix("192.168.1.0/24")
	require.Equal(t, "broadcast address", Reserved(netip.MustParseAddr("192.168.1.255"), network))
	require.Equal(t, "network address", Reserved(netip.MustParseAddr("192.168.1.0"), network))
	require.Empty(t, Reserved(netip.MustParseAddr("192.168.1.254"), network))
	require.Empty(t, Reserved(netip.MustParseAddr("192.168.1.1"), netip.MustParsePrefix("192.168.1.0/31")))
	require.True(t, RoomFor(4, netip.MustParsePrefix("192.168.1.0/29")))
	require.False(t, RoomFor(5, netip.MustParsePrefix("192.168.1.0/29")))
	require.True(t, RoomFor(1, netip.MustParsePrefix("192.168.1.0/31")))
	require.True(t, RoomFor(1000, netip.MustParsePrefix("fd00::/64")))

	c := &models.Cluster{
		MachineNetworks: []*models.MachineNetwork{nil, {Cidr: "x"}, {Cidr: "192.168.1.0/24"}},
		ServiceNetworks: []*models.ServiceNetwork{{Cidr: "fd02::/112"}}, ClusterNetworks: []*models.ClusterNetwork{nil},
	}
	require.Equal(t, []netip.Prefix{network}, MachineNetworks(c))
	require.True(t, DualStack(c))
	_, _, found := Overlap(MachineNetworks(c), []netip.Prefix{netip.MustParsePrefix("192.168.0.0/16")})
	require.True(t, found)
}

func FuzzNames(f *testing.F) {
	f.Add("a.b-c", "10.0.0.0/8")
	f.Fuzz(func(t *testing.T, name, text string) {
		if CheckBaseDomain(name) == "" {
			require.LessOrEqual(t, len(name), 255)
			require.NotContains(t, name, "..")
		}
		if CheckRange(MachineRange, text) == "" {
			p, err := netip.ParsePrefix(text)
			require.NoError(t, err)
			require.Equal(t, p.Masked(), p)
		}
		CheckHostname(name)
		CheckClusterName(name)
	})
}

func TestNodeAddresses(t *testing.T) {
	host := func(id string, nics ...string) *inventory.Host {
		uuid := strfmt.UUID(id)
		inv := &models.Inventory{}
		for i, address := range nics {
			name := fmt.Sprintf("eno%d", i+1)
			inv.Interfaces = append(inv.Interfaces, &models.Interface{Name: name, IPV4Addresses: []string{address}})
			inv.Routes = append(inv.Routes, &models.Route{Family: 2, Interface: name, Destination: "0.0.0.0",
				Gateway: "10.0.0.1", Metric: int32(100 - i)})
		}
		return inventory.NewHost(&models.Host{ID: &uuid}, &inventory.Facts{Inventory: inv})
	}
	reached := func(hosts []*inventory.Host) *Groups {
		g := &Groups{L3ConnectedAddresses: map[strfmt.UUID][]string{}}
		for _, h := range hosts {
			for _, nic := range h.Inventory.Interfaces {
				for _, p := range inventory.Addresses(nic) {
					g.L3ConnectedAddresses[h.ID()] = append(g.L3ConnectedAddresses[h.ID()], p.Addr().String())
				}
			}
		}
		return g
	}
	plain := []*inventory.Host{host("a", "10.0.0.11/24"), host("b", "10.0.0.12/24", "10.1.0.12/24"),
		host("c", "10.0.0.13/24")}
	found := NodeAddresses(plain, reached(plain), true)
	require.Equal(t, "10.0.0.12/24", found["b"].String(),
		"b is in the network of the others, so the address of its better route is unsuitable")
	require.Len(t, found, 3)
	require.Nil(t, NodeAddresses(plain, reached(plain), false), "no host has IPv6")
	require.Nil(t, NodeAddresses(plain, nil, true), "no host has reported yet")

	apart := []*inventory.Host{host("a", "10.0.0.11/24", "10.1.0.11/24"), host("b", "10.1.0.12/24", "10.2.0.12/24"),
		host("c", "10.2.0.13/24", "10.0.0.13/24")}
	require.Nil(t, NodeAddresses(apart, reached(apart), true),
		"each address is in a network with another address of another host")

	two := []*inventory.Host{host("a", "10.0.0.11/24", "10.1.0.11/24"), host("b", "10.0.0.12/24", "10.1.0.12/24")}
	found = NodeAddresses(two, reached(two), true)
	require.Equal(t, "10.1.0.11/24", found["a"].String(), "the address of the route with the smaller metric")
	require.Equal(t, "10.1.0.12/24", found["b"].String(), "both addresses are in one network")
}
