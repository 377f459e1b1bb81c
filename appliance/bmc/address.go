package bmc

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"landfall/appliance/fault"
)

// Address is a BMC's address in its parts.
type Address struct {
	// Scheme is as it was given, without +http or +https: redfish-virtualmedia, idrac-virtualmedia,
	// …
	Scheme string
	// URL is where the BMC is spoken to, such as https://[fd00::7]:8443, without a path.
	URL string
	// System is the path of the system's resource, "" for the only one that the BMC has.
	System string
	// NetworkBoot tells of a scheme that means network boot elsewhere; virtual media is used in its
	// place.
	NetworkBoot bool
	// HTTPBoot tells of the scheme by which the server's firmware fetches the image itself.
	HTTPBoot bool
}

// AddressError says why an address is refused.
type AddressError struct{ Reason string }

// Error implements error.
func (e *AddressError) Error() string { return e.Reason }

// FaultKind implements fault.Classified.
func (*AddressError) FaultKind() fault.Kind { return fault.Invalid }

// The schemes of metal3's baremetal-operator (docs/api.md, "bmc.address") for Redfish.
var (
	virtualMediaSchemes = []string{"redfish-virtualmedia", "idrac-virtualmedia", "ilo5-virtualmedia"}
	networkBootSchemes  = []string{"redfish", "idrac-redfish", "ilo5-redfish"}
)

// httpBootScheme is metal3's for UEFI HTTP boot (design/baremetal-operator/uefi-http-boot.md).
const httpBootScheme = "redfish-uefihttp"

var dnsName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9])?$`)

const addressExample = "redfish-virtualmedia://192.0.2.7/redfish/v1/Systems/1"

// ParseAddress reads a BMC's address: metal3's form with a scheme of Redfish, or the plain https://
// or http:// URL of the BMC. Errors are *AddressError.
func ParseAddress(text string) (Address, error) {
	refuse := func(format string, args ...any) (Address, error) {
		return Address{}, &AddressError{fmt.Sprintf(format, args...)}
	}
	text = strings.TrimSpace(text)
	if text == "" {
		return refuse("The BMC's address is empty; write one such as %s.", addressExample)
	}
	if !strings.Contains(text, "://") {
		if scheme, _, ok := strings.Cut(text, ":"); ok && (scheme == "libvirt" || scheme == "ipmi") {
			return refuse("The BMC's address %q has the scheme %s, which is not spoken here; only Redfish is, such "+
				"as %s.", text, scheme, addressExample)
		}
		return refuse("The BMC's address %q has no scheme, which means ipmi, and IPMI is not spoken here; if the BMC "+
			"speaks Redfish, write %s.", text, addressExample)
	}
	parsed, err := url.Parse(text)
	if err != nil {
		return refuse("The BMC's address %q can't be read (%v); write one such as %s.", text, withoutURL(err),
			addressExample)
	}
	scheme, transport, _ := strings.Cut(parsed.Scheme, "+")
	address := Address{Scheme: scheme}
	switch {
	case scheme == "https" || scheme == "http":
		transport = scheme
	case slices.Contains(virtualMediaSchemes, scheme):
	case slices.Contains(networkBootSchemes, scheme):
		address.NetworkBoot = true
	case scheme == httpBootScheme:
		address.HTTPBoot = true
	default:
		return refuse("The BMC's address %q has the scheme %s, which is not spoken here; only Redfish is: %s, each "+
			"also with +http or +https.",
			text, scheme, strings.Join(slices.Concat(virtualMediaSchemes, []string{httpBootScheme}, networkBootSchemes),
				", "))
	}
	if transport == "" {
		transport = "https"
	}
	if transport != "http" && transport != "https" {
		return refuse("The BMC's address %q has the scheme %s; behind the + can be http or https.", text, parsed.Scheme)
	}
	if parsed.User != nil {
		return refuse("The BMC's address has a user name in it; give user name and password by themselves.")
	}
	if parsed.RawQuery != "" || parsed.Fragment != "" {
		return refuse("The BMC's address %q has a query or a fragment; it ends with the path of the system, such as "+
			"/redfish/v1/Systems/1.", text)
	}
	host := parsed.Hostname()
	if _, err := netip.ParseAddr(host); err != nil && !dnsName.MatchString(host) {
		return refuse("The BMC's address %q has the host %q, which is neither an IP address (IPv6 in brackets) nor a "+
			"DNS name.", text, host)
	}
	if port := parsed.Port(); port != "" {
		if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
			return refuse("The BMC's address %q has the port %s; ports are 1 to 65535.", text, port)
		}
	}
	address.URL = (&url.URL{Scheme: transport, Host: parsed.Host}).String()
	if port := parsed.Port(); port == "" && strings.HasSuffix(parsed.Host, ":") {
		if port := parsed.Port(); port != "" {
			if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
				return refuse("The BMC's address %q has the port %s; ports are 1 to 65535.", text, port)
			}
		}
		address.URL = (&url.URL{Scheme: transport, Host: strings.TrimSuffix(parsed.Host, ":")}).String()
	}
	path := strings.TrimRight(parsed.Path, "/")
	switch {
	case path == "" || path == "/redfish" || path == "/redfish/v1" || path == "/redfish/v1/Systems":
	case strings.HasPrefix(path, "/redfish/v1/"):
		address.System = path
	default:
		return refuse("The BMC's address %q has the path %s; it is empty, or that of the system, such as "+
			"/redfish/v1/Systems/1.", text, parsed.Path)
	}
	return address, nil
}

func withoutURL(err error) error {
	if parse, ok := err.(*url.Error); ok {
		return parse.Err
	}
	return err
}

// ParseMAC reads a MAC address in any common form and returns it in lower case with colons.
func ParseMAC(text string) (string, error) {
	mac, err := net.ParseMAC(strings.TrimSpace(text))
	if err != nil || len(mac) != 6 {
		return "", &AddressError{fmt.Sprintf("The boot MAC address %q is none; write one such as 52:54:00:12:34:56.",
			text)}
	}
	return mac.String(), nil
}
