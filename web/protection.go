package web

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"landfall/appliance/fleet/forwarding"
	"landfall/web/problem"
)

// Hosts are the names under which clients may address the server. IP addresses are always
// permitted.
//
// The list prevents DNS rebinding: a foreign page lets its own name resolve to the appliance's
// address, and a browser then sends the page's requests to the appliance. Such requests have the
// foreign name in their Host header.
type Hosts map[string]bool

// NewHosts returns a list with localhost and the names, which may be URLs. Empty names are ignored.
func NewHosts(names ...string) Hosts {
	hosts := Hosts{"localhost": true}
	for _, name := range names {
		if parsed, err := url.Parse(name); err == nil && parsed.Host != "" {
			name = parsed.Hostname()
		}
		if name != "" {
			hosts[canonicalHost(name)] = true
		}
	}
	return hosts
}

// Allow reports whether a Host header is permitted. A nil list permits all.
func (h Hosts) Allow(header string) bool {
	if h == nil {
		return true
	}
	name := header
	if host, _, err := net.SplitHostPort(header); err == nil {
		name = host
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return h[canonicalHost(name)]
}

func canonicalHost(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// setHeaders sets the headers that protect a response in browsers. Handlers of pages replace the
// content security policy, which permits nothing.
func setHeaders(header http.Header, r *http.Request) {
	header["X-Content-Type-Options"] = headerNoSniff
	header["Referrer-Policy"] = headerNoReferrer
	header["Cross-Origin-Resource-Policy"] = headerSameOrigin
	header["Content-Security-Policy"] = headerNoContent
	if r.TLS != nil {
		header["Strict-Transport-Security"] = headerTransport
	}
}

// Values of headers. Nothing changes them.
var (
	headerNoSniff    = []string{"nosniff"}
	headerNoReferrer = []string{"no-referrer"}
	headerSameOrigin = []string{"same-origin"}
	headerNoContent  = []string{"default-src 'none'; frame-ancestors 'none'"}
	headerTransport  = []string{"max-age=31536000"}
)

// checkOrigin returns an error for a request that a page of another origin sent. Programs that are
// not browsers send none of the headers that it checks, and are permitted. Links from other sites
// to the appliance's page are permitted, too.
func (s *Server) checkOrigin(r *http.Request) error {
	if !s.options.Hosts.Allow(r.Host) && !forwarding.Of(r.Context()).Addressed {
		return problem.New(http.StatusMisdirectedRequest, "this appliance is not addressed as %q; use one of its IP "+
			"addresses, or add the name to allowed_hosts in the configuration", r.Host)
	}
	err := s.origins.Check(r)
	if site := r.Header.Get("Sec-Fetch-Site"); err == nil && (site == "cross-site" || site == "same-site") &&
		r.Header.Get("Sec-Fetch-Mode") != "navigate" {
		err = errForeign
	}
	if origin := r.Header.Get("Origin"); err == nil && origin != "" && !sameHost(origin, r.Host) {
		err = errForeign
	}
	if err != nil {
		return problem.Forbidden("a page of another site sent this request; open the appliance's own page, or use a " +
			"program that is not a browser")
	}
	return nil
}

var errForeign = errors.New("the request comes from another origin")

func sameHost(origin, host string) bool {
	parsed, err := url.Parse(origin)
	return err == nil && strings.EqualFold(parsed.Host, host)
}
