package appliance

import (
	"context"

	"landfall/appliance/registry"
	"landfall/web"
	webregistry "landfall/web/registry"
)

// openRegistry opens the appliance's registry. It returns nil if the configuration has none.
func (a *Appliance) openRegistry(ctx context.Context) (*webregistry.Server, error) {
	settings := a.config.Registry
	if err := settings.Check(a.config.TLS); err != nil || settings.Listen == "" {
		return nil, err
	}
	options := web.Options{Logger: a.log, ShutdownTimeout: a.config.Timeouts.Shutdown, Connections: a.inbound,
		Wrap: a.wrap(false)}
	if settings.TLS {
		options.TLS = a.line(web.PlainFromMachine, nil)
	}
	return webregistry.Open(ctx, webregistry.ServerOptions{
		Listen: settings.Listen, Name: settings.Name, URL: a.urls[0], Web: options,
		Registry: registry.Options{DB: a.db, Media: settings.Media, Clock: a.clock, Logger: a.log},
	})
}
