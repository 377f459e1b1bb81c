package appliance

import (
	"context"
	"errors"
	"net"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine"
	"landfall/appliance/mirror"
	"landfall/appliance/registry"
	"landfall/appliance/registry/absence"
	"landfall/appliance/registry/handover"
	"landfall/appliance/registry/supply"
	"landfall/web"
	"landfall/web/recording"
	webregistry "landfall/web/registry"
)

// openRegistry opens the appliance's registry. It returns nil if the configuration has none.
func (a *Appliance) openRegistry(ctx context.Context) (*webregistry.Server, error) {
	settings := a.config.Registry
	if err := settings.Check(a.config.TLS); err != nil || settings.Listen == "" {
		return nil, err
	}
	options := web.Options{Logger: a.log, ShutdownTimeout: a.config.Timeouts.Shutdown, Connections: a.inbound,
		Wrap: a.wrap(false), Stamp: a.fleet.Stamp(a.db), Front: a.fleet.Count()}
	if settings.TLS {
		options.TLS = a.line(web.PlainFromMachine, nil)
	}
	password, err := supply.Password(a.siteKey)
	if err != nil {
		return nil, err
	}
	handedOver, err := handover.Place(a.db, a.transport.Roots())
	if err != nil {
		return nil, err
	}
	return webregistry.Open(ctx, webregistry.ServerOptions{
		Anonymous: settings.AnonymousPull, Logins: webregistry.NewLogins(webregistry.LoginOptions{
			PullPassword: password,
			People:       a.clients.people, Tokens: a.clients.tokens, Limiter: a.clients.limiter, Clock: a.clock}),
		Listen: settings.Listen, Name: settings.Name, URL: a.urls[0], Web: options,
		Roots: a.transport.Roots(), HandedOver: handedOver, Admit: recording.Admit,
		LeftOut: supply.NewLeftOut(a.db, func(ctx context.Context, e *models.Event) error {
			return a.engine.ReportEvent(ctx, e)
		}, a.log).Report,
		Registry: a.config.RegistryOptions(a.db, a.fleet.PushedImages(), a.clock, a.log),
	})
}

// registryAddress returns the address at which the registry listens, or nil without a registry.
func (a *Appliance) registryAddress() net.Addr { return a.registry.Addr() }

// carriedReleases returns the releases on media that may be used, for the settings.
func (a *Appliance) carriedReleases() []engine.ReleaseImage {
	if a.registry == nil || a.policy == nil {
		return nil
	}
	return supply.Releases(a.registry.Releases(), a.policy.Known, a.log)
}

// registryTasks returns what runs while the appliance runs, if it has a registry.
func (a *Appliance) registryTasks() []task {
	if a.registry == nil {
		return nil
	}
	return append(a.registry.Tasks(), a.handover.Run, a.absences.Run, func(ctx context.Context) error {
		// The live ISOs are read by the mirror rules.
		return a.mirror.FollowRegistry(ctx, func() {
			supply.TakeLiveISOs(a.carriedReleases(), a.registry.Architectures, a.images, a.log)
		})
	})
}

// completeSecret returns a pull secret with the credentials for the registry.
func (a *Appliance) completeSecret(secret string) (string, error) {
	secret, err := supply.Complete(secret, a.registry.Host(), a.siteKey)
	completed, failed := a.handover.Complete(secret)
	return completed, errors.Join(err, failed)
}

// openHandOver opens the service that hands the registry over to one of the site, and the log of
// the registry's absences. Both are nil without a registry.
func (a *Appliance) openHandOver(ctx context.Context) error {
	if a.registry == nil {
		return nil
	}
	secrets, err := a.siteKey.Box(handover.SecretsPurpose, nil)
	if err != nil {
		return err
	}
	a.handover = handover.New(handover.Options{DB: a.db, Source: a.registry, Secrets: secrets,
		Roots: a.transport.Roots(), Dependents: a.Dependents,
		Installs: a.engine.InstallSource, Rules: a.rules.At, Prove: a.proofs.ProveWith,
		Connect: a.spokes.Open, Client: mirror.ClientOptions{UserAgent: "landfall/" + a.version, Egress: a.egress},
		Clock: a.clock, Logger: a.log})
	a.absences = absence.Open(ctx, a.db, a.clock, a.registry.Host(), a.Dependents, a.log)
	return nil
}

// Dependents returns the clusters whose nodes pull from the appliance's registry.
func (a *Appliance) Dependents() ([]registry.Dependent, error) {
	return supply.Dependents(a.db, a.rules.At, a.registry.Host(), a.handover.Independent)
}

// completeStatus adds to the status of the registry what the site knows.
func (a *Appliance) completeStatus(status *registry.Status) (err error) {
	if status.Dependents, err = a.Dependents(); err != nil {
		return err
	}
	return errors.Join(a.absences.NoteMisled(status), a.handover.Note(status), supply.NameClients(a.db, status.Clients))
}
