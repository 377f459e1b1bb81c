package config

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"landfall/appliance/siteservice"
	"landfall/appliance/siteservice/dhcpserver"
	"landfall/appliance/siteservice/nameserver"
)

// Site configures the services for a site that has none. Each is off by default and is switched on
// for single network interfaces.
type Site struct {
	Names []string `mapstructure:"names" check:"host"`
	DNS   SiteDNS  `mapstructure:"dns"`
	NTP   SiteNTP  `mapstructure:"ntp"`
	DHCP  SiteDHCP `mapstructure:"dhcp"`
	TFTP  SiteTFTP `mapstructure:"tftp"`
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

// SiteDHCP configures the DHCP service.
type SiteDHCP struct {
	// Interfaces has entries INTERFACE=proxy, INTERFACE=reservations and INTERFACE=FIRST-LAST.
	Interfaces []string    `mapstructure:"interfaces" check:"dhcp"`
	Lease      string      `mapstructure:"lease" check:"lease"`
	Router     string      `mapstructure:"router" check:"ipv4"`
	InfraEnv   string      `mapstructure:"infra_env"`
	KnownOnly  bool        `mapstructure:"known_only"`
	Loaders    string      `mapstructure:"loaders" check:"path"`
	Relayed    []DHCPRelay `mapstructure:"relayed"`
}

// DHCPRelay is a network whose relay agent sends its requests to the appliance.
type DHCPRelay struct {
	Network string `mapstructure:"network" check:"network"`
	Router  string `mapstructure:"router" check:"ipv4"`
	Range   string `mapstructure:"range" check:"range"`
}

func (DHCPRelay) problem(given map[string]any) string {
	if missing := missingKey(given, "network"); missing != "" {
		return missing
	}
	// A value of another form was refused before.
	network, errNetwork := netip.ParsePrefix(fmt.Sprint(given["network"]))
	addresses, errRange := dhcpserver.ParseRange(fmt.Sprint(given["range"]))
	if errNetwork == nil && errRange == nil &&
		(!network.Contains(addresses.First) || !network.Contains(addresses.Last)) {
		return fmt.Sprintf("has the range %s, which is not in its network %s: choose addresses of that network",
			given["range"], network)
	}
	return ""
}

// SiteTFTP configures the TFTP service. It is also on where the DHCP service is on.
type SiteTFTP struct {
	Interfaces []string `mapstructure:"interfaces" check:"interface"`
}

// infiniteLease is the value of site.dhcp.lease for leases without an end.
const infiniteLease = "infinite"

// defaultLease is the default of site.dhcp.lease.
const defaultLease = "12h"

// parseLease reads the time of a lease.
func parseLease(text string) (time.Duration, error) {
	if text == infiniteLease {
		return dhcpserver.Infinite, nil
	}
	duration, err := time.ParseDuration(text)
	const shortest = time.Minute
	if err != nil || duration < shortest || duration >= dhcpserver.Infinite {
		return 0, errInvalid
	}
	return duration, nil
}

// parseDHCP reads an entry of site.dhcp.interfaces.
func parseDHCP(text string) (siteservice.Switch, error) {
	name, mode, ok := strings.Cut(text, "=")
	s := siteservice.Switch{Service: siteservice.DHCP, Interface: name, Mode: dhcpserver.Mode(mode)}
	if !ok || !validInterface(name) {
		return s, errInvalid
	}
	if s.Mode != dhcpserver.Proxy && s.Mode != dhcpserver.Reservations {
		if _, err := dhcpserver.ParseRange(mode); err != nil {
			return s, errInvalid
		}
		s.Mode, s.Range = dhcpserver.Dynamic, mode
	}
	return s, nil
}

// settings returns the settings of DHCP.
func (d SiteDHCP) settings() (settings siteservice.DHCPSettings, err error) {
	settings = siteservice.DHCPSettings{InfraEnv: d.InfraEnv, KnownOnly: d.KnownOnly, Loaders: d.Loaders}
	if settings.Lease, err = parseLease(cmp.Or(d.Lease, defaultLease)); err != nil {
		return settings, fmt.Errorf("read site.dhcp.lease: %w", err)
	}
	if d.Router != "" {
		if settings.Router, err = netip.ParseAddr(d.Router); err != nil {
			return settings, fmt.Errorf("read site.dhcp.router: %w", err)
		}
	}
	for _, relay := range d.Relayed {
		subnet := dhcpserver.Subnet{}
		if subnet.Network, err = netip.ParsePrefix(relay.Network); err == nil && relay.Router != "" {
			subnet.Router, err = netip.ParseAddr(relay.Router)
		}
		if err == nil && relay.Range != "" {
			subnet.Range, err = dhcpserver.ParseRange(relay.Range)
		}
		if err != nil {
			return settings, fmt.Errorf("read site.dhcp.relayed: %w", err)
		}
		settings.Relayed = append(settings.Relayed, subnet)
	}
	return settings, nil
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
	for _, text := range c.Site.DHCP.Interfaces {
		s, err := parseDHCP(text)
		if err != nil {
			return configured, fmt.Errorf("read site.dhcp.interfaces: %w", err)
		}
		configured.Switches = append(configured.Switches, s)
	}
	for _, name := range c.Site.TFTP.Interfaces {
		configured.Switches = append(configured.Switches, siteservice.Switch{Service: siteservice.TFTP,
			Interface: name})
	}
	var err error
	if configured.DHCP, err = c.Site.DHCP.settings(); err != nil {
		return configured, err
	}
	if c.Registry.Name != "" && !slices.Contains(configured.Names, c.Registry.Name) {
		configured.Names = append(configured.Names, c.Registry.Name)
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
