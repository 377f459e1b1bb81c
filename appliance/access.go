package appliance

import (
	"net/http"
	"os"
	"slices"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access/certificate"
	"landfall/appliance/access/ldap"
	"landfall/appliance/access/limit"
	"landfall/appliance/access/oidc"
	"landfall/appliance/access/passkey"
	"landfall/appliance/access/people"
	"landfall/appliance/access/tokens"
	"landfall/appliance/config"
	"landfall/appliance/discovery"
	"landfall/appliance/engine/record"
	"landfall/web"
	"landfall/web/access"
	"landfall/web/console"
	"landfall/web/operation"
	"landfall/web/recording"
)

// clients finds out who calls the appliance, and what they may do.
type clients struct {
	people  *people.People
	tokens  *tokens.Tokens
	links   *discovery.Links
	limiter *limit.Limiter
	hosts   web.Hosts

	oidc         *oidc.Provider  // nil without one in the configuration
	directory    *ldap.Directory // nil without one in the configuration
	passkeys     *passkey.Passkeys
	certificates *certificate.Verifier // nil without authorities in the configuration
}

// openClients reads the accounts and tokens. Without an account, it writes the setup code.
func (a *Appliance) openClients() (*clients, error) {
	clock := a.clock
	name, err := os.Hostname()
	if err != nil {
		name = "" // the machine is addressed by its other names
	}
	c := &clients{
		links: discovery.NewLinks(a.db, clock, a.urls[0]), limiter: limit.New(clock),
		hosts: web.NewHosts(slices.Concat([]string{name, a.fleet.OwnURL()}, a.urls, a.config.AllowedHosts)...),
	}
	if c.people, err = people.New(people.Options{DB: a.db, Clock: clock, Dir: a.config.DataDir, Logger: a.log,
		Unused: a.open(),
		Idle:   a.config.Sessions.Idle, Total: a.config.Sessions.Total}); err != nil {
		return nil, err
	}
	if c.tokens, err = tokens.New(tokens.Options{DB: a.db, Clock: clock, Logger: a.log}); err != nil {
		return nil, err
	}
	if a.config.OIDC.Enabled() {
		if c.oidc, err = oidc.New(a.config.OIDC.Options(clock)); err != nil {
			return nil, err
		}
	}
	if a.config.LDAP.Enabled() {
		if c.directory, err = ldap.New(a.config.LDAP.Options()); err != nil {
			return nil, err
		}
	}
	if c.certificates, err = certificate.New(a.config.TLS.ClientCertificates(clock, a.log)); err != nil {
		return nil, err
	}
	c.passkeys, err = passkey.New(clock)
	return c, err
}

// open reports whether clients need not authenticate.
func (a *Appliance) open() bool { return a.config.Auth == config.AuthNone }

// guard returns the guard of a listener. With linksOnly, the listener has no TLS and accepts no
// credentials of people and programs.
func (a *Appliance) guard(linksOnly bool, refused func(echo.Context, operation.Operation, int)) *access.Guard {
	options := access.Options{
		Sessions: a.clients.people, Tokens: a.clients.tokens, Agents: a.agents, Links: a.clients.links,
		Relations: record.Relations{DB: a.db}, Open: a.open(), LinksOnly: linksOnly, Refused: refused, Clock: a.clock,
	}
	if a.clients.oidc != nil {
		options.Bearers = access.NewBearers(a.clients.oidc, a.clients.people, a.clock, a.log)
	}
	if a.clients.certificates != nil {
		options.Certificates = a.clients.certificates
	}
	return access.New(options)
}

// line returns the TLS settings of a listener, or nil without TLS. A listener for people and
// programs asks for client certificates if there are authorities of them.
func (a *Appliance) line(plain web.Plain, moved func(*http.Request) string) *web.TLS {
	if a.transport == nil {
		return nil
	}
	line := &web.TLS{Config: a.transport.Certificates().Config(), Plain: plain, Moved: moved}
	if plain == web.PlainFromMachine {
		line.Config, line.Machines = a.fleet.Accept(a.clients.certificates.Ask(line.Config)), access.IsTokenless
	}
	return line
}

// accessOperations returns the operations on accounts, sessions and tokens.
func (a *Appliance) accessOperations() []operation.Operation {
	service := &access.Service{People: a.clients.people, Tokens: a.clients.tokens, Limiter: a.clients.limiter,
		Total: a.config.Sessions.Total, Open: a.open(), Objects: a.engine,
		Fingerprint: a.transport.Fingerprint(), Authority: a.transport.AuthorityPEM(),
		OIDC: a.clients.oidc, Passkeys: a.clients.passkeys, Member: a.fleet.Name()}
	if a.clients.directory != nil {
		service.Directory = a.clients.directory
	}
	return service.Operations()
}

// wrap returns the checks that precede the handlers of a listener: of the client's rights, then the
// record in the audit trail.
func (a *Appliance) wrap(linksOnly bool) func(operation.Operation) echo.HandlerFunc {
	recorder := recording.New(a.trail)
	guard := a.guard(linksOnly, recorder.Refused)
	return func(o operation.Operation) echo.HandlerFunc {
		o.Handler = recorder.Wrap(o)
		return a.meter.Wrap(o, console.RecordRefusals(a.refusals, o, guard.Wrap(o)))
	}
}

// wrapLocal is like wrap for the listeners on the loopback that do not authenticate. Each request
// is recorded in the audit trail.
func (a *Appliance) wrapLocal(o operation.Operation) echo.HandlerFunc {
	open := access.New(access.Options{Open: true, Clock: a.clock})
	o.Handler = recording.New(a.trail).Wrap(o)
	return open.Wrap(o)
}

// SetupCode returns the code that makes the first administrator, or "" if there is an account or
// clients need not authenticate.
func (a *Appliance) SetupCode() (string, error) {
	if a.open() {
		return "", nil
	}
	return a.clients.people.SetupCode()
}
