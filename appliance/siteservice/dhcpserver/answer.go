package dhcpserver

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"landfall/appliance/fault"
	"landfall/appliance/siteservice/link"
)

const (
	// probeTimeout is the time for a machine to answer an ARP request for an address that is about
	// to be offered. Clients repeat a request after 4 s (RFC 2131, 4.1).
	probeTimeout = 600 * time.Millisecond
	// maxProbes is the number of addresses that are tried for one offer.
	maxProbes = 4
	// maxHostname is the maximum length of the name that a client reports.
	maxHostname = 63
)

// Answer returns the answer to a request, or nil if there is none.
func (s *Server) Answer(ctx context.Context, on link.Link, request *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 {
	prefix, ok := on.IPv4()
	if !ok || request.OpCode != dhcpv4.OpcodeBootRequest || len(request.ClientHWAddr) != 6 {
		return nil
	}
	own := prefix.Addr()
	if s.Mode == Proxy {
		if request.MessageType() != dhcpv4.MessageTypeDiscover {
			return nil
		}
		return s.bootOnly(ctx, on, own, request, dhcpv4.MessageTypeOffer)
	}
	subnet, ok := s.subnetOf(on, prefix, request)
	if !ok {
		return nil
	}
	r := exchange{Server: s, on: on, own: own, subnet: subnet, request: request}
	switch request.MessageType() {
	case dhcpv4.MessageTypeDiscover:
		return r.offer(ctx)
	case dhcpv4.MessageTypeRequest:
		return r.acknowledge(ctx)
	case dhcpv4.MessageTypeDecline:
		r.decline(ctx)
	case dhcpv4.MessageTypeRelease:
		r.release(ctx)
	case dhcpv4.MessageTypeInform:
		answer, err := r.reply(dhcpv4.MessageTypeAck)
		if err != nil {
			return nil
		}
		answer.ClientIPAddr = request.ClientIPAddr
		s.addBoot(ctx, on, own, request, answer)
		return answer
	}
	return nil
}

// AnswerProxy returns the answer to a request to the boot server of PXE, or nil.
func (s *Server) AnswerProxy(ctx context.Context, on link.Link, request *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 {
	prefix, ok := on.IPv4()
	if !ok || request.OpCode != dhcpv4.OpcodeBootRequest || len(request.ClientHWAddr) != 6 ||
		request.MessageType() != dhcpv4.MessageTypeRequest {
		return nil
	}
	return s.bootOnly(ctx, on, prefix.Addr(), request, dhcpv4.MessageTypeAck)
}

// bootOnly returns an answer with a boot file and without an address, or nil.
func (s *Server) bootOnly(ctx context.Context, on link.Link, own netip.Addr, request *dhcpv4.DHCPv4,
	kind dhcpv4.MessageType) *dhcpv4.DHCPv4 {
	answer, err := newReply(request, own, kind)
	if err != nil || !s.addBoot(ctx, on, own, request, answer) {
		return nil
	}
	answer.ClientIPAddr = request.ClientIPAddr
	return answer
}

func newReply(request *dhcpv4.DHCPv4, own netip.Addr, kind dhcpv4.MessageType) (*dhcpv4.DHCPv4, error) {
	return dhcpv4.New(dhcpv4.WithReply(request), dhcpv4.WithMessageType(kind),
		dhcpv4.WithGatewayIP(request.GatewayIPAddr),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(own.AsSlice())),
		dhcpv4.WithOptionCopied(request, dhcpv4.OptionClientIdentifier),
		dhcpv4.WithOptionCopied(request, dhcpv4.OptionRelayAgentInformation))
}

// subnetOf returns the network of a client: that of the interface, or that of its relay agent. A
// client renews its lease without the agent, and names its address (RFC 2131, 4.3.2).
func (s *Server) subnetOf(on link.Link, prefix netip.Prefix, request *dhcpv4.DHCPv4) (Subnet, bool) {
	settings := s.Settings(on)
	agent, ok := netip.AddrFromSlice(request.GatewayIPAddr.To4())
	if !ok || agent.IsUnspecified() {
		present, _ := netip.AddrFromSlice(request.ClientIPAddr.To4())
		for _, subnet := range settings.Relayed {
			if subnet.Network.Contains(present) && !prefix.Contains(present) {
				return subnet, true
			}
		}
		return Subnet{Network: prefix.Masked(), Router: settings.Router, Range: s.Range}, true
	}
	for _, subnet := range settings.Relayed {
		if subnet.Network.Contains(agent) {
			return subnet, true
		}
	}
	s.note(on, KindRelay, request.ClientHWAddr, agent, "The relay agent %s belongs to no network in "+
		"site.dhcp.relayed, so "+
		"its machines get no answer.", agent)
	return Subnet{}, false
}

// exchange is one request of a client.
type exchange struct {
	*Server
	on      link.Link
	own     netip.Addr
	subnet  Subnet
	request *dhcpv4.DHCPv4
}

func (x *exchange) mac() net.HardwareAddr { return x.request.ClientHWAddr }

// reply returns an answer with the options of the network.
func (x *exchange) reply(kind dhcpv4.MessageType) (*dhcpv4.DHCPv4, error) {
	answer, err := newReply(x.request, x.own, kind)
	if err != nil {
		return nil, err
	}
	settings := x.Settings(x.on)
	answer.UpdateOption(dhcpv4.OptSubnetMask(net.CIDRMask(x.subnet.Network.Bits(), 32)))
	if x.subnet.Router.IsValid() {
		answer.UpdateOption(dhcpv4.OptRouter(x.subnet.Router.AsSlice()))
	}
	if servers := addresses(settings.DNS); len(servers) > 0 {
		answer.UpdateOption(dhcpv4.OptDNS(servers...))
	}
	if servers := addresses(settings.NTP); len(servers) > 0 {
		answer.UpdateOption(dhcpv4.OptNTPServers(servers...))
	}
	if r, ok := x.Leases.Reserved(x.mac()); ok && r.Hostname != "" {
		answer.UpdateOption(dhcpv4.OptHostName(r.Hostname))
	}
	return answer, nil
}

func addresses(list []netip.Addr) []net.IP {
	var found []net.IP
	for _, address := range list {
		if address.Is4() {
			found = append(found, address.AsSlice())
		}
	}
	return found
}

// offer offers an address. A machine that did not have the address before gets it only if no other
// machine answers for it.
func (x *exchange) offer(ctx context.Context) *dhcpv4.DHCPv4 {
	wanted, _ := netip.AddrFromSlice(x.request.RequestedIPAddress().To4())
	for range maxProbes {
		address, fresh, ok := x.Leases.find(x.mac(), x.subnet, x.own, wanted)
		if !ok {
			x.noAddress()
			return nil
		}
		if fresh && x.used(ctx, address) {
			continue
		}
		answer, err := x.reply(dhcpv4.MessageTypeOffer)
		if err != nil {
			return nil
		}
		answer.YourIPAddr = address.AsSlice()
		answer.UpdateOption(dhcpv4.OptIPAddressLeaseTime(x.Settings(x.on).Lease))
		if r, ok := x.Leases.Reserved(x.mac()); ok && r.Address != address.String() {
			x.noteReservation(r, KindConflict, "gets "+address.String()+" and not")
		}
		x.addBoot(ctx, x.on, x.own, x.request, answer)
		return answer
	}
	return nil
}

// noteReservation notes why a machine does not get the address that is reserved for it.
func (x *exchange) noteReservation(r Reservation, kind Kind, gets string) {
	if address, err := netip.ParseAddr(r.Address); err == nil && x.subnet.Network.Contains(address) {
		if what := x.subnet.Unfit(address, x.own); what != "" {
			x.note(x.on, kind, x.mac(), netip.Addr{}, "The machine %s the address %s, which is reserved for it: it is "+
				"%s. Reserve another address: landfall site dhcp reserve MAC ADDRESS.", gets, r.Address, what)
			return
		}
	}
	x.note(x.on, kind, x.mac(), netip.Addr{}, "The machine %s the address %s, which is reserved for it: either "+
		"another machine has the address now, or it is not in the network %s.", gets, r.Address, x.subnet.Network)
}

func (x *exchange) noAddress() {
	if r, ok := x.Leases.Reserved(x.mac()); ok {
		x.noteReservation(r, KindNoLease, "does not get")
		return
	}
	if x.subnet.Range.First.IsValid() {
		x.note(x.on, KindNoLease, x.mac(), netip.Addr{}, "The range of addresses is used up.")
		return
	}
	x.note(x.on, KindNoLease, x.mac(), netip.Addr{}, "The machine has no reservation, and the interface gives no "+
		"addresses to other machines: landfall site dhcp reserve MAC ADDRESS.")
}

// used reports whether another machine has an address, and then does not give it to others for some
// time.
func (x *exchange) used(ctx context.Context, address netip.Addr) bool {
	if !x.subnet.Network.Contains(x.own) {
		return false // ARP does not reach the network of a relay agent
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	holder, err := x.Probe(ctx, x.on, address)
	if err != nil || holder == "" || holder == x.mac().String() {
		return false
	}
	if !x.Leases.keep(address, holder) {
		x.Leases.block(address)
	}
	x.note(x.on, KindConflict, x.mac(), address, "Address %s is not offered, because the machine with MAC address "+
		"%s has "+
		"it.", address, holder)
	return true
}

// acknowledge gives an address. The lease is in the store before the answer.
func (x *exchange) acknowledge(ctx context.Context) *dhcpv4.DHCPv4 {
	server, named := netip.AddrFromSlice(x.request.ServerIdentifier().To4())
	if named && server != x.own {
		return nil // the client has chosen another server
	}
	address, ok := netip.AddrFromSlice(x.request.RequestedIPAddress().To4())
	if !ok {
		if address, ok = netip.AddrFromSlice(x.request.ClientIPAddr.To4()); !ok {
			return nil
		}
	}
	if !x.Leases.mayHave(x.mac(), address, x.subnet, x.own) {
		if !named && !x.Leases.knows(x.mac()) && x.subnet.Network.Contains(address) {
			return nil // the lease of a server that this one does not know (RFC 2131, 4.3.2)
		}
		return x.refuse()
	}
	// Another machine may have the address with which a client starts again. A client that renews
	// its lease uses the address, and the probe may find it by another MAC address, such as of a
	// bond.
	if !named && x.request.ClientIPAddr.IsUnspecified() && !x.Leases.holds(x.mac(), address) && x.used(ctx, address) {
		return x.refuse()
	}
	lease := Lease{Address: address.String(), MAC: x.mac().String(), Hostname: printable(x.request.HostName()),
		Interface: x.on.Name, Duration: x.Settings(x.on).Lease, Granted: x.Clock.Now().UTC()}
	if err := x.Leases.grant(ctx, lease); err != nil {
		if fault.KindOf(err) == fault.Conflict {
			return x.refuse()
		}
		x.note(x.on, KindNoLease, x.mac(), address, "The lease could not be stored, so the machine gets no "+
			"address: %s", err)
		return nil
	}
	answer, err := x.reply(dhcpv4.MessageTypeAck)
	if err != nil {
		return nil
	}
	answer.YourIPAddr, answer.ClientIPAddr = address.AsSlice(), x.request.ClientIPAddr
	answer.UpdateOption(dhcpv4.OptIPAddressLeaseTime(lease.Duration))
	x.addBoot(ctx, x.on, x.own, x.request, answer)
	return answer
}

// refuse returns a DHCPNAK. A relay agent sends it by broadcast, because the client may have an
// address of another network (RFC 2131, 4.3.2).
func (x *exchange) refuse() *dhcpv4.DHCPv4 {
	answer, err := newReply(x.request, x.own, dhcpv4.MessageTypeNak)
	if err != nil {
		return nil
	}
	answer.SetBroadcast()
	return answer
}

// printable returns a name that a client reports, if a host can have it.
func printable(name string) string {
	if len(name) > maxHostname || bytes.ContainsFunc([]byte(name), func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return name
}

// decline marks an address that a client found in use.
func (x *exchange) decline(ctx context.Context) {
	address, ok := netip.AddrFromSlice(x.request.RequestedIPAddress().To4())
	if !ok || !x.Leases.mayHave(x.mac(), address, x.subnet, x.own) {
		return
	}
	if err := x.Leases.release(ctx, x.mac()); err != nil {
		x.note(x.on, KindConflict, x.mac(), address, "The lease could not be removed: %s", err)
	}
	x.Leases.block(address)
	x.note(x.on, KindConflict, x.mac(), address, "The machine declined address %s, because another machine has it.",
		address)
}

// release ends the lease of a client that has the address.
func (x *exchange) release(ctx context.Context) {
	address, ok := netip.AddrFromSlice(x.request.ClientIPAddr.To4())
	if !ok || !x.Leases.has(x.mac(), address) {
		return
	}
	if err := x.Leases.release(ctx, x.mac()); err != nil {
		x.note(x.on, KindConflict, x.mac(), address, "The lease could not be removed: %s", err)
	}
}

// destination returns the address to which an answer is sent (RFC 2131, 4.1). A client without an
// address is answered by broadcast, because sending to its MAC address needs a raw socket.
func destination(request, answer *dhcpv4.DHCPv4, client uint16) *net.UDPAddr {
	switch {
	case !request.GatewayIPAddr.IsUnspecified() && request.GatewayIPAddr != nil:
		return &net.UDPAddr{IP: request.GatewayIPAddr, Port: ServerPort}
	case answer.MessageType() != dhcpv4.MessageTypeNak && !request.ClientIPAddr.IsUnspecified() &&
		request.ClientIPAddr != nil:
		return &net.UDPAddr{IP: request.ClientIPAddr, Port: int(client)}
	}
	return &net.UDPAddr{IP: net.IPv4bcast, Port: int(client)}
}
