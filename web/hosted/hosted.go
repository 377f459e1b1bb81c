// Package hosted composes the APIs of hosted clusters for the listeners of an appliance.
//
// Design: docs/design.md#hosted-control-planes.
package hosted

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"landfall/appliance/hosted"
	"landfall/appliance/hosted/arm"
	"landfall/web"
	"landfall/web/clustersservice"
	"landfall/web/maestro"
	"landfall/web/operation"
	"landfall/web/rp"
)

// Operations returns the operations of all APIs. clusters are those that can become management
// clusters.
func Operations(s *hosted.Service, clusters Clusters) []operation.Operation {
	return slices.Concat(rp.Operations(s.Provider), clustersservice.Operations(s.Provider), maestro.Operations(s),
		consoleOperations(s, clusters))
}

// Spelling gives the paths of the APIs their usual spelling.
func Spelling(path string) string { return arm.CanonicalPath(path) }

// Local serves the APIs on ports of the loopback, without authentication, for commands that expect
// forwarded ports.
type Local struct{ listeners []*localListener }

type localListener struct {
	listener net.Listener // nil after the server has taken it
	server   *web.Server
}

// Ports are the ports of the loopback for the resource provider, Clusters Service and Maestro.
type Ports struct{ Provider, ClustersService, Maestro string }

// UsualPorts are the ports that engineers' commands expect.
func UsualPorts() Ports { return Ports{"8443", "8001", "8002"} }

// Busy returns the first port that another program uses, or "".
func (p Ports) Busy(ctx context.Context) string {
	for _, port := range []string{p.Provider, p.ClustersService, p.Maestro} {
		listener, err := web.Listen(ctx, net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			return port
		}
		_ = listener.Close()
	}
	return ""
}

// Listen opens the ports of the loopback. The options are those of each server.
func Listen(ctx context.Context, s *hosted.Service, limit *web.Connections, ports Ports,
	options web.Options) (*Local, error) {
	l := new(Local)
	options.Spelling = Spelling
	for _, api := range []struct {
		port       string
		operations []operation.Operation
	}{
		{ports.Provider, slices.Concat(rp.Operations(s.Provider), rp.LocalOperations())},
		{ports.ClustersService, clustersservice.Operations(s.Provider)},
		{ports.Maestro, maestro.Operations(s)},
	} {
		listener, err := limit.Listen(ctx, net.JoinHostPort("127.0.0.1", api.port))
		if err != nil {
			return nil, errors.Join(portError(err), l.Close())
		}
		local := &localListener{listener, web.New(options)}
		l.listeners = append(l.listeners, local)
		if err := local.server.Register(api.operations...); err != nil {
			return nil, errors.Join(err, l.Close())
		}
		options.Logger.Warn("Every user of this machine can change hosted clusters on this port without "+
			"authentication. Set hosted.debug_listen: false to end that.", "port", api.port)
	}
	return l, nil
}

// portError returns the error of a port of the loopback, which has a setting of its own.
func portError(err error) error {
	return errors.New(strings.ReplaceAll(err.Error(), "choose another address with --listen",
		"set hosted.debug_listen to false"))
}

// Addresses returns the addresses of the resource provider, Clusters Service and Maestro. It must
// not be called after Run.
func (l *Local) Addresses() (all []net.Addr) {
	for _, local := range l.listeners {
		all = append(all, local.listener.Addr())
	}
	return all
}

// Run serves until the context ends.
func (l *Local) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, local := range l.listeners {
		listener := local.listener
		local.listener = nil // the server closes it
		group.Go(func() error { return local.server.Serve(ctx, listener) })
	}
	return group.Wait()
}

// Close closes the ports that Run has not taken.
func (l *Local) Close() error {
	if l == nil {
		return nil
	}
	var errs []error
	for _, local := range l.listeners {
		if local.listener != nil {
			errs = append(errs, local.listener.Close())
			local.listener = nil
		}
	}
	return errors.Join(errs...)
}
