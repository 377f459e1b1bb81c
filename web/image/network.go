package image

import (
	"net/http"
	"net/url"
	"strings"
)

// Network is how the appliance is reached from one of the site's networks.
type Network struct {
	URL  string // of the page and the APIs, without a slash at its end
	Boot string // of images and boot files; plain http on a listener of its own if there is one, else the same
}

// Networks are the configured ways to reach the appliance, the preferred one first; there is at
// least one.
type Networks []Network

// Of returns the network that a request came from: the one that it names in its Host header, with
// the port or else without, and the preferred one if it names none. What a machine is told to fetch
// next is then something it can reach.
func (n Networks) Of(r *http.Request) Network { return n[n.index(r.Host)] }

func (n Networks) index(host string) int {
	if len(n) == 1 {
		return 0
	}
	for i, network := range n {
		if strings.EqualFold(authority(network.URL), host) || strings.EqualFold(authority(network.Boot), host) {
			return i
		}
	}
	name := hostname(host)
	for i, network := range n {
		if strings.EqualFold(hostname(authority(network.URL)), name) {
			return i
		}
	}
	return 0
}

// authority is the part of a URL between "//" and the path.
func authority(address string) string {
	_, rest, _ := strings.Cut(address, "//")
	host, _, _ := strings.Cut(rest, "/")
	return host
}

func hostname(authority string) string {
	u := url.URL{Host: authority}
	return u.Hostname()
}
