package ignition

import (
	"fmt"
	"net/netip"
	"strings"
)

// owners tells which host has which MAC address and which address, so that no second one gets it.
type owners struct {
	macs      map[string]int
	addresses map[netip.Addr]ownedAddress
}

type ownedAddress struct {
	host int
	link string
}

func newOwners() *owners {
	return &owners{macs: make(map[string]int), addresses: make(map[netip.Addr]ownedAddress)}
}

// take gives a host what its description says, or says who has it already.
func (o *owners) take(i int, host *plannedHost) *NetworkFault {
	for _, c := range host.cards {
		if first, taken := o.macs[c.MAC]; taken {
			return &NetworkFault{Problem: fmt.Sprintf("the MAC address %s belongs to host %d already", c.MAC, first)}
		}
		o.macs[c.MAC] = i
	}
	for _, l := range host.state.interfaces {
		for _, v6 := range []bool{false, true} {
			for j, address := range staticAddresses(l, v6) {
				ip := address.Addr()
				if !l.reachesOthers() || ip.IsLinkLocalUnicast() {
					continue
				}
				if first, taken := o.addresses[ip]; taken && first.host != i {
					return host.state.fault(addressField(l, v6, j), 0, fmt.Sprintf("is %s, which %s of host %d has already", ip, first.link, first.host))
				}
				o.addresses[ip] = ownedAddress{i, l.name}
			}
		}
	}
	return nil
}

func addressField(l *link, v6 bool, i int) string {
	return fmt.Sprintf("%s.%s.address[%d].ip", l.path, strings.ToLower(familyName(v6)), i)
}

// reachesOthers tells whether an interface leads out of the machine: a bridge without ports is for what runs on it, and
// may have the same addresses everywhere.
func (l *link) reachesOthers() bool { return l.kind != "linux-bridge" || len(l.bridge.ports) > 0 }

// StaticAddress is an address that a description gives to a host.
type StaticAddress struct {
	Host      int // its place among the descriptions
	Interface string
	Field     string // where it is said
	Line      int
	Address   netip.Prefix
}

// StaticAddresses are the addresses of the hosts that others can reach, in the order of the descriptions.
func StaticAddresses(hosts []HostNetwork) ([]StaticAddress, error) {
	plan, err := planNetwork(hosts, "")
	if err != nil {
		return nil, fmt.Errorf("static network: %w", err)
	}
	var all []StaticAddress
	for i, host := range plan.hosts {
		all = append(all, host.addresses(i)...)
	}
	return all, nil
}

func (h *plannedHost) addresses(i int) []StaticAddress {
	var all []StaticAddress
	for _, l := range h.state.interfaces {
		for _, v6 := range []bool{false, true} {
			for j, address := range staticAddresses(l, v6) {
				if l.reachesOthers() && !address.Addr().IsLinkLocalUnicast() {
					at := addressField(l, v6, j)
					all = append(all, StaticAddress{Host: i, Interface: l.name, Field: at, Line: lineOf(h.state.document, at), Address: address})
				}
			}
		}
	}
	return all
}
