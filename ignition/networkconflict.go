package ignition

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Claim describes the owner of an address.
type Claim struct {
	Owner string // a clause such as "which is the API VIP of cluster demo"
	// MACs are the MAC addresses of the machine that owns the address, in upper case. Another
	// description of the same machine may use the address too.
	MACs []string
}

// Claims contains the addresses that hosts must not use, with their owners.
type Claims map[netip.Addr]Claim

// owners maps MAC addresses and IP addresses to hosts, to find duplicates.
type owners struct {
	taken     Claims
	macs      map[string]int
	addresses map[netip.Addr]ownedAddress
}

type ownedAddress struct {
	host int
	link string
}

func newOwners(taken Claims) *owners {
	return &owners{taken: taken, macs: make(map[string]int), addresses: make(map[netip.Addr]ownedAddress)}
}

// take adds the addresses of a host. It returns a fault if an address has another owner.
func (o *owners) take(i int, host *plannedHost) *NetworkFault {
	for _, c := range host.nics {
		if first, taken := o.macs[c.MAC]; taken {
			return &NetworkFault{Problem: fmt.Sprintf("the MAC address %s already belongs to host %d", c.MAC, first)}
		}
		o.macs[c.MAC] = i
	}
	for _, a := range host.addresses(i) {
		ip := a.Address.Addr()
		if first, taken := o.addresses[ip]; taken && first.host != i {
			return host.state.fault(a.Field, 0, fmt.Sprintf("is %s, which is already an address of %s of host %d",
				ip, first.link,
				first.host))
		}
		if claim, taken := o.taken[ip]; taken && !host.isOne(claim.MACs) {
			return host.state.fault(a.Field, 0, fmt.Sprintf("is %s, which is %s", ip, claim.Owner))
		}
		o.addresses[ip] = ownedAddress{i, a.Interface}
	}
	return nil
}

// isOne reports whether a host has one of the NICs.
func (h *plannedHost) isOne(macs []string) bool {
	return slices.ContainsFunc(h.nics, func(c NetworkInterface) bool { return slices.Contains(macs, c.MAC) })
}

func addressField(l *link, v6 bool, i int) string {
	return fmt.Sprintf("%s.%s.address[%d].ip", l.path, strings.ToLower(familyName(v6)), i)
}

// reachesOthers reports whether an interface is connected to other machines. A bridge without ports
// is internal and may have the same addresses on all machines.
func (l *link) reachesOthers() bool { return l.kind != "linux-bridge" || len(l.bridge.ports) > 0 }

// StaticAddress is an address that a description assigns to a host.
type StaticAddress struct {
	Host      int // index of the description
	Interface string
	Field     string // field that contains the address
	Address   netip.Prefix
	MACs      []string // MAC addresses of the host's NICs, in upper case
}

// addresses returns the addresses that other machines can reach.
func (h *plannedHost) addresses(i int) []StaticAddress {
	var all []StaticAddress
	macs := make([]string, 0, len(h.nics))
	for _, c := range h.nics {
		macs = append(macs, c.MAC)
	}
	for _, l := range h.state.interfaces {
		for _, v6 := range []bool{false, true} {
			for j, address := range staticAddresses(l, v6) {
				if l.reachesOthers() && !address.Addr().IsLinkLocalUnicast() {
					all = append(all, StaticAddress{Host: i, Interface: l.name, Field: addressField(l, v6, j),
						Address: address, MACs: macs})
				}
			}
		}
	}
	return all
}
