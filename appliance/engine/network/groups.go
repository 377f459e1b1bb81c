package network

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
)

// Keys of the groups of hosts that can reach all addresses of a family, also across routers.
const (
	IPv4Group = "IPv4"
	IPv6Group = "IPv6"
)

// Groups holds the groups of connected hosts. It is the content of a cluster's
// connectivity_majority_groups.
type Groups struct {
	// MajorityGroups holds groups of connected hosts by network and by address family. The key
	// "192.168.1.0/24" is for connections within the network, and "IPv4" and "IPv6" are for
	// connections across routers. A network without a group has an empty list.
	MajorityGroups map[string][]strfmt.UUID `json:"majority_groups"`
	// L3ConnectedAddresses holds the addresses of each host that all other hosts can reach.
	L3ConnectedAddresses map[strfmt.UUID][]string `json:"l3_connected_addresses"`
}

// ParseGroups parses connectivity_majority_groups. For "" it returns nil: the groups have not been
// formed yet.
func ParseGroups(text string) (*Groups, error) {
	if text == "" {
		return nil, nil
	}
	var g Groups
	if err := json.Unmarshal([]byte(text), &g); err != nil {
		return nil, fmt.Errorf("read the groups of connected hosts: %w", err)
	}
	return &g, nil
}

// JSON returns the groups in the format of the API. Equal groups have equal texts.
func (g *Groups) JSON() (string, error) {
	b, err := json.Marshal(g)
	if err != nil {
		return "", fmt.Errorf("encode the groups of connected hosts: %w", err)
	}
	return string(b), nil
}

// MajorityGroups forms groups from the hosts' connectivity reports. Two hosts are connected if each
// reports that it reached the other. In a group, all hosts are connected with each other. A group
// has at least smallest hosts.
func MajorityGroups(hosts []*inventory.Host, smallest int) *Groups {
	hosts = slices.Clone(hosts)
	slices.SortFunc(hosts, func(a, b *inventory.Host) int { return compareText(string(a.ID()), string(b.ID())) })
	g := &Groups{
		MajorityGroups:       make(map[string][]strfmt.UUID),
		L3ConnectedAddresses: reachedByAll(hosts),
	}
	for _, n := range HostNetworks(hosts) {
		network := netip.MustParsePrefix(n.Cidr)
		g.MajorityGroups[n.Cidr] = fullMesh(hosts, smallest,
			func(r *models.ConnectivityRemoteHost) bool { return reachesWithin(network, r) })
	}
	addresses := addressesByHost(hosts)
	for _, family := range []struct {
		key string
		v6  bool
	}{{IPv4Group, false}, {IPv6Group, true}} {
		g.MajorityGroups[family.key] = fullMesh(hosts, smallest, func(r *models.ConnectivityRemoteHost) bool {
			return reachesAllOf(addresses[r.HostID], family.v6, r)
		})
	}
	return g
}

func compareText(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	default:
		return 0
	}
}

// reachesWithin reports whether a remote host responded inside a network. The agent's scan
// sometimes misses IPv6 neighbour discovery, so a response to a ping is enough for IPv6.
func reachesWithin(network netip.Prefix, r *models.ConnectivityRemoteHost) bool {
	for _, l2 := range r.L2Connectivity {
		if l2.Successful && contains(network, l2.RemoteIPAddress) {
			return true
		}
	}
	if network.Addr().Is4() {
		return false
	}
	for _, l3 := range r.L3Connectivity {
		if l3.Successful && contains(network, l3.RemoteIPAddress) {
			return true
		}
	}
	return false
}

func contains(network netip.Prefix, text string) bool {
	ip, err := netip.ParseAddr(text)
	return err == nil && network.Contains(ip.WithZone(""))
}

// reachesAllOf reports whether all addresses of a family of the remote host responded.
func reachesAllOf(addresses []netip.Addr, v6 bool, r *models.ConnectivityRemoteHost) bool {
	some := false
	for _, ip := range addresses {
		if ip.Is6() != v6 {
			continue
		}
		some = true
		if !slices.ContainsFunc(r.L3Connectivity, func(l3 *models.L3Connectivity) bool {
			remote, err := netip.ParseAddr(l3.RemoteIPAddress)
			return err == nil && l3.Successful && remote == ip
		}) {
			return false
		}
	}
	return some
}

func addressesByHost(hosts []*inventory.Host) map[strfmt.UUID][]netip.Addr {
	all := make(map[strfmt.UUID][]netip.Addr, len(hosts))
	for _, h := range hosts {
		if h.Inventory == nil {
			continue
		}
		for _, nic := range h.Inventory.Interfaces {
			for _, p := range inventory.Addresses(nic) {
				all[h.ID()] = append(all[h.ID()], p.Addr())
			}
		}
	}
	return all
}

// fullMesh finds a large set of hosts that are all connected with each other. It removes the host
// with the fewest connections until only connected hosts remain. Then it adds the removed hosts
// that are connected with all remaining ones. In a partitioned network the result is the largest
// set. The time is quadratic in the number of hosts for every shape of the network.
func fullMesh(hosts []*inventory.Host, smallest int, reaches func(*models.ConnectivityRemoteHost) bool) []strfmt.UUID {
	connected := connections(hosts, reaches)
	in := make([]bool, len(hosts))
	degree := make([]int, len(hosts))
	size := len(hosts)
	for i := range hosts {
		in[i] = true
		for j := range hosts {
			if connected[i][j] {
				degree[i]++
			}
		}
	}
	for size >= smallest {
		worst := -1
		for i := range hosts {
			if in[i] && (worst < 0 || degree[i] <= degree[worst]) {
				worst = i
			}
		}
		if degree[worst] == size-1 {
			break
		}
		in[worst] = false
		size--
		for j := range hosts {
			if connected[worst][j] {
				degree[j]--
			}
		}
	}
	if size < smallest {
		return []strfmt.UUID{}
	}
	for i := range hosts {
		if !in[i] && degree[i] == size {
			in[i] = true
			size++
			for j := range hosts {
				if connected[i][j] {
					degree[j]++
				}
			}
		}
	}
	group := make([]strfmt.UUID, 0, size)
	for i, h := range hosts {
		if in[i] {
			group = append(group, h.ID())
		}
	}
	return group
}

// connections returns the matrix of connected hosts. Two hosts are connected if both reached each
// other.
func connections(hosts []*inventory.Host, reaches func(*models.ConnectivityRemoteHost) bool) [][]bool {
	index := make(map[strfmt.UUID]int, len(hosts))
	for i, h := range hosts {
		index[h.ID()] = i
	}
	reached := make([][]bool, len(hosts))
	for i, h := range hosts {
		reached[i] = make([]bool, len(hosts))
		if h.Connectivity == nil {
			continue
		}
		for _, r := range h.Connectivity.RemoteHosts {
			if j, known := index[r.HostID]; known && j != i && reaches(r) {
				reached[i][j] = true
			}
		}
	}
	for i := range reached {
		for j := range i {
			both := reached[i][j] && reached[j][i]
			reached[i][j], reached[j][i] = both, both
		}
	}
	return reached
}

// reachedByAll returns the addresses of each host that all other hosts reached by ping, sorted.
func reachedByAll(hosts []*inventory.Host) map[strfmt.UUID][]string {
	counts := make(map[strfmt.UUID]map[string]int)
	for _, h := range hosts {
		if h.Connectivity == nil {
			continue
		}
		seen := make(map[strfmt.UUID]map[string]bool)
		for _, r := range h.Connectivity.RemoteHosts {
			if r.HostID == h.ID() {
				continue
			}
			if seen[r.HostID] == nil {
				seen[r.HostID] = make(map[string]bool)
			}
			for _, l3 := range r.L3Connectivity {
				if l3.Successful {
					seen[r.HostID][l3.RemoteIPAddress] = true
				}
			}
		}
		for id, addresses := range seen {
			if counts[id] == nil {
				counts[id] = make(map[string]int)
			}
			for a := range addresses {
				counts[id][a]++
			}
		}
	}
	all := make(map[strfmt.UUID][]string)
	for id, addresses := range counts {
		for a, n := range addresses {
			if n == len(hosts)-1 {
				all[id] = append(all[id], a)
			}
		}
		slices.Sort(all[id])
	}
	return all
}

// Collisions finds addresses that several machines use: one interface of a host received responses
// with different MAC addresses. The result is the content of a cluster's ip_collisions: sorted MAC
// addresses by IP address.
func Collisions(hosts []*inventory.Host) map[string][]string {
	found := make(map[string][]string)
	for _, h := range hosts {
		if h.Connectivity == nil {
			continue
		}
		type seen struct{ nic, ip string }
		macs := make(map[seen][]string)
		for _, r := range h.Connectivity.RemoteHosts {
			for _, l2 := range r.L2Connectivity {
				key := seen{l2.OutgoingNic, l2.RemoteIPAddress}
				if l2.RemoteMac != "" && !slices.Contains(macs[key], l2.RemoteMac) {
					macs[key] = append(macs[key], l2.RemoteMac)
				}
			}
		}
		for key, list := range macs {
			if len(list) < 2 {
				continue
			}
			all := append(found[key.ip], list...)
			slices.Sort(all)
			found[key.ip] = slices.Compact(all)
		}
	}
	return found
}

// FreeAddress verifies that an IPv4 address is free: all hosts that reported free addresses of its
// network must list it. Without such a host, the result is unverified.
func FreeAddress(ip netip.Addr, network netip.Prefix, hosts []*inventory.Host) models.VipVerification {
	result := models.VipVerificationUnverified
	for _, h := range hosts {
		for _, list := range h.FreeAddresses {
			if p, err := netip.ParsePrefix(list.Network); err != nil || p.Masked() != network ||
				len(list.FreeAddresses) == 0 {
				continue
			}
			if !slices.Contains(list.FreeAddresses, strfmt.IPv4(ip.String())) {
				return models.VipVerificationFailed
			}
			result = models.VipVerificationSucceeded
		}
	}
	return result
}
