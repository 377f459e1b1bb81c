package network

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
)

// mostTries limits the search of NodeAddresses. If a site needs more tries, it gets no suggestion.
const mostTries = 100_000

// nodeAddress is a possible address of a host's node.
type nodeAddress struct {
	prefix netip.Prefix
	metric int32
	others []netip.Prefix // the host's other networks
}

// NodeAddresses chooses the node address of each host, with its network. It serves clusters whose
// description does not select one of several networks. All other hosts can reach the address, and
// its interface has a default route. Lower metrics are preferred.
//
// A network of a node address must not contain other addresses of another host. That host would use
// such an address as source, and etcd rejects a peer whose address is not in its certificate. The
// result is nil if a host has no suitable address.
func NodeAddresses(hosts []*inventory.Host, groups *Groups, v4 bool) map[strfmt.UUID]netip.Prefix {
	if groups == nil || len(groups.L3ConnectedAddresses) != len(hosts) {
		return nil
	}
	candidates := make([][]nodeAddress, len(hosts))
	for i, h := range hosts {
		if candidates[i] = nodeAddressesOf(h, groups.L3ConnectedAddresses[h.ID()], v4); len(candidates[i]) == 0 {
			return nil
		}
	}
	chosen := make([]nodeAddress, 0, len(hosts))
	tries := 0
	var choose func() bool
	choose = func() bool {
		if len(chosen) == len(hosts) {
			return true
		}
		for _, candidate := range candidates[len(chosen)] {
			if tries++; tries > mostTries {
				return false
			}
			if slices.ContainsFunc(chosen, candidate.collides) {
				continue
			}
			chosen = append(chosen, candidate)
			if choose() {
				return true
			}
			chosen = chosen[:len(chosen)-1]
		}
		return false
	}
	if !choose() {
		return nil
	}
	found := make(map[strfmt.UUID]netip.Prefix, len(hosts))
	for i, h := range hosts {
		found[h.ID()] = chosen[i].prefix
	}
	return found
}

func (a nodeAddress) collides(b nodeAddress) bool {
	within := func(ip netip.Addr) func(netip.Prefix) bool {
		return func(n netip.Prefix) bool { return n.Contains(ip) }
	}
	return slices.ContainsFunc(b.others, within(a.prefix.Addr())) || slices.ContainsFunc(a.others,
		within(b.prefix.Addr()))
}

// nodeAddressesOf returns the possible addresses of a host's node, the best first.
func nodeAddressesOf(h *inventory.Host, reached []string, v4 bool) []nodeAddress {
	if h.Inventory == nil {
		return nil
	}
	var found []nodeAddress
	var networks []netip.Prefix
	for _, nic := range h.Inventory.Interfaces {
		metric, routed := defaultMetric(h.Inventory.Routes, nic.Name, v4)
		for _, p := range inventory.Addresses(nic) {
			if p.Addr().Is4() != v4 {
				continue
			}
			networks = append(networks, p.Masked())
			if routed && slices.Contains(reached, p.Addr().String()) {
				found = append(found, nodeAddress{prefix: p, metric: metric})
			}
		}
	}
	for i := range found {
		own := found[i].prefix.Masked()
		found[i].others = slices.DeleteFunc(slices.Clone(networks), func(n netip.Prefix) bool { return n == own })
	}
	slices.SortStableFunc(found, func(a, b nodeAddress) int { return cmp.Compare(a.metric, b.metric) })
	return found
}

// defaultMetric returns the metric of the default route over an interface.
func defaultMetric(routes []*models.Route, nic string, v4 bool) (int32, bool) {
	const afInet, afInet6 = 2, 10 // the agent's numbers of address families
	family := int32(afInet6)
	if v4 {
		family = afInet
	}
	for _, r := range routes {
		if r.Family == family && r.Interface == nic && inventory.IsDefault(r) {
			return r.Metric, true
		}
	}
	return 0, false
}
