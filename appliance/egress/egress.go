// Package egress decides to which addresses the appliance sends requests that a person asked for:
// URLs of images, mirrors, token servers, catalogs, BMCs and clusters. By default these requests
// reach every address except the loopback, link-local addresses, multicast, metadata services of
// clouds, and the appliance itself.
//
// [Rules.DialContext] checks each address after name resolution and just before the connection, so
// a name that resolves to another address later, and a redirect, are checked as well.
//
// Design: docs/security.md#outgoing-requests.
package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"landfall/appliance/fault"
)

// Options configures [New].
type Options struct {
	// Allow and Deny are networks in CIDR notation, addresses, names of hosts, and names with the
	// form *.example.com, which includes all names below example.com. Deny precedes Allow.
	Allow, Deny []string
	// Configured are the servers that the configuration names, as host or host:port. Requests to
	// them are not checked. A host without a port includes the ports 80 and 443.
	Configured []string
	// Own returns the addresses at which the appliance listens. Allow does not include them.
	Own func() []net.Addr
	// Registry returns the address of the appliance's registry, or nil without one. It is a mirror
	// like others, so requests to it are not checked.
	Registry func() net.Addr
}

// Rules decides which addresses may be reached. It does not change after [New]. A nil *Rules allows
// every address; it is for the command line, where a person's request leaves that person's machine.
type Rules struct {
	allow, deny list
	configured  map[string]bool // host:port
	own         func() []net.Addr
	registry    func() net.Addr
}

// list is one list of the configuration.
type list struct {
	networks []netip.Prefix
	names    []string
}

// DeniedError is the error of a request to an address that the rules deny.
type DeniedError struct {
	Host    string // as the request names it
	Address string // to which the name resolved; "" if the name itself is denied
	Because string // such as "a link-local address"
	Denied  bool   // by egress.deny; otherwise egress.allow could allow it
	Own     bool   // the appliance itself, which nothing allows
}

// Error returns one sentence without a full stop.
func (e *DeniedError) Error() string {
	subject := e.Host
	if e.Address != "" && e.Address != e.Host {
		subject += " (" + e.Address + ")"
	}
	switch {
	case e.Own:
		return fmt.Sprintf("the appliance sends no requests to %s, because this is the appliance itself; use the "+
			"address of another server", subject)
	case e.Denied:
		return fmt.Sprintf("the appliance sends no requests to %s, because egress.deny in the configuration names it; "+
			"use another server, or change egress.deny", subject)
	}
	return fmt.Sprintf("the appliance sends no requests to %s, because it is %s; use another server, or add the "+
		"address to egress.allow in the configuration", subject, e.Because)
}

// FaultKind implements fault.Classified.
func (e *DeniedError) FaultKind() fault.Kind { return fault.Invalid }

// New returns the rules.
func New(options Options) (*Rules, error) {
	r := &Rules{configured: map[string]bool{}, own: options.Own, registry: options.Registry}
	var err error
	if r.allow, err = parse("egress.allow", options.Allow); err != nil {
		return nil, err
	}
	if r.deny, err = parse("egress.deny", options.Deny); err != nil {
		return nil, err
	}
	for _, server := range options.Configured {
		if _, _, err := net.SplitHostPort(server); err == nil {
			r.configured[strings.ToLower(server)] = true
			continue
		}
		host := strings.ToLower(strings.Trim(server, "[]"))
		r.configured[net.JoinHostPort(host, "80")], r.configured[net.JoinHostPort(host, "443")] = true, true
	}
	return r, nil
}

func parse(key string, entries []string) (list, error) {
	var l list
	for _, entry := range entries {
		switch network, isNetwork := ParseNetwork(entry); {
		case isNetwork:
			l.networks = append(l.networks, network)
		case ValidName(entry):
			l.names = append(l.names, strings.ToLower(strings.TrimSuffix(entry, ".")))
		default:
			return l, fmt.Errorf("%s contains %q; expected a network such as 192.0.2.0/24, an address, or the name "+
				"of a host such as mirror.example.com or *.example.com", key, entry)
		}
	}
	return l, nil
}

// ParseNetwork reads a network in CIDR notation or a single address.
func ParseNetwork(text string) (netip.Prefix, bool) {
	if network, err := netip.ParsePrefix(text); err == nil {
		const mapped = 96 // bits before a mapped IPv4 address
		if address := network.Addr(); address.Is4In6() && network.Bits() >= mapped {
			network = netip.PrefixFrom(address.Unmap(), network.Bits()-mapped)
		}
		return network.Masked(), true
	}
	address, err := netip.ParseAddr(text)
	if err != nil || address.Zone() != "" {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(address.Unmap(), address.Unmap().BitLen()), true
}

// ValidName reports whether a text is the name of a host, or *. and the name of a domain.
func ValidName(text string) bool {
	name := strings.TrimSuffix(strings.TrimPrefix(text, "*."), ".")
	return name != "" && !strings.ContainsFunc(name, func(c rune) bool {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		return !letter && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.'
	})
}

func (l list) address(address netip.Addr) bool {
	return slices.ContainsFunc(l.networks, func(p netip.Prefix) bool { return p.Contains(address) })
}

func (l list) name(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return slices.ContainsFunc(l.names, func(name string) bool {
		domain, isPattern := strings.CutPrefix(name, "*")
		return host == name || isPattern && strings.HasSuffix(host, domain)
	})
}

// metadata are the addresses of clouds' metadata services that are not link-local: AWS over IPv6,
// Azure, Alibaba.
func metadata(address netip.Addr) bool {
	switch address.String() {
	case "fd00:ec2::254", "168.63.129.16", "100.100.100.200":
		return true
	}
	return false
}

// reserved returns why an address is denied by default, or "".
func reserved(address netip.Addr) string {
	switch {
	case address.IsLoopback():
		return "a loopback address"
	case address.IsLinkLocalUnicast():
		return "a link-local address"
	case address.IsMulticast(), address == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "a multicast address"
	// Linux sends packets to 0.0.0.0 and :: to the loopback. 0.0.0.0/8 is "this network" (RFC 1122,
	// 3.2.1.3).
	case address.IsUnspecified(), address.Is4() && address.As4()[0] == 0:
		return "an unspecified address"
	case metadata(address):
		return "the address of a cloud's metadata service"
	}
	return ""
}

// embedded returns the IPv4 address in an IPv6 address of a translation: mapped, compatible (RFC
// 4291, 2.5.5), NAT64 (RFC 6052), 6to4 (RFC 3056). Otherwise it returns the address.
func embedded(address netip.Addr) netip.Addr {
	address = address.Unmap().WithZone("")
	if !address.Is6() {
		return address
	}
	bytes := address.As16()
	four := func(at int) netip.Addr { return netip.AddrFrom4([4]byte(bytes[at : at+4])) }
	switch {
	case netip.MustParsePrefix("64:ff9b::/96").Contains(address):
		return four(12)
	case netip.MustParsePrefix("2002::/16").Contains(address):
		return four(2)
	case netip.MustParsePrefix("::/96").Contains(address) && !address.IsUnspecified() && !address.IsLoopback():
		return four(12)
	}
	return address
}

// check decides about an address to which a host has resolved.
func (r *Rules) check(host string, target netip.AddrPort) error {
	plain := embedded(target.Addr())
	denied := &DeniedError{Host: host, Address: target.Addr().Unmap().WithZone("").String()}
	if r.isRegistry(target) {
		return nil
	}
	if r.isOwn(netip.AddrPortFrom(plain, target.Port())) {
		denied.Own = true
		return denied
	}
	// A rule can deny a translation as a whole.
	if r.deny.name(host) || r.deny.address(plain) || r.deny.address(target.Addr().Unmap().WithZone("")) {
		denied.Denied = true
		return denied
	}
	if r.allow.name(host) || r.allow.address(plain) {
		return nil
	}
	if denied.Because = reserved(plain); denied.Because != "" {
		return denied
	}
	return nil
}

// isOwn reports whether the appliance listens at an address. A listener at an unspecified address
// is reached by every address of this machine.
func (r *Rules) isOwn(target netip.AddrPort) bool {
	if r.own == nil {
		return false
	}
	return slices.ContainsFunc(r.own(), func(listening net.Addr) bool {
		own, err := netip.ParseAddrPort(listening.String())
		if err != nil || own.Port() != target.Port() {
			return false
		}
		return own.Addr().Unmap() == target.Addr() || own.Addr().IsUnspecified() && isLocal(target.Addr()) ||
			target.Addr().IsUnspecified()
	})
}

// isRegistry reports whether a connection to an address certainly reaches the appliance's registry,
// and no other listener with the same port. A listener at 0.0.0.0 has no IPv6 addresses.
func (r *Rules) isRegistry(target netip.AddrPort) bool {
	if r.registry == nil {
		return false
	}
	listening := r.registry()
	if listening == nil {
		return false
	}
	own, err := netip.ParseAddrPort(listening.String())
	to := target.Addr().Unmap().WithZone("")
	if err != nil || own.Port() != target.Port() || to.IsUnspecified() {
		return false
	}
	if own.Addr().IsUnspecified() {
		return (own.Addr().Is6() || to.Is4()) && isLocal(to)
	}
	return own.Addr().Unmap() == to
}

// isLocal reports whether an address belongs to this machine.
func isLocal(address netip.Addr) bool {
	if address.IsLoopback() || address.IsUnspecified() {
		return true
	}
	local, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(local, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		return err == nil && prefix.Addr().Unmap() == address
	})
}

// dialTimeout limits the setup of a connection by [Rules.DialContext].
const dialTimeout = 30 * time.Second

// DialContext connects to an address, for [http.Transport]. If the rules deny the address, the
// error is a *[DeniedError].
func (r *Rules) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return r.Dialer(net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second})(ctx, network, address)
}

// Dialer returns a dial function with the time-outs of a dialer. It sets the dialer's Control.
func (r *Rules) Dialer(dialer net.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	if r == nil {
		return dialer.DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if r.configured[strings.ToLower(address)] || isProxy(ctx, address) {
			return dialer.DialContext(ctx, network, address)
		}
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		checked := dialer
		checked.ControlContext = func(_ context.Context, _, resolved string, _ syscall.RawConn) error {
			target, err := netip.ParseAddrPort(resolved)
			if err != nil {
				return fmt.Errorf("read the address of %s: %w", host, err)
			}
			return r.check(host, target)
		}
		conn, err := checked.DialContext(ctx, network, address)
		if denied, ok := errors.AsType[*DeniedError](err); ok {
			return nil, denied // without "dial tcp 127.0.0.1:80"
		}
		return conn, err
	}
}

// CheckURL checks the host of a URL before it is stored. It does not resolve names: it only checks
// the lists' names, and hosts that are addresses.
func (r *Rules) CheckURL(raw string) error {
	target, err := url.Parse(raw)
	if r == nil || err != nil || target.Host == "" {
		return err
	}
	port := portOf(target)
	if r.configured[strings.ToLower(net.JoinHostPort(target.Hostname(), strconv.Itoa(int(port))))] {
		return nil
	}
	if address, err := netip.ParseAddr(target.Hostname()); err == nil {
		return r.check(target.Hostname(), netip.AddrPortFrom(address, port))
	}
	if r.deny.name(target.Hostname()) {
		return &DeniedError{Host: target.Hostname(), Denied: true}
	}
	return nil
}

func portOf(target *url.URL) uint16 {
	if port, err := strconv.ParseUint(target.Port(), 10, 16); err == nil {
		return uint16(port)
	}
	if target.Scheme == "http" {
		return 80
	}
	return 443
}

// CheckAddress checks an address to which packets other than TCP are sent.
func (r *Rules) CheckAddress(address netip.Addr) error {
	if r == nil {
		return nil
	}
	return r.check(address.String(), netip.AddrPortFrom(address, 0))
}

// Transport returns a transport that checks each request, and each redirect of an [http.Client]. It
// takes over the given transport. If transport.Proxy selects a proxy for a request, the connection
// to the proxy is not checked, because the proxy is the configuration's. The request's own host is
// checked instead; a name that this machine cannot resolve is left to the proxy.
func (r *Rules) Transport(transport *http.Transport, dialer net.Dialer) http.RoundTripper {
	transport.DialContext = r.Dialer(dialer)
	if r == nil || transport.Proxy == nil {
		return transport
	}
	chosen := transport.Proxy
	transport.Proxy = func(request *http.Request) (*url.URL, error) {
		if proxy, ok := request.Context().Value(proxyKey{}).(*url.URL); ok {
			return proxy, nil
		}
		return nil, nil
	}
	return &throughProxy{rules: r, proxy: chosen, transport: transport}
}

// throughProxy sends requests through the proxy that the function selects.
type throughProxy struct {
	rules     *Rules
	proxy     func(*http.Request) (*url.URL, error)
	transport *http.Transport
}

type proxyKey struct{} // the context's value is the *url.URL of the proxy

// RoundTrip implements http.RoundTripper.
func (t *throughProxy) RoundTrip(request *http.Request) (*http.Response, error) {
	proxy, err := t.proxy(request)
	if err == nil && proxy != nil {
		if err = t.rules.checkResolved(request.Context(), request.URL); err == nil {
			request = request.WithContext(context.WithValue(request.Context(), proxyKey{}, proxy))
		}
	}
	if err != nil {
		if request.Body != nil {
			err = errors.Join(err, request.Body.Close())
		}
		return nil, err
	}
	return t.transport.RoundTrip(request)
}

// CloseIdleConnections closes idle connections.
func (t *throughProxy) CloseIdleConnections() { t.transport.CloseIdleConnections() }

// checkResolved checks all addresses of a URL's host.
func (r *Rules) checkResolved(ctx context.Context, target *url.URL) error {
	if err := r.CheckURL(target.String()); err != nil {
		return err
	}
	port, host := portOf(target), target.Hostname()
	if r.configured[strings.ToLower(net.JoinHostPort(host, strconv.Itoa(int(port))))] {
		return nil
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil // only the proxy can resolve the name
	}
	for _, address := range addresses {
		if err := r.check(host, netip.AddrPortFrom(address, port)); err != nil {
			return err
		}
	}
	return nil
}

// isProxy reports whether address is the proxy of the request with this context.
func isProxy(ctx context.Context, address string) bool {
	proxy, ok := ctx.Value(proxyKey{}).(*url.URL)
	if !ok {
		return false
	}
	port := proxy.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[proxy.Scheme]
	}
	return net.JoinHostPort(proxy.Hostname(), port) == address
}
