package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"landfall/appliance/siteservice"
	"landfall/appliance/siteservice/nameserver"
)

// Site configures the services for a site that has none. Each is off by default and is switched on
// for single network interfaces.
type Site struct {
	Names []string `mapstructure:"names" check:"host"`
	DNS   SiteDNS  `mapstructure:"dns"`
	NTP   SiteNTP  `mapstructure:"ntp"`
}

// SiteDNS configures the DNS service.
type SiteDNS struct {
	Interfaces []string `mapstructure:"interfaces" check:"interface"`
	Forward    []string `mapstructure:"forward" check:"resolver"`
}

// SiteNTP configures the NTP service.
type SiteNTP struct {
	Interfaces []string `mapstructure:"interfaces" check:"interface"`
	LocalClock bool     `mapstructure:"local_clock"`
}

// SiteServices returns the services of the site. The names of the appliance are those in the
// configuration and in the URLs.
func (c Config) SiteServices(urls []string) (siteservice.Configured, error) {
	configured := siteservice.Configured{Names: slices.Clone(c.Site.Names)}
	for _, text := range urls {
		parsed, err := url.Parse(text)
		if err != nil {
			return configured, fmt.Errorf("read the URL %s: %w", text, err)
		}
		host := parsed.Hostname()
		if net.ParseIP(host) == nil && strings.Contains(host, ".") && !slices.Contains(configured.Names, host) {
			configured.Names = append(configured.Names, host)
		}
	}
	for _, name := range c.Site.DNS.Interfaces {
		configured.Switches = append(configured.Switches, siteservice.Switch{Service: siteservice.DNS, Interface: name})
	}
	for _, name := range c.Site.NTP.Interfaces {
		configured.Switches = append(configured.Switches, siteservice.Switch{Service: siteservice.NTP, Interface: name,
			LocalClock: c.Site.NTP.LocalClock})
	}
	for _, text := range c.Site.DNS.Forward {
		server, err := parseResolver(text)
		if err != nil {
			return configured, fmt.Errorf("read site.dns.forward: %w", err)
		}
		configured.Forward = append(configured.Forward, server)
	}
	return configured, nil
}

// parseResolver reads the address of a DNS server, with or without a port.
func parseResolver(text string) (netip.AddrPort, error) {
	if address, err := netip.ParseAddr(text); err == nil {
		return netip.AddrPortFrom(address, nameserver.Port), nil
	}
	return netip.ParseAddrPort(text)
}

// validInterface reports whether a text can be the name of a network interface (Linux
// net/core/dev.c, dev_valid_name).
func validInterface(text string) bool {
	const longest = 15
	return text != "" && len(text) <= longest && text != "." && text != ".." &&
		!strings.ContainsAny(text, "/: \t\n=") && strconv.Quote(text) == `"`+text+`"`
}
