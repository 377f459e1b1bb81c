package ignition

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// doubts returns gateways that no network of their interface contains. NetworkManager accepts them,
// and some providers' networks need them, but mostly they are typing errors that leave the host
// without a connection.
func (s *hostState) doubts(host int) []*NetworkFault {
	var doubts []*NetworkFault
	for _, r := range s.routes {
		i := slices.IndexFunc(s.interfaces, func(l *link) bool { return l.name == r.via })
		if i < 0 || s.isNear(r, s.interfaces[i]) {
			continue
		}
		fault := s.fault(r.path+".next-hop-address", 0, fmt.Sprintf("is %s, which is in no network of %s (%s); "+
			"check the gateway and the prefix length", r.gateway, r.via, networksOf(s.interfaces[i].family(r.gateway.Is6()).addresses)))
		fault.Host = host
		doubts = append(doubts, fault)
	}
	return doubts
}

// isNear reports whether the gateway of a route may be a neighbour of its interface. A network that
// is not in the description, such as that of DHCP, may contain it. An interface with a single
// address (/32) has no network, so its gateway is outside.
func (s *hostState) isNear(r route, l *link) bool {
	f := l.family(r.gateway.Is6())
	return !r.gateway.IsValid() || r.gateway.IsLinkLocalUnicast() || f.method(r.gateway.Is6()) != "manual" ||
		slices.ContainsFunc(f.addresses, func(p netip.Prefix) bool {
			return p.IsSingleIP() || p.Contains(r.gateway)
		}) ||
		slices.ContainsFunc(s.routes, func(other route) bool {
			return other.via == r.via && !other.gateway.IsValid() && other.destination.Contains(r.gateway)
		})
}

func networksOf(addresses []netip.Prefix) string {
	networks := make([]string, len(addresses))
	for i, address := range addresses {
		networks[i] = address.Masked().String()
	}
	return strings.Join(networks, ", ")
}
