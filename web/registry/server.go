package registry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"landfall/appliance/mirror"
	"landfall/appliance/registry"
	"landfall/appliance/registry/traffic"
	"landfall/appliance/release/trust"
	"landfall/store"
	"landfall/web"
)

// ServerOptions configures [Open].
type ServerOptions struct {
	Listen string // host:port
	// Name is the name or address under which nodes reach the registry; "" for that of the
	// listener, or of URL if the listener has none.
	Name     string
	URL      string // of the appliance for hosts
	Roots    []byte // PEM; verifies the certificate of the listener
	Web      web.Options
	Registry registry.Options
	// Anonymous lets everybody pull.
	Anonymous bool
	Logins    *Logins
	// Admit is that of [Options].
	Admit func(ctx context.Context) error
	// LeftOut is that of [Options].
	LeftOut func(ctx context.Context, client string, image *registry.LeftOutError)
	// HandedOver is the registry to which this one was handed over, or nil.
	HandedOver *registry.Place
}

// Server is the appliance's registry with its listener.
type Server struct {
	*registry.Registry
	listener net.Listener // nil after Serve
	address  net.Addr
	place    registry.Place
	web      *web.Server
	handed   atomic.Pointer[registry.Place] // the registry to which this one was handed over, or nil
}

// Open opens the listener and the registry.
func Open(ctx context.Context, options ServerOptions) (_ *Server, err error) {
	s := new(Server)
	if s.listener, err = options.Web.Connections.Listen(ctx, options.Listen); err != nil {
		return nil, fmt.Errorf("%s", strings.ReplaceAll(err.Error(), "--listen", "--registry-listen"))
	}
	s.address = s.listener.Addr()
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.place.Host, err = hostOf(options, s.address); err != nil {
		return nil, err
	}
	s.handed.Store(options.HandedOver)
	s.place.CA, s.place.Plain = options.Roots, options.Web.TLS == nil
	if s.Registry, err = registry.Open(ctx, options.Registry); err != nil {
		return nil, err
	}
	s.web = web.New(options.Web)
	options.Web.Logger.Info("The registry is served.", "name", s.place.Host)
	return s, s.web.Register(Operations(Options{Registry: s.Registry, Logger: options.Web.Logger,
		Anonymous: options.Anonymous, Login: options.Logins.Check, Admit: options.Admit,
		LeftOut: options.LeftOut})...)
}

// hostOf returns the name and the port under which nodes reach the registry.
func hostOf(options ServerOptions, listening net.Addr) (string, error) {
	host, port, err := net.SplitHostPort(listening.String())
	if err != nil {
		return "", fmt.Errorf("read the address of the registry: %w", err)
	}
	if address, err := netip.ParseAddr(host); err == nil && address.IsUnspecified() {
		parsed, err := url.Parse(options.URL)
		if err != nil {
			return "", fmt.Errorf("read the URL of the appliance: %w", err)
		}
		host = parsed.Hostname()
	}
	if options.Name != "" {
		host = options.Name
	}
	return net.JoinHostPort(host, port), nil
}

// Handler returns the handler of the requests at the listener. A nil server has none.
func (s *Server) Handler() http.Handler {
	if s == nil {
		return nil
	}
	return s.web
}

// Host returns the name and the port under which nodes reach the registry, or "" without a
// registry.
func (s *Server) Host() string {
	if s == nil {
		return ""
	}
	return s.place.Host
}

// Status returns the state of the registry.
func (s *Server) Status() registry.Status {
	status := s.Registry.Status()
	status.Host = s.place.Host
	return status
}

// HandOver makes the registry at a place that of the mirror rules, because it has the content now.
// nil makes this registry that again.
func (s *Server) HandOver(to *registry.Place) {
	s.handed.Store(to)
	s.Announce()
}

// Rules returns the mirror rules for the content of the registry. A nil server has none.
func (s *Server) Rules() (mirror.Sources, error) {
	if s == nil {
		return mirror.Sources{}, nil
	}
	if to := s.handed.Load(); to != nil {
		return s.Registry.Rules(*to)
	}
	return s.Registry.Rules(s.place)
}

// Changed returns a channel that is closed at the next change of the content, or nil for a nil
// server.
func (s *Server) Changed() <-chan struct{} {
	if s == nil {
		return nil
	}
	return s.Registry.Changed()
}

// Local returns the address of the listener for the name of the registry, and "" for other names,
// or if the name leads to another registry now.
func (s *Server) Local(name string) string {
	if s == nil || name != s.place.Host || s.handed.Load() != nil {
		return ""
	}
	return s.address.String()
}

// Carried returns the releases on the media that an administrator named, by digest.
func (s *Server) Carried() (map[string]trust.Carried, error) {
	if s == nil {
		return nil, nil
	}
	named, err := s.Named()
	carried := make(map[string]trust.Carried, len(named))
	for digest, release := range named {
		carried[digest] = trust.Carried{Path: release.Path, Allowed: trust.Allowed{Digest: digest,
			PullSpec: release.PullSpec, By: release.By, At: release.At}}
	}
	return carried, err
}

// Forget removes the permission of a release that an administrator named with its medium. It
// reports whether there was one.
func (s *Server) Forget(tx *store.Tx, digest string) (found bool, err error) {
	if s == nil {
		return false, nil
	}
	return s.Registry.Forget(tx, digest)
}

// Addr returns the address of the listener, or nil without a registry.
func (s *Server) Addr() net.Addr {
	if s == nil {
		return nil
	}
	return s.address
}

// Metrics returns the metrics of the registry. A nil server has no values for them.
func (s *Server) Metrics() prometheus.Collector {
	if s == nil {
		return traffic.Collector(nil)
	}
	return traffic.Collector(s.Traffic)
}

// Tasks returns what runs while the appliance runs. A nil server has no tasks.
func (s *Server) Tasks() []func(context.Context) error {
	if s == nil {
		return nil
	}
	return []func(context.Context) error{s.Run, s.Overlay.Run, func(ctx context.Context) error {
		listener := s.listener
		s.listener = nil // the server closes it
		return s.web.Serve(ctx, listener)
	}}
}

// Close closes the media, and the listener if it was never served.
func (s *Server) Close() error {
	if s == nil {
		return nil
	}
	var errs []error
	if s.listener != nil {
		errs = append(errs, s.listener.Close())
	}
	if s.Registry != nil {
		errs = append(errs, s.Registry.Close())
	}
	return errors.Join(errs...)
}

// Newest returns the newest time on the known media, and the name of the medium. A nil server has
// none.
func (s *Server) Newest() (label string, at time.Time) {
	if s == nil {
		return "", time.Time{}
	}
	return s.Registry.Newest()
}
