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

// Address is the parsed address of a BMC.
type Address struct {
	// Scheme is the scheme of the address without +http or +https: redfish-virtualmedia,
	// idrac-virtualmedia, …
	Scheme string
	// URL is the base URL of the BMC without a path, such as https://[fd00::7]:8443.
	URL string
	// System is the path of the system resource. It is empty if the BMC has only one system.
	System string
	// NetworkBoot is set if the scheme means network boot in metal3. The manager uses virtual media
	// instead.
	NetworkBoot bool
	// HTTPBoot is set if the server's firmware itself fetches the image (UEFI HTTP boot).
	HTTPBoot bool
}

// AddressError reports why an address is rejected.
type AddressError struct{ Reason string }

// Error implements error.
func (e *AddressError) Error() string { return e.Reason }

// FaultKind implements fault.Classified.
func (*AddressError) FaultKind() fault.Kind { return fault.Invalid }

// The Redfish schemes of metal3's baremetal-operator (docs/api.md, "bmc.address").
var (
	virtualMediaSchemes = []string{"redfish-virtualmedia", "idrac-virtualmedia", "ilo5-virtualmedia"}
	networkBootSchemes  = []string{"redfish", "idrac-redfish", "ilo5-redfish"}
)

// httpBootScheme is metal3's scheme for UEFI HTTP boot
// (design/baremetal-operator/uefi-http-boot.md).
const httpBootScheme = "redfish-uefihttp"

var dnsName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9])?$`)

const addressExample = "redfish-virtualmedia://192.0.2.7/redfish/v1/Systems/1"

// ParseAddress parses the address of a BMC: metal3's form with a Redfish scheme, or the plain
// https:// or http:// URL of the BMC. Errors are *AddressError.
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
			return refuse("The BMC's address %q has the scheme %s, which is not supported; use Redfish, such "+
				"as %s.", text, scheme, addressExample)
		}
		return refuse("The BMC's address %q has no scheme, so it means IPMI, which is not supported. If the BMC "+
			"supports Redfish, write %s.", text, addressExample)
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
		return refuse("The BMC's address %q has the scheme %s, which is not supported; the supported schemes are %s, "+
			"each "+
			"also with +http or +https.",
			text, scheme, strings.Join(slices.Concat(virtualMediaSchemes, []string{httpBootScheme}, networkBootSchemes),
				", "))
	}
	if transport == "" {
		transport = "https"
	}
	if transport != "http" && transport != "https" {
		return refuse("The BMC's address %q has the scheme %s; after the + must be http or https.", text, parsed.Scheme)
	}
	if parsed.User != nil {
		return refuse("The BMC's address contains a user name; give user name and password separately.")
	}
	if parsed.RawQuery != "" || parsed.Fragment != "" {
		return refuse("The BMC's address %q has a query or a fragment; it must end with the path of the system, such "+
			"as "+
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
	address.URL = (&url.URL{Scheme: transport, Host: strings.TrimSuffix(parsed.Host, ":")}).String()
	path := strings.TrimRight(parsed.Path, "/")
	switch {
	case path == "" || path == "/redfish" || path == "/redfish/v1" || path == "/redfish/v1/Systems":
	case strings.HasPrefix(path, "/redfish/v1/"):
		address.System = path
	default:
		return refuse("The BMC's address %q has the path %s; it must be empty or the path of the system, such as "+
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

// ParseMAC parses a MAC address in any common form and returns it in lower case with colons.
func ParseMAC(text string) (string, error) {
	mac, err := net.ParseMAC(strings.TrimSpace(text))
	if err != nil || len(mac) != 6 {
		return "", &AddressError{fmt.Sprintf("The boot MAC address %q is invalid; write one such as 52:54:00:12:34:56.",
			text)}
	}
	return mac.String(), nil
}
