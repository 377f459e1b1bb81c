package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// Network is one of the site's networks, with the URLs of the appliance in it.
type Network struct {
	URL  string // of the page and the APIs, without a trailing slash
	Boot string // of images and boot files: plain HTTP on the boot listener, or the same as URL without a boot listener
}

// Networks are the networks in which the appliance is reachable, the preferred one first. The list
// is never empty.
type Networks []Network

// NewNetworks returns the networks of the appliance's URLs. boot is nil if there is no boot
// listener.
func NewNetworks(urls []string, boot *BootListener) (Networks, error) {
	var networks Networks
	for _, address := range urls {
		network := Network{URL: address, Boot: address}
		if boot != nil {
			parsed, err := url.Parse(address)
			if err != nil {
				return nil, fmt.Errorf("read the URL %s: %w", address, err)
			}
			network.Boot = "http://" + net.JoinHostPort(parsed.Hostname(), boot.port)
		}
		networks = append(networks, network)
	}
	return networks, nil
}

// Index returns the index of a request's network by its Host header: the network with this host and
// port, or the one with this host, or the preferred network. The client can then reach the URLs in
// the response.
func (n Networks) Index(host string) int {
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

// authority returns the part of a URL between "//" and the path.
func authority(address string) string {
	_, rest, _ := strings.Cut(address, "//")
	host, _, _ := strings.Cut(rest, "/")
	return host
}

func hostname(authority string) string {
	u := url.URL{Host: authority}
	return u.Hostname()
}

// BootListener listens for requests for images and boot files over plain HTTP. It is for machines
// and management controllers that do not support HTTPS, or whose network has no access to the other
// parts of the appliance.
type BootListener struct {
	listener net.Listener // nil after Serve
	address  net.Addr
	port     string
}

// ListenForBoot opens the listener with the given function. It returns nil without an address.
func ListenForBoot(ctx context.Context, address string,
	listen func(context.Context, string) (net.Listener, error)) (*BootListener, error) {
	if address == "" {
		return nil, nil
	}
	listener, err := listen(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("%s", strings.ReplaceAll(err.Error(), "--listen", "--boot-listen")+
			"; --boot-listen none disables this listener")
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return &BootListener{listener: listener, address: listener.Addr(), port: port}, nil
}

// Addr returns the listener's address, also after Serve.
func (b *BootListener) Addr() net.Addr { return b.address }

// Port returns the listener's port.
func (b *BootListener) Port() string { return b.port }

// Serve passes the listener to a server, which closes it.
func (b *BootListener) Serve(ctx context.Context, serve func(context.Context, net.Listener) error) error {
	listener := b.listener
	b.listener = nil
	return serve(ctx, listener)
}

// Close closes the listener if it was never served.
func (b *BootListener) Close() error {
	if b == nil || b.listener == nil {
		return nil
	}
	return b.listener.Close()
}

// ImageURLs returns the beginnings of the URLs of an infra-env's images: those with a path, and
// those with the code of its short URL. A code "" has none.
func (n Networks) ImageURLs(path, code string) []string {
	var urls []string
	for _, network := range n {
		urls = append(urls, network.URL+path)
		if code != "" {
			urls = append(urls, network.codeURL(code, ""))
		}
	}
	return urls
}
