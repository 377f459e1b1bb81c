package dhcpserver

import (
	"context"
	"net/netip"

	"landfall/appliance/siteservice/link"
)

// Offer is the answer of another DHCP server.
type Offer struct {
	Server  netip.Addr
	Address netip.Addr // invalid if the server offers a boot file only
	Boot    string     // boot file, or ""
}

// Look returns the other servers on the interface that do what this one would do: offer addresses,
// or offer boot files beside another server.
func (s *Server) Look(ctx context.Context, on link.Link) ([]link.Other, error) {
	offers, err := s.Discover(ctx, on)
	if err != nil {
		return nil, err
	}
	var others []link.Other
	for _, offer := range offers {
		if offer.Server == prefixAddress(on) {
			continue
		}
		other := link.Other{Address: offer.Server.String()}
		switch {
		case offer.Address.IsValid() && s.Mode != Proxy:
			other.Details = "offers " + offer.Address.String()
		case !offer.Address.IsValid() && offer.Boot != "" && !s.Settings(on).KnownOnly:
			other.Details = "offers the boot file " + offer.Boot + " and no addresses; limit this service to known " +
				"machines with site.dhcp.known_only to run both"
		default:
			continue
		}
		mac, err := s.Neighbour(ctx, offer.Server)
		if err == nil {
			other.MAC = mac
		}
		others = append(others, other)
	}
	return others, nil
}

func prefixAddress(on link.Link) netip.Addr {
	prefix, _ := on.IPv4()
	return prefix.Addr()
}
