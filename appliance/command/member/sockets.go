package member

import (
	"context"
	"errors"
	"net"

	"landfall/appliance/access/certificate"
	"landfall/appliance/config"
	"landfall/appliance/fleet"
	"landfall/appliance/process"
	"landfall/appliance/servicemanager"
	"landfall/web"

	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// sockets are the open sockets of a member: that of the main listener, and those of the boot
// listener, the registry and the Kubernetes API if the configuration has them.
type sockets struct {
	listeners *fleet.Listeners
	kinds     []fleet.Listener
	addresses []string // of each kind
	main      net.Addr
	inbound   *web.Connections
}

// listen opens the sockets, and writes their addresses into the configuration, so that each role
// listens there again.
func listen(ctx context.Context, c *config.Config) (*sockets, error) {
	if err := c.CheckListeners(); err != nil {
		return nil, err
	}
	given, err := servicemanager.Listeners()
	if err != nil {
		return nil, err
	}
	opening := func(ctx context.Context, address string) (net.Listener, error) {
		for i, listener := range given {
			if listener != nil && samePort(listener, address) {
				given[i] = nil
				return listener, nil
			}
		}
		listener, err := web.Listen(ctx, address)
		flags := map[string]string{c.Registry.Listen: "--registry-listen", c.Kubernetes.Listen: "--kubernetes-listen"}
		if flag := flags[address]; err != nil && flag != "" {
			err = errors.New(strings.ReplaceAll(err.Error(), "--listen", flag))
		}
		return listener, err
	}
	s := &sockets{inbound: web.NewConnections(process.Descriptors())}
	configured := []*string{&c.Listen}
	s.kinds = []fleet.Listener{fleet.Main}
	if boot := c.BootAddress(); boot != "" {
		c.BootListen = boot
		configured, s.kinds = append(configured, &c.BootListen), append(s.kinds, fleet.Boot)
	}
	if c.Registry.Listen != "" {
		configured, s.kinds = append(configured, &c.Registry.Listen), append(s.kinds, fleet.Registry)
	}
	if c.Kubernetes.Enabled && c.Kubernetes.Listen != "" {
		configured, s.kinds = append(configured, &c.Kubernetes.Listen), append(s.kinds, fleet.Kubernetes)
	}
	for _, address := range configured {
		s.addresses = append(s.addresses, *address)
	}
	if s.listeners, err = fleet.Listen(ctx, opening, s.addresses...); err != nil {
		return nil, err
	}
	for i, address := range configured {
		*address = s.listeners.Addr(s.addresses[i]).String()
	}
	s.main = s.listeners.Addr(s.addresses[0])
	return s, nil
}

func samePort(listener net.Listener, address string) bool {
	_, port, err := net.SplitHostPort(address)
	tcp, ok := listener.Addr().(*net.TCPAddr)
	return err == nil && ok && strconv.Itoa(tcp.Port) == port
}

// take returns listeners on the sockets for one role.
func (s *sockets) take() ([]net.Listener, error) { return s.listeners.Take(s.addresses...) }

// localURL returns the URL for programs on this machine.
func (s *sockets) localURL() string {
	host, port, err := net.SplitHostPort(s.main.String())
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return (&url.URL{Scheme: "http", Host: net.JoinHostPort(host, port)}).String()
}

// bootPort returns the port of the boot listener, or "".
func (s *sockets) bootPort() string {
	i := slices.Index(s.kinds, fleet.Boot)
	if i < 0 {
		return ""
	}
	_, port, err := net.SplitHostPort(s.listeners.Addr(s.addresses[i]).String())
	if err != nil {
		return ""
	}
	return port
}

// serve returns the functions that serve as a follower until the context ends.
func (s *sockets) serve(ctx context.Context, m *member, behind *fleet.Behind) ([]func() error, error) {
	verifier, err := certificate.New(m.Config.TLS.ClientCertificates(m.clock, m.Logger))
	if err != nil {
		return nil, err
	}
	taken, err := s.take()
	if err != nil {
		return nil, err
	}
	plain := m.transport.Certificates().Config()
	var servers []func() error
	for i, listener := range taken {
		at := s.kinds[i]
		line := &web.TLS{Config: plain, Plain: web.PlainForAll}
		switch {
		case at == fleet.Main:
			line.Config = m.credential.Listener(verifier.Ask(plain))
		case at == fleet.Kubernetes:
			line.Config = verifier.Ask(plain)
		case at == fleet.Registry && !m.Config.Registry.TLS:
			line = nil
		}
		server := web.New(web.Options{Logger: m.Logger, ShutdownTimeout: m.Config.Timeouts.Shutdown, TLS: line,
			Front: func(http.Handler) http.Handler { return behind.Handler(at) }})
		servers = append(servers, func() error {
			return server.Serve(ctx, web.LimitConnections(listener, s.inbound))
		})
	}
	return servers, nil
}
