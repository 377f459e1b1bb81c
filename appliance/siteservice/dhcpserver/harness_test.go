package dhcpserver

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/siteservice/link"
	"landfall/store"
)

func address(text string) netip.Addr { return netip.MustParseAddr(text) }

func prefix(text string) netip.Prefix { return netip.MustParsePrefix(text) }

// eth1 is the interface of the tests.
func eth1() link.Link {
	return link.Link{Name: "eth1", Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")}}
}

// site is a server with a store, and what happens around it.
type site struct {
	*Server
	db    *store.DB
	clock *clockwork.FakeClock

	mu         sync.Mutex
	events     []Event
	neighbours map[netip.Addr]string // machines that answer ARP requests
	offers     []Offer               // of other servers
	settings   Settings
	known      bool
	loader     bool
}

// newSite returns a server that gives addresses from 192.0.2.100 to 192.0.2.102.
func newSite(t testing.TB) *site {
	t.Helper()
	db, err := store.Open(context.Background(), t.TempDir(), store.Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	s := &site{db: db, clock: clockwork.NewFakeClock(), neighbours: map[netip.Addr]string{}, known: true,
		settings: Settings{Lease: time.Hour, Router: address("192.0.2.254"), DNS: []netip.Addr{address("192.0.2.1")}}}
	s.restart(t)
	return s
}

// restart replaces the server by a new one with the same store.
func (s *site) restart(t testing.TB) {
	t.Helper()
	leases, err := OpenLeases(s.db, s.clock)
	require.NoError(t, err)
	s.Server = &Server{Mode: Dynamic, Range: Range{address("192.0.2.100"), address("192.0.2.102")}, Leases: leases,
		Clock: s.clock, Settings: func(link.Link) Settings { return s.settings },
		Known:     func(net.HardwareAddr) bool { return s.known },
		HasLoader: func(string) bool { return s.loader },
		Probe: func(_ context.Context, _ link.Link, address netip.Addr) (string, error) {
			return s.holder(address), nil
		},
		Neighbour: func(_ context.Context, address netip.Addr) (string, error) { return s.holder(address), nil },
		Discover:  func(context.Context, link.Link) ([]Offer, error) { return s.offers, nil },
		Note: func(event Event) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.events = append(s.events, event)
		},
		Boot: func(context.Context, Machine) (Boot, error) {
			return Boot{TFTPFile: "env/mac/shimx64.efi", HTTPURL: "http://192.0.2.1:8091/i/abc.iso",
				ScriptURL: "http://192.0.2.1:8091/i/abc.ipxe"}, nil
		},
		Port: ServerPort, ProxyPort: ProxyPort, ClientPort: ClientPort}
}

// holder returns the MAC address of the machine with an address.
func (s *site) holder(address netip.Addr) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.neighbours[address]
}

// kinds returns the kinds of the events so far.
func (s *site) kinds() []Kind {
	s.mu.Lock()
	defer s.mu.Unlock()
	var kinds []Kind
	for _, event := range s.events {
		kinds = append(kinds, event.Kind)
	}
	return kinds
}

// mac returns the MAC address of a machine by its number.
func mac(number byte) net.HardwareAddr { return net.HardwareAddr{0x52, 0x54, 0, 0, 0, number} }

// discover sends a DHCPDISCOVER of a machine.
func (s *site) discover(t testing.TB, machine byte, modifiers ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	t.Helper()
	request, err := dhcpv4.NewDiscovery(mac(machine), modifiers...)
	require.NoError(t, err)
	return s.Answer(t.Context(), eth1(), request)
}

// request sends the DHCPREQUEST that follows an offer.
func (s *site) request(t testing.TB, offer *dhcpv4.DHCPv4, modifiers ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	t.Helper()
	request, err := dhcpv4.NewRequestFromOffer(offer, modifiers...)
	require.NoError(t, err)
	return s.Answer(t.Context(), eth1(), request)
}

// lease gives a machine an address and returns it.
func (s *site) lease(t testing.TB, machine byte) netip.Addr {
	t.Helper()
	offer := s.discover(t, machine)
	require.NotNil(t, offer)
	ack := s.request(t, offer)
	require.NotNil(t, ack)
	require.Equal(t, dhcpv4.MessageTypeAck, ack.MessageType())
	return your(ack)
}

func your(answer *dhcpv4.DHCPv4) netip.Addr {
	address, _ := netip.AddrFromSlice(answer.YourIPAddr.To4())
	return address
}

// firmware makes a request one of the firmware of a machine.
func firmware(class string, arch iana.Arch) dhcpv4.Modifier {
	return func(d *dhcpv4.DHCPv4) {
		d.UpdateOption(dhcpv4.OptClassIdentifier(class))
		d.UpdateOption(dhcpv4.OptClientArch(arch))
		d.UpdateOption(dhcpv4.OptGeneric(dhcpv4.GenericOptionCode(optionClientGUID), make([]byte, 17)))
	}
}
