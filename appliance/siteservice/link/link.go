// Package link describes the network interfaces of this machine on which the services of the site
// run, and the other servers and machines that answer there. It opens sockets on the addresses of
// an interface and explains why a socket can't be opened.
package link

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// Link is a network interface of this machine with its present addresses.
type Link struct {
	Name     string
	Index    int
	MAC      net.HardwareAddr
	Prefixes []netip.Prefix // addresses with their networks, without IPv6 link-local addresses
}

// Other is another server that answers requests of the site.
type Other struct {
	Address string `json:"address"`
	MAC     string `json:"mac,omitempty"` // "" if it is unknown, as in other networks
	Details string `json:"details,omitempty"`
}

// String describes the server by its address, and by its MAC address if it is known.
func (o Other) String() string {
	if o.MAC == "" {
		return o.Address
	}
	return fmt.Sprintf("%s (MAC address %s)", o.Address, o.MAC)
}

// Find returns an interface that is up. The error is a sentence.
func Find(name string) (Link, error) {
	found, err := net.InterfaceByName(name)
	if err != nil {
		return Link{}, fmt.Errorf("this machine has no network interface %s; %s", name, existing())
	}
	if found.Flags&net.FlagUp == 0 {
		return Link{}, fmt.Errorf("the network interface %s is down; switch it on or plug its cable in", name)
	}
	addresses, err := found.Addrs()
	if err != nil {
		return Link{}, fmt.Errorf("list the addresses of %s: %w", name, err)
	}
	l := Link{Name: name, Index: found.Index, MAC: found.HardwareAddr}
	for _, address := range addresses {
		prefix, err := netip.ParsePrefix(address.String())
		if err == nil && !prefix.Addr().IsLinkLocalUnicast() {
			l.Prefixes = append(l.Prefixes, netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()))
		}
	}
	return l, nil
}

// IsOwn reports whether an address belongs to this machine.
func IsOwn(address netip.Addr) bool {
	addresses, err := net.InterfaceAddrs()
	if err != nil || address.IsLoopback() {
		return address.IsLoopback()
	}
	return slices.ContainsFunc(addresses, func(own net.Addr) bool {
		prefix, err := netip.ParsePrefix(own.String())
		return err == nil && prefix.Addr().Unmap() == address.Unmap().WithZone("")
	})
}

// existing names the interfaces of this machine for an error.
func existing() string {
	names := Names()
	if len(names) == 0 {
		return "it has none"
	}
	text := "it has"
	for i, name := range names {
		if i > 0 {
			text += ","
		}
		text += " " + name
	}
	return text
}

// Names returns the names of this machine's interfaces except the loopback.
func Names() []string {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil
	}
	var names []string
	for _, i := range interfaces {
		if i.Flags&net.FlagLoopback == 0 {
			names = append(names, i.Name)
		}
	}
	return names
}

// Addresses returns the addresses of the interface.
func (l Link) Addresses() []netip.Addr {
	var addresses []netip.Addr
	for _, prefix := range l.Prefixes {
		addresses = append(addresses, prefix.Addr())
	}
	return addresses
}

// IPv4 returns the first IPv4 address of the interface with its network.
func (l Link) IPv4() (netip.Prefix, bool) {
	for _, prefix := range l.Prefixes {
		if prefix.Addr().Is4() {
			return prefix, true
		}
	}
	return netip.Prefix{}, false
}

// Contains reports whether an address belongs to a network of the interface.
func (l Link) Contains(address netip.Addr) bool {
	return slices.ContainsFunc(l.Prefixes, func(p netip.Prefix) bool { return p.Contains(address.Unmap()) })
}

// Equal reports whether two descriptions of an interface are the same.
func (l Link) Equal(other Link) bool {
	return l.Name == other.Name && l.Index == other.Index && l.MAC.String() == other.MAC.String() &&
		slices.Equal(l.Prefixes, other.Prefixes)
}
