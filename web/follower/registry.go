package follower

import (
	"github.com/labstack/echo/v4"

	"landfall/appliance/access/limit"
	"landfall/appliance/fleet"
	"landfall/appliance/registry/supply"
	"landfall/web"
	"landfall/web/operation"
	webregistry "landfall/web/registry"
)

// newLogins returns the logins of the registry, with the accounts and tokens of the copy. A client
// that is refused here is asked again by the leader, which counts failed attempts of all members.
func (r *Reader) newLogins() (*webregistry.Logins, error) {
	password, err := supply.Password(r.Key)
	if err != nil {
		return nil, err
	}
	return webregistry.NewLogins(webregistry.LoginOptions{PullPassword: password, People: &r.credentials,
		Tokens: &r.credentials, Limiter: limit.New(r.Clock), Clock: r.Clock}), nil
}

// newRegistry returns the server of the registry, or nil if the configuration has none. Pushes, and
// pulls of what this member does not have, go to the leader.
func (r *Reader) newRegistry(wrap func(operation.Operation) echo.HandlerFunc) (*web.Server, error) {
	if r.registry == nil {
		return nil, nil
	}
	options := web.Options{Logger: r.Logger, Wrap: wrap, Stamp: fleet.Stamp(r.DB)}
	if r.Config.Registry.TLS {
		options.TLS = &web.TLS{Plain: web.PlainFromMachine}
	}
	server := web.New(options)
	return server, server.Register(webregistry.Operations(webregistry.Options{Registry: r.registry,
		Anonymous: r.Config.Registry.AnonymousPull, Login: r.logins.Check, Leader: r.forward, Logger: r.Logger})...)
}

// TakeBlob returns what stores a blob of pushed images that the leader sends, or nil without a
// registry.
func (r *Reader) TakeBlob() fleet.Take {
	if r.registry == nil {
		return nil
	}
	return r.registry.Overlay.Take
}
