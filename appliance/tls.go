package appliance

import (
	"context"
	"net"
	"net/http"

	"landfall/appliance/config"
	"landfall/appliance/fleet"
	"landfall/appliance/transport"
	"landfall/web"
)

// openTransport makes the certificates of the listeners.
func (a *Appliance) openTransport() (*transport.Transport, error) {
	names := append(config.Hosts(a.urls), a.config.Registry.Names()...)
	return transport.Open(transport.Options{TLS: a.config.TLS, Dir: a.config.DataDir, Key: a.siteKey, Names: names,
		Clock: a.clock, Logger: a.log, Stored: a.fleet.KeepKeys(a.db)})
}

// towardsBoot returns the URL on the boot listener of a request for an image or a boot file.
// Machines with older URLs thus continue to boot.
func (a *Appliance) towardsBoot(r *http.Request) string {
	if a.bootServer == nil || !a.bootServer.Serves(r) {
		return ""
	}
	return web.AtPort(r, "http", a.boot.Port())
}

// towardsMain returns the URL on the main listener of a request that the boot listener does not
// serve.
func (a *Appliance) towardsMain(r *http.Request) string {
	_, port, err := net.SplitHostPort(a.address.String())
	if err != nil {
		return ""
	}
	return web.AtPort(r, "https", port)
}

// listenForBoot opens the boot listener. If the default port is taken and the configuration names
// no other one, it uses any free port, so that several appliances can run on one machine.
func (a *Appliance) listenForBoot(ctx context.Context, address string) (net.Listener, error) {
	listener, err := a.inbound.Listen(ctx, address)
	if err == nil || a.config.BootListen != "" {
		return listener, err
	}
	host, _, splitErr := net.SplitHostPort(address)
	if splitErr != nil {
		return nil, err
	}
	listener, otherErr := a.inbound.Listen(ctx, net.JoinHostPort(host, "0"))
	if otherErr != nil {
		return nil, err
	}
	a.log.Warn("The default port of the boot listener is taken, so another one is used until the next start. Set "+
		"boot_listen in the configuration.", "wanted", address, "used", listener.Addr().String())
	return listener, nil
}

// at returns the handler of another listener than the main one, or nil.
func (a *Appliance) at(other fleet.Listener) http.Handler {
	switch {
	case other == fleet.Boot && a.bootServer != nil:
		return a.bootServer
	case other == fleet.Registry:
		return a.registry.Handler()
	case other == fleet.Kubernetes && a.kubeServer != nil && a.kubeServer.web != nil:
		return a.kubeServer.web
	}
	return nil
}
