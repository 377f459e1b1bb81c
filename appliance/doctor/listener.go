package doctor

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
)

// Listener is the listener of the appliance for hosts and people.
type Listener struct {
	Address       net.Addr
	Authenticates bool // clients must log in
}

// IsLocal reports whether only this machine reaches the appliance.
func (l Listener) IsLocal() bool {
	if l.Address == nil {
		return false
	}
	address, err := netip.ParseAddrPort(l.Address.String())
	return err == nil && address.Addr().Unmap().IsLoopback()
}

// Advice says how other machines can reach the appliance.
func (l Listener) Advice() string {
	port := "8090"
	if _, bound, err := net.SplitHostPort(l.Address.String()); err == nil {
		port = bound
	}
	all, auth := net.JoinHostPort("0.0.0.0", port), ""
	if !l.Authenticates {
		auth = " Set auth to local as well; without it, everybody who reaches the appliance is an administrator."
	}
	return fmt.Sprintf("Set listen to %s in the configuration file (or LANDFALL_LISTEN, or the flag --listen), and "+
		"restart the appliance.%s", all, auth)
}

// reach returns the finding about who can reach the appliance, whose URL for hosts is given.
func (l Listener) reach(address string, hasHosts bool) Finding {
	finding := Finding{Area: Addresses, Subject: "the appliance", Status: Green,
		Check: "whether hosts can reach it", Result: "it listens on " + l.Address.String()}
	switch {
	case !l.IsLocal():
	case !OnLoopback(address):
		finding.Result += ", and hosts reach it through a proxy at " + address
	case hasHosts:
		finding.Status, finding.Advice = Amber, l.Advice()
		finding.Result += ", so hosts on this machine reach it, and others do not"
	default:
		finding.Status, finding.Advice = Red, l.Advice()
		finding.Result += ", which only this machine reaches"
	}
	return finding
}

// OnLoopback reports whether only this machine reaches a URL.
func OnLoopback(address string) bool {
	parsed, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(parsed.Hostname())
	return parsed.Hostname() == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}
