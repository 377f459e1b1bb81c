package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// ErrNoWire is returned by Doctor.Wire on systems without an implementation.
var ErrDHCPUnsupported = errors.New("DHCP servers are only asked from Linux")

// offerChecks returns the checks of DHCP servers in this machine's networks. A check sends a
// DISCOVER, which reserves no address.
func (e *diagnosis) dhcpChecks() []check {
	if !e.site.CheckDHCP {
		return nil
	}
	interfaces, err := e.Interfaces()
	if err != nil {
		return []check{func(context.Context) []Finding {
			return []Finding{{Area: DHCP, Subject: "this machine's networks", Status: Unknown,
				Check: "which networks this machine is in", Result: "it can't be told from here: " + err.Error()}}
		}}
	}
	var checks []check
	for _, iface := range interfaces {
		if iface.Flags&net.FlagUp == 0 || iface.Flags&net.FlagLoopback != 0 || iface.Flags&net.FlagBroadcast == 0 ||
			len(iface.HardwareAddr) != 6 {
			continue
		}
		checks = append(checks, func(ctx context.Context) []Finding { return e.checkDHCP(ctx, iface) })
	}
	if checks == nil {
		return []check{func(context.Context) []Finding {
			return []Finding{{Area: DHCP, Subject: "this machine's networks", Status: Unknown,
				Check:    "which DHCP servers there are",
				Result: "it can't be told from here: this machine has no network card that is up"}}
		}}
	}
	return checks
}

func (e *diagnosis) checkDHCP(ctx context.Context, iface net.Interface) []Finding {
	finding := Finding{Area: DHCP, Subject: "DHCP on " + iface.Name, Status: Unknown,
		Check: "a DISCOVER to all, by which no address is taken"}
	offers, err := e.discover(ctx, iface)
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EPERM):
		finding.Result = "it can't be told from here: this process may not send it"
		finding.Advice = "Give the program the right (setcap cap_net_raw,cap_net_bind_service+ep), or look from another " +
			"machine of that network."
	case err != nil:
		finding.Result = "it can't be told from here: " + reason(err)
	case len(offers) == 0:
		finding.Status, finding.Result = Amber, "nobody offers an address"
		finding.Advice = "Nothing, if the hosts have static networks; else see that a DHCP server or relay serves this " +
			"network."
	default:
		return e.rateOffers(finding, offers)
	}
	return []Finding{finding}
}

// rateOffers rates the offers of DHCP servers. More than one server is an error.
func (e *diagnosis) rateOffers(finding Finding, offers []*dhcpv4.DHCPv4) []Finding {
	var servers []string
	for _, offer := range offers {
		if server := serverOf(offer); !slices.Contains(servers, server) {
			servers = append(servers, server)
		}
	}
	finding.Status, finding.Result = Green, describeOffer(offers[0])
	if len(servers) > 1 {
		finding.Status = Red
		finding.Result = fmt.Sprintf("%d servers offer addresses: %s", len(servers), strings.Join(servers, ", "))
		finding.Advice = "Find out which of them should, and switch the others off: hosts take the first answer."
		return []Finding{finding}
	}
	address, _ := netip.AddrFromSlice(offers[0].YourIPAddr)
	networks := e.site.MachineNetworks
	if len(networks) > 0 && !slices.ContainsFunc(networks,
		func(p netip.Prefix) bool { return p.Contains(address.Unmap()) }) {
		finding.Status = Amber
		finding.Advice = fmt.Sprintf("See that the hosts are in another network than this one: the offer is none of the "+
			"machine networks %s.", prefixes(networks))
	} else if len(offers[0].Router()) == 0 {
		finding.Status, finding.Advice = Amber, "Have the server name a router: hosts need a default route."
	}
	return []Finding{finding}
}

func serverOf(offer *dhcpv4.DHCPv4) string {
	if id := offer.ServerIdentifier(); id != nil {
		return id.String()
	}
	return offer.ServerIPAddr.String()
}

// describeOffer returns the content of an offer as text.
func describeOffer(offer *dhcpv4.DHCPv4) string {
	parts := []string{fmt.Sprintf("%s offers %s", serverOf(offer), offer.YourIPAddr)}
	add := func(what string, addresses []net.IP) {
		if len(addresses) > 0 {
			parts = append(parts, what+" "+strings.Join(addressTexts(addresses), ", "))
		}
	}
	add("router", offer.Router())
	add("DNS", offer.DNS())
	add("NTP", offer.NTPServers())
	if mtu, err := dhcpv4.GetUint16(dhcpv4.OptionInterfaceMTU, offer.Options); err == nil {
		parts = append(parts, fmt.Sprintf("MTU %d", mtu))
	}
	return strings.Join(parts, "; ")
}

// discover sends a DISCOVER and collects the offers that arrive within the patience.
func (e *diagnosis) discover(ctx context.Context, iface net.Interface) (offers []*dhcpv4.DHCPv4, err error) {
	wire, err := e.OpenDHCP(iface)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, wire.Close()) }()
	question, err := dhcpv4.NewDiscovery(iface.HardwareAddr, dhcpv4.WithBroadcast(true), dhcpv4.WithRequestedOptions(
		dhcpv4.OptionRouter, dhcpv4.OptionDomainNameServer, dhcpv4.OptionNTPServers, dhcpv4.OptionInterfaceMTU))
	if err != nil {
		return nil, err
	}
	if _, err := wire.WriteTo(question.ToBytes(), &net.UDPAddr{IP: net.IPv4bcast,
		Port: dhcpv4.ServerPort}); err != nil {
		return nil, err
	}
	if err := wire.SetReadDeadline(time.Now().Add(e.Timeout)); err != nil {
		return nil, err
	}
	for packet := make([]byte, 1500); ctx.Err() == nil; {
		n, _, err := wire.ReadFrom(packet)
		if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
			return offers, nil
		}
		if err != nil {
			return offers, err
		}
		answer, err := dhcpv4.FromBytes(packet[:n])
		if err == nil && answer.TransactionID == question.TransactionID &&
			answer.MessageType() == dhcpv4.MessageTypeOffer {
			offers = append(offers, answer)
		}
	}
	return offers, ctx.Err()
}
