package siteservice

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"landfall/appliance/doctor"
	"landfall/appliance/fault"
	"landfall/appliance/siteservice/dhcpserver"
	"landfall/appliance/siteservice/link"
	"landfall/appliance/siteservice/tftpserver"
)

// DHCPSettings are the settings of DHCP in the configuration.
type DHCPSettings struct {
	Lease     time.Duration
	Router    netip.Addr // invalid for the default
	Loaders   string     // directory with boot loaders of the operator, or ""
	InfraEnv  string     // name or ID of the infra-env that unknown machines boot, or ""
	KnownOnly bool
	Relayed   []dhcpserver.Subnet
}

// Addresses describes the DHCP service.
type Addresses struct {
	Leases       []dhcpserver.Lease       `json:"leases"`
	Reservations []dhcpserver.Reservation `json:"reservations"`
	Events       []dhcpserver.Event       `json:"events"` // the newest first
}

// Addresses returns the leases, reservations and events of DHCP.
func (m *Manager) Addresses() (*Addresses, error) {
	leases, err := m.leases.List()
	if err != nil {
		return nil, fmt.Errorf("read the DHCP leases: %w", err)
	}
	return &Addresses{Leases: leases, Reservations: m.leases.ListReservations(), Events: m.events.newest()}, nil
}

// Reserve stores the address that a machine gets. It refuses addresses that no machine of the known
// networks can get.
func (m *Manager) Reserve(ctx context.Context, wanted dhcpserver.Reservation) (*dhcpserver.Reservation, error) {
	address, err := netip.ParseAddr(wanted.Address)
	for network, own := range m.dhcpNetworks() {
		if err != nil || !network.Contains(address) {
			continue
		}
		if what := (dhcpserver.Subnet{Network: network}).Unfit(address, own); what != "" {
			return nil, fault.New(fault.Invalid, "The address %s can't be reserved, because it is %s. Reserve another "+
				"address.", address, what)
		}
	}
	return m.leases.Reserve(ctx, wanted)
}

// RemoveReservation removes the reservation of a machine.
func (m *Manager) RemoveReservation(ctx context.Context, mac string) error {
	return m.leases.RemoveReservation(ctx, mac)
}

// dhcpNetworks returns the networks whose machines get addresses, with the appliance's address in
// each. It is invalid for a network behind a relay agent.
func (m *Manager) dhcpNetworks() map[netip.Prefix]netip.Addr {
	networks := map[netip.Prefix]netip.Addr{}
	for _, relayed := range m.Configured.DHCP.Relayed {
		networks[relayed.Network.Masked()] = netip.Addr{}
	}
	for _, s := range m.switches.list() {
		if s.Service != DHCP || s.Mode == dhcpserver.Proxy {
			continue
		}
		if on, err := m.Links(s.Interface); err == nil {
			if prefix, ok := on.IPv4(); ok {
				networks[prefix.Masked()] = prefix.Addr()
			}
		}
	}
	return networks
}

// newDHCPServer returns the DHCP server of a switch.
func (m *Manager) newDHCPServer(s Switch) *dhcpserver.Server {
	boots := &boots{m: m}
	server := &dhcpserver.Server{
		Mode: s.Mode, Leases: m.leases, Settings: m.dhcpSettings, Boot: boots.boot, HasLoader: boots.hasLoader,
		Known: boots.knows, Probe: link.Probe, Neighbour: m.Neighbour, Discover: m.Discover, Note: m.noteEvent,
		Clock: m.Clock, Port: dhcpserver.ServerPort, ProxyPort: dhcpserver.ProxyPort, ClientPort: dhcpserver.ClientPort,
	}
	if r, err := dhcpserver.ParseRange(s.Range); err == nil {
		server.Range = r
	}
	return server
}

// newTFTPServer returns the TFTP server of an interface.
func (m *Manager) newTFTPServer() *fileServer {
	boots := &boots{m: m}
	return &fileServer{tftpserver.Server{
		Open: boots.open,
		Permits: func(client netip.Addr) bool {
			return slices.ContainsFunc(m.Configured.DHCP.Relayed, func(s dhcpserver.Subnet) bool {
				return s.Network.Contains(client)
			})
		},
		Note: func(on link.Link, transfer tftpserver.Transfer) {
			m.noteTransfer(context.Background(), on, transfer)
		},
		Port: tftpserver.Port,
	}}
}

// fileServer implements server. Other TFTP servers do not disturb this one.
type fileServer struct{ tftpserver.Server }

// Look implements server.
func (*fileServer) Look(context.Context, link.Link) ([]link.Other, error) { return nil, nil }

// dhcpSettings returns the options for the machines of an interface.
func (m *Manager) dhcpSettings(on link.Link) dhcpserver.Settings {
	configured := m.Configured.DHCP
	settings := dhcpserver.Settings{Router: configured.Router, Lease: configured.Lease, Relayed: configured.Relayed,
		KnownOnly: configured.KnownOnly}
	if !settings.Router.IsValid() {
		if prefix, ok := on.IPv4(); ok {
			settings.Router = prefix.Addr()
		}
		if gateway, ok := link.Gateway(); ok && on.Contains(gateway) {
			settings.Router = gateway
		}
	}
	own := on.Addresses()
	for _, address := range m.serving(DNS) {
		if slices.Contains(own, address) {
			settings.DNS = append(settings.DNS, address)
		}
	}
	for _, server := range slices.Concat(m.Configured.Forward, m.Resolvers()) {
		if len(settings.DNS) == 0 && !server.Addr().IsLoopback() && server.Port() == 53 {
			settings.DNS = append(settings.DNS, server.Addr())
		}
	}
	for _, address := range m.serving(NTP) {
		if slices.Contains(own, address) {
			settings.NTP = append(settings.NTP, address)
		}
	}
	for _, source := range m.TimeServers() {
		if address, err := netip.ParseAddr(source); err == nil {
			settings.NTP = append(settings.NTP, address)
		}
	}
	return settings
}

// discoverServers returns the offers of other DHCP servers on an interface. It asks as a client
// without special wishes, and as the firmware of a machine that boots from the network.
func discoverServers(ctx context.Context, on link.Link) (found []dhcpserver.Offer, err error) {
	conn, err := link.OpenDHCPClient(on.Name)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	plain, err := dhcpv4.NewDiscovery(on.MAC, dhcpv4.WithBroadcast(true))
	if err != nil {
		return nil, err
	}
	firmware, err := dhcpv4.NewDiscovery(on.MAC, dhcpv4.WithBroadcast(true),
		dhcpv4.WithOption(dhcpv4.OptClassIdentifier("PXEClient:Arch:00007:UNDI:003001")),
		dhcpv4.WithOption(dhcpv4.OptClientArch(iana.EFI_X86_64)),
		dhcpv4.WithGeneric(dhcpv4.GenericOptionCode(97), append([]byte{0}, make([]byte, 16)...)))
	if err != nil {
		return nil, err
	}
	offers, err := link.Discover(ctx, conn, link.OfferTime, plain, firmware)
	if err != nil {
		return nil, fmt.Errorf("look for other DHCP servers: %w", err)
	}
	for _, answer := range offers {
		offer := dhcpserver.Offer{Boot: answer.BootFileNameOption()}
		if offer.Boot == "" {
			offer.Boot = strings.TrimRight(answer.BootFileName, "\x00")
		}
		server := answer.ServerIdentifier()
		if server == nil {
			server = answer.ServerIPAddr
		}
		offer.Server = addressOf(server)
		if address := addressOf(answer.YourIPAddr); address.IsValid() && !address.IsUnspecified() {
			offer.Address = address
		}
		if !slices.ContainsFunc(found, func(o dhcpserver.Offer) bool {
			return o.Server == offer.Server && o.Address.IsValid() == offer.Address.IsValid()
		}) {
			found = append(found, offer)
		}
	}
	return found, nil
}

// systemResolvers returns the DNS servers of this machine.
func systemResolvers(log *slog.Logger) []netip.AddrPort {
	texts, _, err := doctor.SystemResolvers()
	if err != nil {
		log.Warn("The DNS servers of this machine could not be read. The site's DNS is not compared with the "+
			"appliance's.", "error", err)
	}
	var resolvers []netip.AddrPort
	for _, text := range texts {
		if resolver, err := netip.ParseAddrPort(text); err == nil {
			resolvers = append(resolvers, resolver)
		}
	}
	return resolvers
}

func addressOf(ip net.IP) netip.Addr {
	address, _ := netip.AddrFromSlice(ip)
	return address.Unmap()
}
