package appliance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"landfall/appliance/registry"
	"landfall/web"
	webregistry "landfall/web/registry"
)

// ownRegistry is the appliance's registry and the server on its listener.
type ownRegistry struct {
	*registry.Registry
	listener net.Listener // nil after serve
	address  net.Addr
	host     string // name:port for nodes
	server   *web.Server
}

// openRegistry opens the registry. It returns nil if the configuration has none.
func (a *Appliance) openRegistry(ctx context.Context) (_ *ownRegistry, err error) {
	settings := a.config.Registry
	if err := settings.Check(a.config.TLS); err != nil || settings.Listen == "" {
		return nil, err
	}
	r := new(ownRegistry)
	if r.listener, err = a.inbound.Listen(ctx, settings.Listen); err != nil {
		return nil, fmt.Errorf("%s", strings.ReplaceAll(err.Error(), "--listen", "--registry-listen"))
	}
	r.address = r.listener.Addr()
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if r.host, err = settings.Host(a.urls[0], r.address); err != nil {
		return nil, err
	}
	if r.Registry, err = registry.Open(ctx, registry.Options{DB: a.db, Media: settings.Media, Clock: a.clock,
		Logger: a.log}); err != nil {
		return nil, err
	}
	options := web.Options{Logger: a.log, ShutdownTimeout: a.config.Timeouts.Shutdown, Connections: a.inbound,
		Wrap: a.wrap(false)}
	if settings.TLS {
		options.TLS = a.line(web.PlainFromMachine, nil)
	}
	r.server = web.New(options)
	a.log.Info("The registry is served.", "name", r.host)
	return r, r.server.Register(webregistry.Operations(webregistry.Options{Registry: r.Registry, Logger: a.log})...)
}

// tasks returns what runs while the appliance runs.
func (r *ownRegistry) tasks() []task {
	if r == nil {
		return nil
	}
	return []task{r.Run, func(ctx context.Context) error {
		listener := r.listener
		r.listener = nil // the server closes it
		return r.server.Serve(ctx, listener)
	}}
}

func (r *ownRegistry) close() error {
	if r == nil {
		return nil
	}
	var errs []error
	if r.listener != nil {
		errs = append(errs, r.listener.Close())
	}
	if r.Registry != nil {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}
