package dhcpserver

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/fault"
	"landfall/appliance/siteservice/link"
)

func TestServer_leaseWithOptions(t *testing.T) {
	s := newSite(t)
	offer := s.discover(t, 1)
	require.Equal(t, dhcpv4.MessageTypeOffer, offer.MessageType())
	leases, err := s.Leases.List()
	require.NoError(t, err)
	require.Empty(t, leases, "an offer is no lease")
	ack := s.request(t, offer)
	require.Equal(t, dhcpv4.MessageTypeAck, ack.MessageType())
	require.Equal(t, your(offer), your(ack))
	require.Equal(t, "192.0.2.1", ack.ServerIdentifier().String())
	require.Equal(t, "ffffff00", ack.SubnetMask().String())
	require.Equal(t, []net.IP{net.IPv4(192, 0, 2, 254).To4()}, ack.Router())
	require.Equal(t, []net.IP{net.IPv4(192, 0, 2, 1).To4()}, ack.DNS())
	require.Equal(t, time.Hour, ack.IPAddressLeaseTime(0))
	leases, err = s.Leases.List()
	require.NoError(t, err)
	require.Len(t, leases, 1)
	require.Equal(t, your(ack).String(), leases[0].Address)
}

// Case 41: a machine without a reservation: it gets an address only if a range is switched on.
func TestFault41_unknownMAC(t *testing.T) {
	s := newSite(t)
	s.Mode, s.Range = Reservations, Range{}
	require.Nil(t, s.discover(t, 1))
	require.Equal(t, []Kind{KindNoLease}, s.kinds())
	_, err := s.Leases.Reserve(t.Context(), Reservation{MAC: "52:54:00:00:00:01", Address: "192.0.2.7",
		Hostname: "node-1"})
	require.NoError(t, err)
	require.Equal(t, "192.0.2.7", s.lease(t, 1).String())
	require.Equal(t, "node-1", s.discover(t, 1).HostName())
	require.Nil(t, s.discover(t, 2))
}

func TestReserve_refusals(t *testing.T) {
	s := newSite(t)
	_, err := s.Leases.Reserve(t.Context(), Reservation{MAC: "52-54-00-00-00-01", Address: "192.0.2.101"})
	require.NoError(t, err)
	for name, wanted := range map[string]Reservation{
		"no MAC address":   {MAC: "node-1", Address: "192.0.2.7"},
		"no IPv4 address":  {MAC: "52:54:00:00:00:02", Address: "2001:db8::1"},
		"reserved already": {MAC: "52:54:00:00:00:02", Address: "192.0.2.101"},
		"no host name":     {MAC: "52:54:00:00:00:02", Address: "192.0.2.102", Hostname: "node 2"},
	} {
		_, err := s.Leases.Reserve(t.Context(), wanted)
		require.Contains(t, []fault.Kind{fault.Invalid, fault.Conflict}, fault.KindOf(err), name)
	}
	for machine := byte(2); machine < 4; machine++ {
		require.NotEqual(t, "192.0.2.101", s.lease(t, machine).String(), "a reserved address is not given to others")
	}
	require.NoError(t, s.Leases.RemoveReservation(t.Context(), "52:54:00:00:00:01"))
	require.Equal(t, fault.NotFound, fault.KindOf(s.Leases.RemoveReservation(t.Context(), "52:54:00:00:00:01")))
	require.Equal(t, fault.NotFound, fault.KindOf(s.Leases.RemoveReservation(t.Context(), "nobody")))
}

// Case 40: an address that another machine answers for, and of one that the client declines: the
// next one is given, and the first is marked.
func TestFault40_addressInUse(t *testing.T) {
	s := newSite(t)
	first := your(s.discover(t, 1))
	s = newSite(t)
	s.neighbours[first] = "52:54:00:00:00:99"
	second := s.lease(t, 1)
	require.NotEqual(t, first, second)
	require.Equal(t, []Kind{KindConflict}, s.kinds())
	require.Contains(t, s.events[0].Message, "52:54:00:00:00:99")
	require.Equal(t, first.String(), s.events[0].Address)

	decline, err := dhcpv4.New(dhcpv4.WithHwAddr(mac(1)), dhcpv4.WithMessageType(dhcpv4.MessageTypeDecline),
		dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(second.AsSlice())))
	require.NoError(t, err)
	require.Nil(t, s.Answer(t.Context(), eth1(), decline))
	third := s.lease(t, 1)
	require.NotContains(t, []netip.Addr{first, second}, third)
	require.Nil(t, s.discover(t, 2), "the range is used up")
	s.clock.Advance(conflictLifetime)
	s.neighbours = map[netip.Addr]string{}
	require.NotNil(t, s.discover(t, 2))
}

// TestRequest_addressInUse holds that a client without a lease, which starts again with an address
// of its choice, does not get the address of another machine (RFC 2131, 4.3.2).
func TestRequest_addressInUse(t *testing.T) {
	s := newSite(t)
	again := func(machine byte, wanted netip.Addr) dhcpv4.MessageType {
		request, err := dhcpv4.New(dhcpv4.WithHwAddr(mac(machine)), dhcpv4.WithMessageType(dhcpv4.MessageTypeRequest),
			dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(wanted.AsSlice())))
		require.NoError(t, err)
		return s.Answer(t.Context(), eth1(), request).MessageType()
	}
	wanted := s.Range.First
	s.neighbours[wanted] = "52:54:00:00:00:99"
	require.Equal(t, dhcpv4.MessageTypeNak, again(1, wanted))
	require.Equal(t, []Kind{KindConflict}, s.kinds())
	leases, err := s.Leases.List()
	require.NoError(t, err)
	require.Empty(t, leases)

	delete(s.neighbours, wanted)
	s.clock.Advance(conflictLifetime)
	require.Equal(t, dhcpv4.MessageTypeAck, again(1, wanted))
	s.neighbours[wanted] = "52:54:00:00:00:99"
	require.Equal(t, dhcpv4.MessageTypeAck, again(1, wanted), "a machine keeps its lease")
}

// TestRequest_renewalIsNotProbed holds that a client that renews a lease which this server does not
// know any more, and so uses the address, keeps it.
func TestRequest_renewalIsNotProbed(t *testing.T) {
	s := newSite(t)
	used := s.Range.First
	s.neighbours[used] = "52:54:00:00:00:99"
	request, err := dhcpv4.New(dhcpv4.WithHwAddr(mac(1)), dhcpv4.WithMessageType(dhcpv4.MessageTypeRequest),
		dhcpv4.WithClientIP(used.AsSlice()))
	require.NoError(t, err)
	require.Equal(t, dhcpv4.MessageTypeAck, s.Answer(t.Context(), eth1(), request).MessageType())
	require.Empty(t, s.kinds())
}

// A machine that gets an address of the range in place of the reserved one is noted.
func TestOffer_notTheReservedAddress(t *testing.T) {
	s := newSite(t)
	_, err := s.Leases.Reserve(t.Context(), Reservation{MAC: mac(1).String(), Address: "198.51.100.7"})
	require.NoError(t, err)
	offer := s.discover(t, 1)
	require.NotNil(t, offer)
	require.Equal(t, []Kind{KindConflict}, s.kinds())
	require.Contains(t, s.events[0].Message, "gets "+offer.YourIPAddr.String()+" and not the address 198.51.100.7")
	_, err = s.Leases.Reserve(t.Context(), Reservation{MAC: mac(1).String(), Address: "192.0.2.7"})
	require.NoError(t, err)
	require.Equal(t, "192.0.2.7", s.discover(t, 1).YourIPAddr.String())
	require.Len(t, s.events, 1)
}

// TestOffer_reservedAddressInUse holds that the event of a machine whose reserved address another
// machine has names the address.
func TestOffer_reservedAddressInUse(t *testing.T) {
	s := newSite(t)
	s.Mode, s.Range = Reservations, Range{}
	_, err := s.Leases.Reserve(t.Context(), Reservation{MAC: mac(1).String(), Address: "192.0.2.7"})
	require.NoError(t, err)
	s.neighbours[address("192.0.2.7")] = "52:54:00:00:00:99"
	require.Nil(t, s.discover(t, 1))
	require.Equal(t, []Kind{KindConflict, KindNoLease}, s.kinds())
	require.Contains(t, s.events[0].Message, "52:54:00:00:00:99")
	require.Contains(t, s.events[1].Message, "192.0.2.7, which is reserved for it")
}

// A reservation may be older than the network of the interface.
func TestOffer_reservedAddressThatNoMachineCanGet(t *testing.T) {
	for reserved, what := range map[string]string{
		"192.0.2.1":   "it is the address of the appliance",
		"192.0.2.0":   "it is the address of the network 192.0.2.0/24 itself",
		"192.0.2.255": "it is the broadcast address of the network 192.0.2.0/24",
	} {
		t.Run(reserved, func(t *testing.T) {
			s := newSite(t)
			s.Mode, s.Range = Reservations, Range{}
			_, err := s.Leases.Reserve(t.Context(), Reservation{MAC: mac(1).String(), Address: reserved})
			require.NoError(t, err)
			require.Nil(t, s.discover(t, 1))
			require.Len(t, s.events, 1)
			require.Contains(t, s.events[0].Message, what)
			request, err := dhcpv4.New(dhcpv4.WithHwAddr(mac(1)), dhcpv4.WithMessageType(dhcpv4.MessageTypeRequest),
				dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(net.ParseIP(reserved))))
			require.NoError(t, err)
			require.Equal(t, dhcpv4.MessageTypeNak, s.Answer(t.Context(), eth1(), request).MessageType())
		})
	}
}

func TestSubnet_unfit(t *testing.T) {
	pair := Subnet{Network: prefix("192.0.2.0/31")}
	require.Empty(t, pair.Unfit(address("192.0.2.1"), address("192.0.2.0")), "a network of two addresses has no others")
	require.NotEmpty(t, pair.Unfit(address("192.0.2.0"), address("192.0.2.0")))
}

// Case 42: an appliance that restarts: leases are as before, and no address is given twice.
func TestFault42_restart(t *testing.T) {
	s := newSite(t)
	given := map[netip.Addr]byte{}
	for machine := byte(1); machine <= 3; machine++ {
		given[s.lease(t, machine)] = machine
	}
	require.Len(t, given, 3)
	s.restart(t)
	require.Nil(t, s.discover(t, 4))
	for address, machine := range given {
		require.Equal(t, address, s.lease(t, machine))
	}
}

// A restart gives each lease its whole time again.
func TestLeases_until(t *testing.T) {
	s := newSite(t)
	s.lease(t, 1)
	until := func() time.Time {
		leases, err := s.Leases.List()
		require.NoError(t, err)
		return leases[0].Until
	}
	granted := s.clock.Now()
	require.WithinDuration(t, granted.Add(time.Hour), until(), 0)
	s.clock.Advance(time.Minute)
	require.WithinDuration(t, granted.Add(time.Hour), until(), 0)
	s.restart(t)
	require.WithinDuration(t, granted.Add(time.Hour+time.Minute), until(), 0)
}

// TestLeases_endedLease holds that an address which another machine got after the end of a lease is
// the other machine's: whatever the first machine does, and after a restart.
func TestLeases_endedLease(t *testing.T) {
	s := newSite(t)
	s.Range.Last = s.Range.First
	only := s.lease(t, 9)
	s.clock.Advance(time.Hour)
	require.Equal(t, only, s.lease(t, 1))
	leases, err := s.Leases.List()
	require.NoError(t, err)
	require.Len(t, leases, 1)
	require.Equal(t, mac(1).String(), leases[0].MAC)

	release, err := dhcpv4.New(dhcpv4.WithHwAddr(mac(9)), dhcpv4.WithMessageType(dhcpv4.MessageTypeRelease),
		dhcpv4.WithClientIP(only.AsSlice()))
	require.NoError(t, err)
	require.Nil(t, s.Answer(t.Context(), eth1(), release))
	require.Nil(t, s.discover(t, 2), "a release by the first machine")
	_, err = s.Leases.Reserve(t.Context(), Reservation{MAC: mac(9).String(), Address: "192.0.2.7"})
	require.NoError(t, err)
	require.Equal(t, "192.0.2.7", s.lease(t, 9).String())
	require.Nil(t, s.discover(t, 2), "another lease of the first machine")
	s.restart(t)
	s.Range.Last = s.Range.First
	require.Equal(t, only, s.lease(t, 1))
}

func TestLeases_storeFails(t *testing.T) {
	s := newSite(t)
	s.Range.Last = s.Range.First
	offer := s.discover(t, 1)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	request, err := dhcpv4.NewRequestFromOffer(offer)
	require.NoError(t, err)
	require.Nil(t, s.Answer(stopped, eth1(), request))
	require.Equal(t, []Kind{KindNoLease}, s.kinds())
	s.clock.Advance(offerLifetime)
	require.NotNil(t, s.discover(t, 2), "the address is kept no longer than the offer")
}

// TestLeases_endedBeforeRestart holds that a restart does not use up the range: when no other
// address is free, a machine gets that of the lease that ended first, unless a machine has it.
func TestLeases_endedBeforeRestart(t *testing.T) {
	s := newSite(t)
	var given []netip.Addr
	for machine := byte(1); machine <= 3; machine++ {
		given = append(given, s.lease(t, machine))
		s.clock.Advance(time.Minute)
	}
	s.clock.Advance(58 * time.Minute)
	s.restart(t)
	s.neighbours[given[0]] = mac(1).String()
	require.Equal(t, given[1], s.lease(t, 4), "the first machine still has its address")
	require.Equal(t, []Kind{KindConflict}, s.kinds())
	require.Nil(t, s.discover(t, 5), "the lease of the third machine lasts by the clock")
	require.Equal(t, given[0], s.lease(t, 1))
	require.Equal(t, given[2], s.lease(t, 3))
	require.Nil(t, s.discover(t, 2))
	s.clock.Advance(time.Hour)
	require.NotNil(t, s.discover(t, 2), "all leases have ended")
}

func TestLeases_reservedAfterEndedLease(t *testing.T) {
	s := newSite(t)
	ended := s.lease(t, 1)
	s.clock.Advance(time.Hour)
	s.restart(t)
	_, err := s.Leases.Reserve(t.Context(), Reservation{MAC: mac(2).String(), Address: ended.String()})
	require.NoError(t, err)
	require.Equal(t, ended, s.lease(t, 2))
}

// ARP does not reach the machines behind a relay agent.
func TestLeases_endedBehindRelayAgent(t *testing.T) {
	s := newSite(t)
	subnet := relayed()
	subnet.Range.Last = subnet.Range.First
	s.settings.Relayed = []Subnet{subnet}
	agent := dhcpv4.WithRelay(net.IPv4(198, 51, 100, 1))
	offer := s.discover(t, 1, agent)
	require.NotNil(t, s.request(t, offer, agent))
	s.clock.Advance(2 * time.Hour)
	s.restart(t)
	require.Nil(t, s.discover(t, 2, agent))
}

// Case 36: a clock that jumps while the appliance is off: a lease lasts its whole time from the
// restart, if its machine still has the address.
func TestFault36_clockJumps(t *testing.T) {
	for _, jump := range []time.Duration{-1000 * time.Hour, 1000 * time.Hour} {
		t.Run(jump.String(), func(t *testing.T) {
			s := newSite(t)
			s.Range.Last = s.Range.First
			leased := s.lease(t, 1)
			s.clock = clockwork.NewFakeClockAt(s.clock.Now().Add(jump))
			s.restart(t)
			s.Range.Last = s.Range.First
			s.neighbours[leased] = mac(1).String()
			require.Nil(t, s.discover(t, 2))
			s.clock.Advance(59 * time.Minute)
			require.Nil(t, s.discover(t, 2))
			s.clock.Advance(conflictLifetime)
			delete(s.neighbours, leased)
			require.NotNil(t, s.discover(t, 2), "the lease has ended")
		})
	}
}

// Case 43: a request through a relay agent: machines of a configured network get its addresses by
// way of the agent, those of another network get none.
func TestFault43_relayAgent(t *testing.T) {
	s := newSite(t)
	s.settings.Relayed = []Subnet{relayed()}
	request, err := dhcpv4.NewDiscovery(mac(1), dhcpv4.WithRelay(net.IPv4(198, 51, 100, 1)),
		dhcpv4.WithOption(dhcpv4.OptRelayAgentInfo(dhcpv4.OptGeneric(dhcpv4.AgentCircuitIDSubOption, []byte("port 7")))))
	require.NoError(t, err)
	offer := s.Answer(t.Context(), eth1(), request)
	require.NotNil(t, offer)
	require.True(t, s.settings.Relayed[0].Range.Contains(your(offer)))
	require.Equal(t, []net.IP{net.IPv4(198, 51, 100, 1).To4()}, offer.Router())
	require.Equal(t, request.RelayAgentInfo().ToBytes(), offer.RelayAgentInfo().ToBytes())
	require.Equal(t, "198.51.100.1:67", destination(request, offer, ClientPort).String())

	foreign, err := dhcpv4.NewDiscovery(mac(2), dhcpv4.WithRelay(net.IPv4(203, 0, 113, 1)))
	require.NoError(t, err)
	require.Nil(t, s.Answer(t.Context(), eth1(), foreign))
	require.Equal(t, []Kind{KindRelay}, s.kinds())
}

// TestServer_renewalBehindRelayAgent holds that a machine behind a relay agent can renew its lease,
// which it does without the agent.
func TestServer_renewalBehindRelayAgent(t *testing.T) {
	s := newSite(t)
	s.settings.Relayed = []Subnet{relayed()}
	_, err := s.Leases.Reserve(t.Context(), Reservation{MAC: mac(2).String(), Address: "198.51.100.9"})
	require.NoError(t, err)
	for machine := byte(1); machine <= 2; machine++ {
		byRelay := dhcpv4.WithRelay(net.IPv4(198, 51, 100, 1))
		offer := s.discover(t, machine, byRelay)
		require.NotNil(t, offer)
		ack := s.request(t, offer, byRelay)
		require.Equal(t, dhcpv4.MessageTypeAck, ack.MessageType())
		renewal, err := dhcpv4.New(dhcpv4.WithHwAddr(mac(machine)), dhcpv4.WithClientIP(ack.YourIPAddr),
			dhcpv4.WithMessageType(dhcpv4.MessageTypeRequest))
		require.NoError(t, err)
		renewed := s.Answer(t.Context(), eth1(), renewal)
		require.Equal(t, dhcpv4.MessageTypeAck, renewed.MessageType())
		require.Equal(t, []net.IP{net.IPv4(198, 51, 100, 1).To4()}, renewed.Router())
		require.Equal(t, your(ack).String(), destination(renewal, renewed, ClientPort).IP.String())
	}
}

// TestServer_movedMachine holds that a machine which has moved to another network is refused the
// address of its reservation there, so that it asks for a new one.
func TestServer_movedMachine(t *testing.T) {
	s := newSite(t)
	s.settings.Relayed = []Subnet{relayed()}
	_, err := s.Leases.Reserve(t.Context(), Reservation{MAC: mac(1).String(), Address: "192.0.2.7"})
	require.NoError(t, err)
	wanted := s.lease(t, 1)
	require.Equal(t, "192.0.2.7", wanted.String())
	byRelay := dhcpv4.WithRelay(net.IPv4(198, 51, 100, 1))
	request, err := dhcpv4.New(dhcpv4.WithHwAddr(mac(1)), dhcpv4.WithMessageType(dhcpv4.MessageTypeRequest),
		dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(wanted.AsSlice())), byRelay)
	require.NoError(t, err)
	nak := s.Answer(t.Context(), eth1(), request)
	require.Equal(t, dhcpv4.MessageTypeNak, nak.MessageType())
	require.True(t, nak.IsBroadcast(), "the relay agent must not send it to the former address")
	offer := s.discover(t, 1, byRelay)
	require.True(t, relayed().Range.Contains(your(offer)))
}

// relayed is a network behind the relay agent 198.51.100.1.
func relayed() Subnet {
	return Subnet{Network: netip.MustParsePrefix("198.51.100.0/24"), Router: address("198.51.100.1"),
		Range: Range{address("198.51.100.50"), address("198.51.100.60")}}
}

func TestServer_requests(t *testing.T) {
	s := newSite(t)
	leased := s.lease(t, 1)
	request := func(machine byte, modifiers ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
		packet, err := dhcpv4.New(append([]dhcpv4.Modifier{dhcpv4.WithHwAddr(mac(machine)),
			dhcpv4.WithMessageType(dhcpv4.MessageTypeRequest)}, modifiers...)...)
		require.NoError(t, err)
		return s.Answer(t.Context(), eth1(), packet)
	}
	wants := func(address string) dhcpv4.Modifier {
		return dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(net.ParseIP(address)))
	}
	ack := request(1, dhcpv4.WithClientIP(leased.AsSlice()))
	require.Equal(t, dhcpv4.MessageTypeAck, ack.MessageType(), "a client renews its lease")
	ack = request(1, wants(leased.String()))
	require.Equal(t, dhcpv4.MessageTypeAck, ack.MessageType(), "a client that has restarted asks for its address")
	nak := request(1, wants("198.51.100.9"))
	require.Equal(t, dhcpv4.MessageTypeNak, nak.MessageType(), "an address of another network")
	require.Nil(t, request(9, wants("192.0.2.200")), "a lease that this server did not give")
	require.Nil(t, request(1, wants(leased.String()),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.IPv4(192, 0, 2, 77)))), "the client has chosen another server")
	nak = request(2, wants(leased.String()), dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.IPv4(192, 0, 2, 1))))
	require.Equal(t, dhcpv4.MessageTypeNak, nak.MessageType(), "the address of another machine")

	release, err := dhcpv4.New(dhcpv4.WithHwAddr(mac(1)), dhcpv4.WithMessageType(dhcpv4.MessageTypeRelease),
		dhcpv4.WithClientIP(leased.AsSlice()))
	require.NoError(t, err)
	require.Nil(t, s.Answer(t.Context(), eth1(), release))
	leases, err := s.Leases.List()
	require.NoError(t, err)
	require.Empty(t, leases)
}

// Case 38: another DHCP server on the interface: it is named with its address and MAC address.
func TestFault38_foreignServer(t *testing.T) {
	s := newSite(t)
	s.offers = []Offer{{Server: address("192.0.2.77"), Address: address("192.0.2.50")}}
	s.neighbours[address("192.0.2.77")] = "52:54:00:00:00:77"
	others, err := s.Look(t.Context(), eth1())
	require.NoError(t, err)
	require.Equal(t, []link.Other{{Address: "192.0.2.77", MAC: "52:54:00:00:00:77", Details: "offers 192.0.2.50"}},
		others)
	s.Mode = Proxy
	others, err = s.Look(t.Context(), eth1())
	require.NoError(t, err)
	require.Empty(t, others, "a server of addresses is what proxyDHCP needs")
}

// Case 39: another server of boot files: it is named, and the service can be limited to known
// machines.
func TestFault39_foreignProxy(t *testing.T) {
	s := newSite(t)
	s.Mode = Proxy
	s.offers = []Offer{{Server: address("192.0.2.77"), Boot: "snponly.efi"}}
	others, err := s.Look(t.Context(), eth1())
	require.NoError(t, err)
	require.Len(t, others, 1)
	require.Contains(t, others[0].Details, "offers the boot file snponly.efi")
	s.settings.KnownOnly = true
	others, err = s.Look(t.Context(), eth1())
	require.NoError(t, err)
	require.Empty(t, others)
	s.known = false
	require.Nil(t, s.discover(t, 1, firmware("PXEClient", iana.EFI_X86_64)), "an unknown machine")
	require.Equal(t, []Kind{KindNoBoot}, s.kinds())
}

func TestProxy_answersFirmwareOnly(t *testing.T) {
	s := newSite(t)
	s.Mode = Proxy
	require.Nil(t, s.discover(t, 1), "a client that wants an address")
	offer := s.discover(t, 1, firmware("PXEClient:Arch:00007:UNDI:003016", iana.EFI_X86_64))
	require.NotNil(t, offer)
	require.True(t, your(offer).IsUnspecified())
	require.Equal(t, "PXEClient", offer.ClassIdentifier())
	require.Equal(t, "env/mac/shimx64.efi", offer.BootFileNameOption())
	require.Equal(t, "env/mac/shimx64.efi", offer.BootFileName)
	require.Equal(t, "192.0.2.1", offer.ServerIPAddr.String())
	require.Equal(t, []byte{6, 1, 8, 255}, offer.Options.Get(dhcpv4.OptionVendorSpecificInformation))
	require.Len(t, offer.Options.Get(dhcpv4.GenericOptionCode(optionClientGUID)), 17)
	request, err := dhcpv4.NewRequestFromOffer(offer, firmware("PXEClient", iana.EFI_X86_64))
	require.NoError(t, err)
	require.Nil(t, s.Answer(t.Context(), eth1(), request), "the request is for the server of addresses")
	ack := s.AnswerProxy(t.Context(), eth1(), request)
	require.Equal(t, dhcpv4.MessageTypeAck, ack.MessageType())
	require.Equal(t, "env/mac/shimx64.efi", ack.BootFileNameOption())
}

func TestBoot_filesByFirmware(t *testing.T) {
	ipxe := func(d *dhcpv4.DHCPv4) {
		d.UpdateOption(dhcpv4.OptGeneric(dhcpv4.GenericOptionCode(optionIPXE), []byte{1}))
	}
	for name, c := range map[string]struct {
		request []dhcpv4.Modifier
		class   string
		file    string
	}{
		"UEFI": {[]dhcpv4.Modifier{firmware(classPXE, iana.EFI_X86_64)}, classPXE, "env/mac/shimx64.efi"},
		// Some firmware uses the number of EFI byte code for x86-64 (RFC 4578, errata).
		"UEFI of old": {[]dhcpv4.Modifier{firmware(classPXE, iana.EFI_BC)}, classPXE, "env/mac/shimx64.efi"},
		"UEFI by HTTP": {[]dhcpv4.Modifier{firmware("HTTPClient:Arch:00016", iana.EFI_X86_64_HTTP)}, classHTTP,
			"http://192.0.2.1:8091/i/abc.iso"},
		"iPXE": {[]dhcpv4.Modifier{firmware(classPXE, iana.INTEL_X86PC), ipxe}, classPXE,
			"http://192.0.2.1:8091/i/abc.ipxe"},
		"iPXE by its class": {[]dhcpv4.Modifier{firmware(classPXE, iana.EFI_X86_64),
			dhcpv4.WithUserClass(userClassIPXE, false)}, classPXE, "http://192.0.2.1:8091/i/abc.ipxe"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			offer := s.discover(t, 1, c.request...)
			require.NotNil(t, offer)
			require.False(t, your(offer).IsUnspecified())
			require.Equal(t, c.class, offer.ClassIdentifier())
			require.Equal(t, c.file, offer.BootFileNameOption())
			require.Equal(t, []Kind{KindBoot}, s.kinds())
		})
	}
}

// Case 45: a machine with Secure Boot: UEFI always gets the signed boot loader of the live ISO,
// even if there is an unsigned iPXE.
func TestFault45_secureBoot(t *testing.T) {
	s := newSite(t)
	s.loader = true
	require.Equal(t, "env/mac/shimx64.efi",
		s.discover(t, 1, firmware("PXEClient", iana.EFI_X86_64)).BootFileNameOption())
}

// Case 44: a machine with BIOS and no boot loader for it: an event names the machine, and it gets
// no boot file.
func TestFault44_biosWithoutLoader(t *testing.T) {
	s := newSite(t)
	s.Mode = Proxy
	require.Nil(t, s.discover(t, 1, firmware("PXEClient", iana.INTEL_X86PC)))
	require.Equal(t, []Kind{KindNoBoot}, s.kinds())
	require.Equal(t, "52:54:00:00:00:01", s.events[0].MAC)
	require.Contains(t, s.events[0].Message, "undionly.kpxe")
	s.loader = true
	require.Equal(t, "undionly.kpxe", s.discover(t, 1, firmware("PXEClient", iana.INTEL_X86PC)).BootFileNameOption())
}

// Case 46: an installed host that boots from the network again: it gets an address and no boot
// file, so that its firmware goes on to the disk.
func TestFault46_installedHost(t *testing.T) {
	s := newSite(t)
	s.Boot = func(context.Context, Machine) (Boot, error) {
		return Boot{}, fmt.Errorf("%w: host 7 is installed", ErrFromDisk)
	}
	offer := s.discover(t, 1, firmware("PXEClient", iana.EFI_X86_64))
	require.NotNil(t, offer)
	require.Empty(t, offer.BootFileNameOption())
	require.Contains(t, s.events[0].Message, "host 7 is installed")
	s.Mode = Proxy
	require.Nil(t, s.discover(t, 1, firmware("PXEClient", iana.EFI_X86_64)))
}

func TestLeases_rangeOfAllAddresses(t *testing.T) {
	s := newSite(t)
	s.settings.Relayed = []Subnet{{Network: prefix("0.0.0.0/0"),
		Range: Range{address("0.0.0.0"), address("255.255.255.255")}}}
	require.NotNil(t, s.discover(t, 1, dhcpv4.WithRelay(net.IPv4(198, 51, 100, 1))))
}

func TestServe_rangeOfAnotherNetwork(t *testing.T) {
	s := newSite(t)
	s.Range = Range{address("198.51.100.1"), address("198.51.100.9")}
	require.ErrorContains(t, s.Serve(t.Context(), eth1(), func() {}), "is not in the network 192.0.2.0/24 of eth1")
}

func TestParseRange_values(t *testing.T) {
	r, err := ParseRange("192.0.2.100 - 192.0.2.199")
	require.NoError(t, err)
	require.True(t, r.Contains(address("192.0.2.150")))
	require.False(t, r.Contains(address("192.0.2.200")))
	for _, wrong := range []string{"", "192.0.2.1", "192.0.2.9-192.0.2.1", "2001:db8::1-2001:db8::9", "a-b"} {
		_, err := ParseRange(wrong)
		require.Error(t, err, wrong)
	}
}

func FuzzAnswer(f *testing.F) {
	for _, modifiers := range [][]dhcpv4.Modifier{{}, {firmware("PXEClient", iana.EFI_X86_64)},
		{dhcpv4.WithRelay(net.IPv4(192, 0, 2, 7))}, {dhcpv4.WithMessageType(dhcpv4.MessageTypeRequest)}} {
		packet, err := dhcpv4.NewDiscovery(mac(1), modifiers...)
		require.NoError(f, err)
		f.Add(packet.ToBytes())
	}
	s := newSite(f)
	f.Fuzz(func(t *testing.T, packet []byte) {
		request, err := dhcpv4.FromBytes(packet)
		if err != nil {
			return
		}
		for _, answer := range []*dhcpv4.DHCPv4{s.Answer(t.Context(), eth1(), request),
			s.AnswerProxy(t.Context(), eth1(), request)} {
			if answer == nil {
				continue
			}
			require.Equal(t, request.TransactionID, answer.TransactionID)
			require.NotNil(t, destination(request, answer, ClientPort))
			again, err := dhcpv4.FromBytes(answer.ToBytes())
			require.NoError(t, err)
			require.Equal(t, dhcpv4.OpcodeBootReply, again.OpCode)
			if address := your(again); address.IsValid() && !address.IsUnspecified() {
				require.True(t, s.Range.Contains(address))
			}
		}
	})
}
