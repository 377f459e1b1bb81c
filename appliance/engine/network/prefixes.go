// Package network computes with the networks of a cluster: the networks of the hosts, groups of
// connected hosts, and overlapping prefixes. It also validates names and ranges in requests.
//
// All functions are pure. Prefixes are net/netip values. Invalid prefixes are rejected in requests
// and ignored in agents' reports.
package network

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
)

// Networks returns the networks in which a host has an address: masked, without repetition, IPv4
// first.
func Networks(inv *models.Inventory) []netip.Prefix {
	if inv == nil {
		return nil
	}
	var list []netip.Prefix
	for _, nic := range inv.Interfaces {
		for _, p := range inventory.Addresses(nic) {
			if p = p.Masked(); !slices.Contains(list, p) {
				list = append(list, p)
			}
		}
	}
	slices.SortFunc(list, comparePrefixes)
	return list
}

func comparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}

// HostNetworks groups hosts by network, in the format of a cluster's host_networks. Networks are
// ordered by address. Hosts keep the given order.
func HostNetworks(hosts []*inventory.Host) []*models.HostNetwork {
	members := make(map[netip.Prefix][]strfmt.UUID)
	var order []netip.Prefix
	for _, h := range hosts {
		for _, p := range Networks(h.Inventory) {
			if members[p] == nil {
				order = append(order, p)
			}
			members[p] = append(members[p], h.ID())
		}
	}
	slices.SortFunc(order, comparePrefixes)
	list := make([]*models.HostNetwork, 0, len(order))
	for _, p := range order {
		list = append(list, &models.HostNetwork{Cidr: p.String(), HostIds: members[p]})
	}
	return list
}

// NetworkOf returns the network of an address, based on the addresses of the hosts. The network of
// a VIP is the cluster's machine network.
func NetworkOf(ip netip.Addr, hosts []*inventory.Host) (netip.Prefix, bool) {
	for _, h := range hosts {
		for _, p := range Networks(h.Inventory) {
			if p.Contains(ip) {
				return p, true
			}
		}
	}
	return netip.Prefix{}, false
}

// AddressIn returns the first address of the host inside a network, and its interface. The last
// value is false if there is none.
func AddressIn(network netip.Prefix, inv *models.Inventory) (netip.Addr, *models.Interface, bool) {
	if inv == nil {
		return netip.Addr{}, nil, false
	}
	for _, nic := range inv.Interfaces {
		for _, p := range inventory.Addresses(nic) {
			if network.Contains(p.Addr()) {
				return p.Addr(), nic, true
			}
		}
	}
	return netip.Addr{}, nil, false
}

// MachineNetworks returns the cluster's machine networks. It skips invalid prefixes, which
// CheckRange rejects.
func MachineNetworks(c *models.Cluster) []netip.Prefix {
	return prefixes(len(c.MachineNetworks), func(i int) string {
		if c.MachineNetworks[i] == nil {
			return ""
		}
		return string(c.MachineNetworks[i].Cidr)
	})
}

// ClusterNetworks returns the address ranges of pods.
func ClusterNetworks(c *models.Cluster) []netip.Prefix {
	return prefixes(len(c.ClusterNetworks), func(i int) string {
		if c.ClusterNetworks[i] == nil {
			return ""
		}
		return string(c.ClusterNetworks[i].Cidr)
	})
}

// ServiceNetworks returns the address ranges of services.
func ServiceNetworks(c *models.Cluster) []netip.Prefix {
	return prefixes(len(c.ServiceNetworks), func(i int) string {
		if c.ServiceNetworks[i] == nil {
			return ""
		}
		return string(c.ServiceNetworks[i].Cidr)
	})
}

func prefixes(n int, text func(int) string) []netip.Prefix {
	list := make([]netip.Prefix, 0, n)
	for i := range n {
		if p, err := netip.ParsePrefix(text(i)); err == nil {
			list = append(list, p.Masked())
		}
	}
	return list
}

// Overlap returns the first two overlapping prefixes, one of each list.
func Overlap(a, b []netip.Prefix) (x, y netip.Prefix, found bool) {
	for _, p := range a {
		for _, q := range b {
			if p.Overlaps(q) {
				return p, q, true
			}
		}
	}
	return netip.Prefix{}, netip.Prefix{}, false
}

// Families reports which address families the prefixes have.
func Families(list []netip.Prefix) (v4, v6 bool) {
	for _, p := range list {
		if p.Addr().Is4() {
			v4 = true
		} else {
			v6 = true
		}
	}
	return v4, v6
}

// DualStack reports whether a cluster has networks of both families.
func DualStack(c *models.Cluster) bool {
	v4, v6 := Families(slices.Concat(MachineNetworks(c), ClusterNetworks(c), ServiceNetworks(c)))
	return v4 && v6
}

// Reserved names an address of an IPv4 network that no machine may have: the address of the network
// itself or its broadcast address. For any other address it is empty.
func Reserved(ip netip.Addr, network netip.Prefix) string {
	switch {
	case !ip.Is4() || !network.Contains(ip) || network.Bits() >= 31:
		return ""
	case ip == network.Masked().Addr():
		return "network address"
	case ip == lastOf(network):
		return "broadcast address"
	}
	return ""
}

func lastOf(network netip.Prefix) netip.Addr {
	b := network.Masked().Addr().AsSlice()
	for bit := network.Bits(); bit < len(b)*8; bit++ {
		b[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(b)
	return last
}

// RoomFor reports whether an IPv4 network has enough addresses for the hosts and both VIPs, in
// addition to its network and broadcast address. A single node needs no VIPs.
func RoomFor(hosts int, network netip.Prefix) bool {
	free := network.Addr().BitLen() - network.Bits()
	if free >= 32 {
		return true
	}
	if hosts == 1 {
		return free >= 1
	}
	return 1<<free >= hosts+4
}

// Kinds of ranges for CheckRange.
const (
	MachineRange       = "machine network"
	SNOMachineRange    = "machine network of a single node"
	ExternalLBRange    = "machine network behind an external load balancer"
	ClusterOrServices  = "cluster or service network"
	hostBitsForCluster = 7
)

// CheckRange returns a sentence about the fault of a requested range, or "" for a valid range. The
// kind determines the minimum size: 128 addresses for pods and services, 16 for machines, 4 behind
// an external load balancer, 2 for a single node.
func CheckRange(kind, text string) string {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return fmt.Sprintf("%q is not a network: give an address and a prefix length, as in 192.168.1.0/24.", text)
	}
	if masked := p.Masked(); masked != p {
		return fmt.Sprintf("%s is an address inside a network: use the network itself, %s.", text, masked)
	}
	hostBits := map[string]int{MachineRange: 4, SNOMachineRange: 1, ExternalLBRange: 2,
		ClusterOrServices: hostBitsForCluster}[kind]
	longest := p.Addr().BitLen() - hostBits
	switch {
	case p.Bits() < 1:
		return fmt.Sprintf("%s is the whole address space: give the network that is used.", text)
	case p.Bits() > longest:
		return fmt.Sprintf("%s is too small for a %s: it needs at least %d addresses, so a prefix of /%d or shorter.",
			text, kind, 1<<hostBits, longest)
	case p.Addr().IsUnspecified():
		return fmt.Sprintf("%s begins at the unspecified address: give the network that is used.", text)
	}
	return ""
}

// CheckHostPrefix returns a sentence about the fault in a host prefix, or "" for a valid one. The
// host prefix divides a cluster network into one part per host. A part needs at least 128
// addresses. There must be parts for at least four hosts, or for one on a single node.
func CheckHostPrefix(cluster netip.Prefix, hostPrefix, hosts int) string {
	bits := cluster.Addr().BitLen()
	if hostPrefix < 1 {
		return fmt.Sprintf("The host prefix %d of cluster network %s must be a positive number; 23 is usual for IPv4 "+
			"and 64 for IPv6.", hostPrefix, cluster)
	}
	if hostPrefix > bits-hostBitsForCluster {
		return fmt.Sprintf("The host prefix /%d of cluster network %s leaves a host fewer than 128 addresses: use "+
			"/%d or shorter.",
			hostPrefix, cluster, bits-hostBitsForCluster)
	}
	if hostPrefix < cluster.Bits() {
		return fmt.Sprintf("The host prefix /%d is shorter than the prefix of the cluster network %s, which is "+
			"divided among the hosts: use a longer host prefix.", hostPrefix, cluster)
	}
	return CheckParts(cluster, hostPrefix, hosts)
}

// CheckParts returns a sentence if a cluster network has too few parts of a host prefix, or "". A
// network that is smaller than a part counts as one part.
func CheckParts(cluster netip.Prefix, hostPrefix, hosts int) string {
	need := max(4, hosts)
	if hosts == 1 {
		need = 1
	}
	pieces := uint64(1) << min(63, max(0, hostPrefix-cluster.Bits()))
	if uint64(need) > pieces {
		return fmt.Sprintf("Cluster network %s can be divided into %d parts of /%d, but the hosts need %d: use a "+
			"larger "+
			"network or a longer host prefix.",
			cluster, pieces, hostPrefix, need)
	}
	return ""
}

// SameHostNetwork reports whether two networks have the same range and hosts.
func SameHostNetwork(a, b *models.HostNetwork) bool {
	return a.Cidr == b.Cidr && slices.Equal(a.HostIds, b.HostIds)
}

// OfMachines returns the network of the API VIP. Without VIPs, it returns the network that all
// hosts have in common, if there is only one.
func OfMachines(cluster *models.Cluster, hosts []*inventory.Host) netip.Prefix {
	if len(cluster.APIVips) > 0 {
		if vip, err := netip.ParseAddr(string(cluster.APIVips[0].IP)); err == nil {
			found, _ := NetworkOf(vip, hosts)
			return found
		}
	}
	if !conv.Value(cluster.UserManagedNetworking) || len(hosts) == 0 || hosts[0].Inventory == nil {
		return netip.Prefix{}
	}
	if networks := HostNetworks(hosts); len(networks) == 1 {
		prefix, err := netip.ParsePrefix(networks[0].Cidr)
		if err == nil {
			return prefix
		}
	}
	return netip.Prefix{}
}
