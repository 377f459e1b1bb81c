package inventory

import (
	"net/netip"

	"github.com/openshift/assisted-service/models"
)

// Addresses returns the addresses of an interface with their prefix lengths, IPv4 first. It skips
// invalid addresses. It also skips link-local IPv6 addresses, which do not belong to a network of
// the site.
func Addresses(nic *models.Interface) []netip.Prefix {
	prefixes := make([]netip.Prefix, 0, len(nic.IPV4Addresses)+len(nic.IPV6Addresses))
	for _, list := range [2][]string{nic.IPV4Addresses, nic.IPV6Addresses} {
		for _, s := range list {
			p, err := netip.ParsePrefix(s)
			if err != nil || p.Addr().IsLinkLocalUnicast() && p.Addr().Is6() {
				continue
			}
			prefixes = append(prefixes, p)
		}
	}
	return prefixes
}

// IsDefault reports whether a route is a default route with a gateway.
func IsDefault(r *models.Route) bool {
	if r.Gateway == "" {
		return false
	}
	gateway, err := netip.ParseAddr(r.Gateway)
	if err != nil || gateway.IsUnspecified() {
		return false
	}
	if p, err := netip.ParsePrefix(r.Destination); err == nil {
		return p.Bits() == 0
	}
	destination, err := netip.ParseAddr(r.Destination)
	return err == nil && destination.IsUnspecified()
}

// defaultRoute returns the default route of an address family with the lowest metric, which the
// kernel prefers.
func defaultRoute(inv *models.Inventory, v6 bool) *models.Route {
	var best *models.Route
	for _, r := range inv.Routes {
		if !IsDefault(r) {
			continue
		}
		gateway, err := netip.ParseAddr(r.Gateway)
		if err != nil || gateway.Is6() != v6 {
			continue
		}
		if best == nil || r.Metric < best.Metric {
			best = r
		}
	}
	return best
}
