// Package dhcpserver serves DHCP on a network interface, in one of three ways: beside another DHCP
// server with nothing but the boot files of machines (proxyDHCP), with addresses for known
// machines, or with a range of addresses for all machines.
//
//	dhcpserver.go  the server and its settings
//	answer.go      answers to requests for addresses
//	boot.go        what a machine boots from the network
//	leases.go      the leases of addresses
//	look.go        other DHCP servers in the network
//	serve.go       the sockets
//
// Design: docs/design.md#services-for-a-bare-site.
package dhcpserver

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/siteservice/link"
)

// Mode is a way to serve DHCP.
type Mode string

// Modes.
const (
	// Proxy gives no addresses. Another DHCP server gives them.
	Proxy Mode = "proxy"
	// Reservations gives addresses to machines with a reservation.
	Reservations Mode = "reservations"
	// Dynamic gives addresses to all machines, from a range.
	Dynamic Mode = "range"
)

// Infinite is the time of a lease without an end (RFC 2131, 3.3).
const Infinite = time.Duration(0xffffffff) * time.Second

// Range is a range of IPv4 addresses.
type Range struct{ First, Last netip.Addr }

// ParseRange reads a range of addresses, such as 192.0.2.100-192.0.2.199.
func ParseRange(text string) (Range, error) {
	first, last, ok := strings.Cut(text, "-")
	r := Range{}
	var err error
	if r.First, err = netip.ParseAddr(strings.TrimSpace(first)); err == nil {
		r.Last, err = netip.ParseAddr(strings.TrimSpace(last))
	}
	if !ok || err != nil || !r.First.Is4() || !r.Last.Is4() || r.Last.Less(r.First) {
		return Range{}, fmt.Errorf("%q is not a range of IPv4 addresses, such as 192.0.2.100-192.0.2.199", text)
	}
	return r, nil
}

// Contains reports whether an address is in the range.
func (r Range) Contains(address netip.Addr) bool {
	return r.First.IsValid() && !address.Less(r.First) && !r.Last.Less(address)
}

// Subnet is a network whose machines get addresses.
type Subnet struct {
	Network netip.Prefix
	Router  netip.Addr // invalid for none
	Range   Range      // of dynamic addresses
}

// Unfit returns the use of an address that keeps it from machines; "" if machines can get it. own
// is the appliance's address in the network.
func (s Subnet) Unfit(address, own netip.Addr) string {
	switch {
	case address == own:
		return "the address of the appliance"
	case s.Network.Bits() > 30: // all addresses are those of machines (RFC 3021)
		return ""
	case address == s.Network.Masked().Addr():
		return fmt.Sprintf("the address of the network %s itself", s.Network)
	case address == last(s.Network):
		return fmt.Sprintf("the broadcast address of the network %s", s.Network)
	}
	return ""
}

// Settings are the values of DHCP options for the machines of an interface.
type Settings struct {
	Router    netip.Addr // invalid for none
	DNS, NTP  []netip.Addr
	Lease     time.Duration
	Relayed   []Subnet // networks behind relay agents
	KnownOnly bool     // serve boot files to known machines only
}

// Kind is the kind of an event.
type Kind string

// Kinds of events.
const (
	KindBoot     Kind = "boot"     // a machine got its boot file
	KindNoBoot   Kind = "no-boot"  // a machine asked for a boot file and got none
	KindConflict Kind = "conflict" // another machine has an address of the appliance
	KindNoLease  Kind = "no-lease" // a machine got no address
	KindRelay    Kind = "relay"    // a relay agent of an unknown network
)

// Event is something that a person may want to know about a machine.
type Event struct {
	At        time.Time `json:"at"`
	Kind      Kind      `json:"kind"`
	Interface string    `json:"interface"`
	MAC       string    `json:"mac"`
	Address   string    `json:"address,omitempty"`
	Message   string    `json:"message"`
}

// Server is the DHCP server on one interface.
type Server struct {
	Mode   Mode
	Range  Range
	Leases *Leases // shared by all interfaces
	// Settings returns the values of options.
	Settings func(on link.Link) Settings
	// Boot returns what a machine boots; nil means that no machine boots from the network.
	Boot func(ctx context.Context, machine Machine) (Boot, error)
	// HasLoader reports whether the operator has supplied a boot loader.
	HasLoader func(name string) bool
	// Known reports whether the site knows a machine by its MAC address.
	Known func(mac net.HardwareAddr) bool
	// Probe returns the MAC address of the machine that answers for an address on an interface, or
	// "" if none does before the context ends.
	Probe func(ctx context.Context, on link.Link, address netip.Addr) (string, error)
	// Neighbour returns the MAC address of a machine that has sent something, or "".
	Neighbour func(ctx context.Context, address netip.Addr) (string, error)
	// Discover returns the offers of other servers on an interface.
	Discover func(ctx context.Context, on link.Link) ([]Offer, error)
	// Note receives events.
	Note  func(Event)
	Clock clockwork.Clock
	// Port and ProxyPort are the ports of the server; ClientPort is that of clients.
	Port, ProxyPort, ClientPort uint16
}

// Ports of DHCP (RFC 2131, 4.1) and of the boot server of PXE (PXE specification 2.1, 2.2.1).
const (
	ServerPort = 67
	ClientPort = 68
	ProxyPort  = 4011
)

func (s *Server) note(on link.Link, kind Kind, mac net.HardwareAddr, address netip.Addr, format string, args ...any) {
	event := Event{At: s.Clock.Now().UTC(), Kind: kind, Interface: on.Name, MAC: mac.String(),
		Message: fmt.Sprintf(format, args...)}
	if address.IsValid() {
		event.Address = address.String()
	}
	s.Note(event)
}
