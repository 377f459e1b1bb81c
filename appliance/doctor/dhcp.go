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

	"github.com/insomniacslk/dhcp/dhcpv4"

	"landfall/appliance/siteservice/link"
)

// ErrDHCPUnsupported is returned by Doctor.OpenDHCP on operating systems other than Linux.
var ErrDHCPUnsupported = errors.New("the check of DHCP servers requires Linux")

// dhcpChecks returns the checks of DHCP servers in this machine's networks. A check sends a
// DHCPDISCOVER, which reserves no address.
func (d *diagnosis) dhcpChecks() []check {
	if !d.site.CheckDHCP {
		return nil
	}
	interfaces, err := d.Interfaces()
	if err != nil {
		return []check{func(context.Context) []Finding {
			return []Finding{{Area: DHCP, Subject: "this machine's networks", Status: Unknown,
				Check: "which networks this machine is in", Result: "cannot be determined from this machine: " +
					err.Error()}}
		}}
	}
	var checks []check
	for _, iface := range interfaces {
		if iface.Flags&net.FlagUp == 0 || iface.Flags&net.FlagLoopback != 0 || iface.Flags&net.FlagBroadcast == 0 ||
			len(iface.HardwareAddr) != 6 {
			continue
		}
		checks = append(checks, func(ctx context.Context) []Finding { return d.checkDHCP(ctx, iface) })
	}
	if checks == nil {
		return []check{func(context.Context) []Finding {
			return []Finding{{Area: DHCP, Subject: "this machine's networks", Status: Unknown,
				Check:  "which DHCP servers answer",
				Result: "cannot be determined from this machine: no network interface of this machine is up"}}
		}}
	}
	return checks
}

func (d *diagnosis) checkDHCP(ctx context.Context, iface net.Interface) []Finding {
	finding := Finding{Area: DHCP, Subject: "DHCP on " + iface.Name, Status: Unknown,
		Check: "a broadcast DHCPDISCOVER, which reserves no address"}
	offers, err := d.discover(ctx, iface)
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EPERM):
		finding.Result = "cannot be determined from this machine: this process lacks the privilege to send DHCP packets"
		finding.Advice = "Grant the privilege to the program (setcap cap_net_raw,cap_net_bind_service+ep), or check " +
			"from another machine of that network."
	case err != nil:
		finding.Result = "cannot be determined from this machine: " + reason(err)
	case len(offers) == 0 && len(d.site.OwnDHCP[iface.Name]) > 0:
		// the appliance does not receive its own broadcast
		finding.Status, finding.Result = Green, "only this appliance offers addresses"
	case len(offers) == 0:
		finding.Status, finding.Result = Amber, "no DHCP server offers an address"
		finding.Advice = "Nothing, if the hosts have static addresses. Otherwise, make sure that a DHCP server or " +
			"relay serves this network."
	default:
		return d.rateOffers(finding, offers, d.site.OwnDHCP[iface.Name])
	}
	return []Finding{finding}
}

// rateOffers rates the offers of DHCP servers. Offers from more than one server are an error. own
// are the addresses of the appliance if it is one of the servers.
func (d *diagnosis) rateOffers(finding Finding, offers []*dhcpv4.DHCPv4, own []string) []Finding {
	servers := slices.Clone(own[:min(len(own), 1)])
	for _, offer := range offers {
		if server := serverOf(offer); !slices.Contains(servers, server) && !slices.Contains(own, server) {
			servers = append(servers, server)
		}
	}
	finding.Status, finding.Result = Green, describeOffer(offers[0])
	if len(servers) > 1 {
		finding.Status = Red
		finding.Result = fmt.Sprintf("%d servers offer addresses: %s", len(servers), strings.Join(servers, ", "))
		finding.Advice = "Keep the intended server and disable the others: hosts accept the first offer."
		return []Finding{finding}
	}
	address, _ := netip.AddrFromSlice(offers[0].YourIPAddr)
	networks := d.site.MachineNetworks
	if len(networks) > 0 && !slices.ContainsFunc(networks,
		func(p netip.Prefix) bool { return p.Contains(address.Unmap()) }) {
		finding.Status = Amber
		finding.Advice = fmt.Sprintf("Make sure that the hosts are in another network: the offered address is in "+
			"none of the machine networks %s.", prefixes(networks))
	} else if len(offers[0].Router()) == 0 {
		finding.Status, finding.Advice = Amber, "Configure a router in the DHCP server: hosts need a default route."
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
	add := func(option string, addresses []net.IP) {
		if len(addresses) > 0 {
			parts = append(parts, option+" "+strings.Join(addressTexts(addresses), ", "))
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

// discover broadcasts a DHCPDISCOVER and collects the offers that arrive within twice the time
// limit of a check. With the default limit, that is link.OfferTime.
func (d *diagnosis) discover(ctx context.Context, iface net.Interface) (offers []*dhcpv4.DHCPv4, err error) {
	conn, err := d.OpenDHCP(iface)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	discovery, err := dhcpv4.NewDiscovery(iface.HardwareAddr, dhcpv4.WithBroadcast(true), dhcpv4.WithRequestedOptions(
		dhcpv4.OptionRouter, dhcpv4.OptionDomainNameServer, dhcpv4.OptionNTPServers, dhcpv4.OptionInterfaceMTU))
	if err != nil {
		return nil, err
	}
	return link.Discover(ctx, conn, 2*d.Timeout, discovery)
}
