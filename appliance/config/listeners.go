package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// listener is an address at which the appliance listens.
type listener struct{ key, address string }

// listeners returns the addresses of the configuration, except that of the boot listener.
func (c Config) listeners() []listener {
	all := []listener{{"listen", c.Listen}}
	if c.Registry.Listen != "" {
		all = append(all, listener{"registry.listen", c.Registry.Listen})
	}
	if c.Kubernetes.Enabled && c.Kubernetes.Listen != "" {
		all = append(all, listener{"kubernetes.listen", c.Kubernetes.Listen})
	}
	return all
}

// CheckListeners returns an error for two addresses with one port. The error is a sentence.
func (c Config) CheckListeners() error {
	all := c.listeners()
	if boot := c.BootAddress(); boot != "" {
		all = append(all, listener{"boot_listen", boot})
	}
	for i, one := range all {
		for _, other := range all[:i] {
			if overlap(one.address, other.address) {
				return fmt.Errorf("%s (%s) and %s (%s) have the same port; set one of them to another port",
					other.key, other.address, one.key, one.address)
			}
		}
	}
	return nil
}

// BootAddress returns the address of the boot listener, or "" for none. Beside TLS, the default is
// port 80 if the main listener has port 443, and otherwise the next port that no other listener of
// the configuration has.
func (c Config) BootAddress() string {
	switch {
	case c.BootListen == NoListener || c.BootListen == "" && !c.TLS.Enabled:
		return ""
	case c.BootListen != "":
		return c.BootListen
	}
	host, text, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return ""
	}
	port, err := strconv.ParseUint(text, 10, 16)
	switch {
	case err != nil:
		return ""
	case port == 443:
		return net.JoinHostPort(host, "80")
	case port == 0: // any free port
		return net.JoinHostPort(host, "0")
	}
	for port++; port <= 65535; port++ {
		address := net.JoinHostPort(host, strconv.FormatUint(port, 10))
		if !c.listensAt(address) {
			return address
		}
	}
	return ""
}

func (c Config) listensAt(address string) bool {
	for _, l := range c.listeners() {
		if overlap(l.address, address) {
			return true
		}
	}
	return false
}

// overlap reports whether the system refuses to listen on both addresses.
func overlap(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	return errA == nil && errB == nil && portA == portB && portA != "0" &&
		(hostA == hostB || isEverywhere(hostA) || isEverywhere(hostB))
}

// isEverywhere reports whether a host means all addresses of the machine.
func isEverywhere(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "" || err == nil && address.IsUnspecified()
}
