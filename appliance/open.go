package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/jonboulle/clockwork"

	"landfall/appliance/abi"
	"landfall/appliance/access/machine"
	"landfall/appliance/agents"
	"landfall/appliance/arrival"
	"landfall/appliance/backup"
	"landfall/appliance/bmc"
	"landfall/appliance/config"
	"landfall/appliance/dataversion"
	"landfall/appliance/discovery"
	"landfall/appliance/doctor"
	"landfall/appliance/engine"
	"landfall/appliance/engine/event"
	"landfall/appliance/engine/presence"
	"landfall/appliance/engine/validation"
	"landfall/appliance/fleet"
	"landfall/appliance/fleet/diagnosis"
	"landfall/appliance/fleet/membership"
	"landfall/appliance/hosted/provider"
	"landfall/appliance/integrity"
	"landfall/appliance/journal"
	"landfall/appliance/keyring"
	"landfall/appliance/kube/joining"
	"landfall/appliance/kube/projection"
	"landfall/appliance/mirror"
	"landfall/appliance/mirror/site"
	"landfall/appliance/osimage"
	"landfall/appliance/process"
	"landfall/appliance/progress"
	"landfall/appliance/release"
	"landfall/appliance/release/trust"
	"landfall/appliance/replica"
	"landfall/appliance/sandbox"
	"landfall/appliance/servicemanager"
	"landfall/appliance/sitekey"
	"landfall/appliance/siteservice"
	"landfall/appliance/storage"
	"landfall/appliance/tracing"
	"landfall/store"
	"landfall/web"
	"landfall/web/kube"
	"landfall/web/traffic"
)

// surroundings is what an appliance shares with others. The zero value is that of a single machine.
type surroundings struct {
	site  *Appliance         // of a rehearsal: its rules for outgoing requests and its registry are used
	fleet *fleet.Leading     // it leads this fleet
	takes membership.Service // its part in the fleet; nil: it is a single machine
}

// opening opens an appliance. It has what only the later steps need, besides the appliance.
type opening struct {
	*Appliance
	among    surroundings
	minimums func(version string) validation.Requirements
	disabled []validation.ID
	box      *sandbox.Sandbox
	prover   *site.Prover
	sealed   *sitekey.Box // encrypts the engine's secrets
	wake     func()       // makes the controllers try again what failed; nil without the Kubernetes API
}

// open opens an appliance with a clock.
func open(ctx context.Context, config config.Config, logger *slog.Logger, version string, clock clockwork.Clock,
	among surroundings) (*Appliance, error) {
	recent := journal.NewRecentLog(web.RequestID)
	o := &opening{among: among, Appliance: &Appliance{config: config, version: version, log: recent.Logger(logger),
		clock: clock, recent: recent, fleet: among.fleet, refusals: arrival.NewRefusals(clock),
		inbound: web.NewConnections(process.Descriptors()), meter: traffic.New(),
		usage: storage.NewUsage(config.DataDir, clock)}}
	for _, step := range []func(context.Context) error{
		o.listen, o.openData, o.openMirror, o.openEngine, o.openHosts, o.openSetup, o.openProtection, o.openServers,
	} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, o.Close())
		}
	}
	return o.Appliance, nil
}

// listen reads the rules for outgoing requests and listens on the addresses.
func (a *opening) listen(ctx context.Context) (err error) {
	if a.among.site == nil {
		if err := a.inbound.Adopt(a.fleet.Listeners(servicemanager.Listeners)); err != nil {
			return err
		}
	}
	configured, err := mirror.Load(a.config.MirrorFiles())
	if err != nil {
		return err
	}
	if of := a.among.site; of != nil {
		a.egress = of.egress
	} else if a.egress, err = a.config.Outgoing(configured, a.listening, a.registryAddress); err != nil {
		return err
	}
	if a.minimums, a.disabled, err = a.config.Validations.Read(); err != nil {
		return err
	}
	if err := errors.Join(a.config.TLS.Check(), a.config.Replica.Check(), a.config.CheckListeners()); err != nil {
		return err
	}
	if a.listener, err = a.inbound.Listen(ctx, a.config.Listen); err != nil {
		return err
	}
	a.address = a.listener.Addr()
	a.boot, err = discovery.ListenForBoot(ctx, a.config.BootAddress(), a.listenForBoot)
	return err
}

// openData opens the database, and what decides who may do what.
func (a *opening) openData(ctx context.Context) (err error) {
	a.keys = keyring.New(a.config.DataDir, a.config.Seal.Options(a.log))
	if a.db, err = (dataversion.Directory{Dir: a.config.DataDir, Keys: a.keys, Program: a.version, Clock: a.clock,
		Logger: a.log, Store: store.Options{
			Logger: a.log, Clock: a.clock,
			History:   journal.History(int64(a.config.Limits.JournalObjectBytes), int64(a.config.Limits.JournalBytes)),
			Versioned: kube.Bucket,
			// above all revisions that the database had before a restore from a backup
			Floor:  uint64(a.clock.Now().UnixMicro()),
			Keys:   a.keys.Open,
			Shared: a.fleet.SharedLog(), Elsewhere: a.fleet.Elsewhere(),
		}}).Open(ctx); err != nil {
		return err
	}
	a.pulse = presence.NewPulse(a.clock, a.config.Timeouts.HostDisconnected, a.db.StalledSince)
	if a.siteKey, err = sitekey.LoadSealed(a.config.DataDir, a.keys.Ring()); err != nil {
		return err
	}
	a.log.Info("Site key loaded. It signs the files that leave the appliance.", "fingerprint",
		a.siteKey.Public().Fingerprint())
	if err := a.openSettings(); err != nil {
		return err
	}
	if a.trail, err = a.openTrail(); err != nil {
		return err
	}
	if a.transport, err = a.openTransport(); err != nil {
		return err
	}
	a.clients, err = a.openClients()
	return err
}

// openMirror opens the registry, the mirror rules and the releases.
func (a *opening) openMirror(ctx context.Context) (err error) {
	if a.registry, err = a.openRegistry(ctx); err != nil {
		return err
	}
	siteRegistry := a.registry
	if of := a.among.site; of != nil {
		siteRegistry = of.registry
	}
	if a.rules, err = site.NewRules(site.RulesOptions{
		Files: a.config.MirrorFiles(), DB: a.db, Version: a.version, Egress: a.egress, Logger: a.log,
		Registry: siteRegistry,
	}); err != nil {
		return err
	}
	policy, err := a.config.ReleasePolicy()
	if err != nil {
		return err
	}
	policy.DB, policy.Media, policy.Signatures, policy.Signed = a.db, a.registry, a.rules.SignaturesOf, a.rules.Signed
	policy.Sigstore, policy.Resolve = a.rules.Sigstore, a.rules.Digest
	if a.policy, err = trust.New(policy); err != nil {
		return err
	}
	cache := filepath.Join(a.config.DataDir, "installers")
	if a.box, err = sandbox.New(sandbox.Options{User: a.config.Installer.User, Network: a.config.Installer.Network,
		Dir: filepath.Join(cache, "work"), Logger: a.log}); err != nil {
		return err
	}
	if a.releases, err = release.New(release.Options{
		Mirror: a.rules.Client(), CacheDir: cache, CacheLimit: int64(a.config.Limits.InstallerCacheBytes),
		CommandTimeout: a.config.Timeouts.Installer, Logger: a.log, Policy: a.policy, Sandbox: a.box,
	}); err != nil {
		return err
	}
	a.prover = site.NewProver(site.ProverOptions{Rules: a.rules, Releases: a.releases, DB: a.db, Version: a.version,
		Logger: a.log, Signed: a.policy.SignatureCheck()})
	return nil
}

// openEngine opens the Kubernetes objects, the OS images and the engine.
func (a *opening) openEngine(ctx context.Context) (err error) {
	if a.sealed, err = a.siteKey.Box(engine.SecretsPurpose, nil); err != nil {
		return err
	}
	if !a.open() {
		if a.tokens, err = machine.NewIssuer(a.siteKey, a.sealed); err != nil {
			return err
		}
	}
	if a.kubernetes, err = a.openKubernetes(ctx); err != nil {
		return err
	}
	projector, err := a.projector()
	if err != nil {
		return err
	}
	if a.images, err = a.newOSImages(); err != nil {
		return err
	}
	a.abiHosts = abi.NewHostSettings(a.db, a.sealed, a.log)
	if a.engine, err = engine.New(engine.Options{
		Pulse: a.pulse, Projector: projector, Follows: a.followed(),
		BeforeInstall: siteservice.CheckClockBefore(a.abiHosts.ApplyAll, a.images.List, a.registry.Newest, a.clock),
		WithoutAMS:    !a.config.AMS.Enabled, Tokens: a.tokens, DB: a.db,
		AccessAt: site.Access(a.rules, a.releases), MirrorProver: a.prover, Logger: a.log,
		KeepCluster: provider.KeepCluster, CheckName: siteservice.CheckClusterName(len(a.config.Site.DNS.Interfaces) > 0),
		ReleasePolicy: a.policy, URL: a.urls[0], ServiceCA: a.transport.Roots(), Clock: a.clock,
		BaseImages: discovery.Checker{Bases: a.images}, Site: a.settings,
		Images: engine.Images{Agent: a.config.Images.Agent, Installer: a.config.Images.Installer,
			Controller: a.config.Images.Controller},
		Timeouts: a.config.Timeouts.Engine(),
		EventLimits: event.Limits{Each: int64(a.config.Limits.EventObjectBytes),
			All: int64(a.config.Limits.EventBytes)},
		Requirements: a.minimums, DisabledValidations: a.disabled, Capable: capable(a.config, a.db, a.log),
		Secrets: a.sealed,
	}); err != nil {
		return err
	}
	if k := a.kubernetes; k != nil {
		a.catchUp = projection.NewCatchUp(projection.Options{DB: a.db, Engine: a.engine,
			Rows: projection.Chain{k.hosts, k.clusters}, Events: projection.EventsOf(k.objects), Deferred: k.deferred,
			Program: a.version, URL: a.urls[0], Clock: a.clock, Logger: a.log})
	}
	return nil
}

// newOSImages opens the base images.
func (a *opening) newOSImages() (*osimage.Library, error) {
	transport, err := osimage.NewTransport(a.config.OSImageProxy, a.rules.CABundle, a.egress)
	if err != nil {
		return nil, fmt.Errorf("read os_image_proxy: %w", err)
	}
	return osimage.New(osimage.Options{
		Dir: filepath.Join(a.config.DataDir, "os-images"), Images: a.config.LiveISOs(),
		MaxBytes: int64(a.config.Limits.OSImageBytes), Transport: transport,
		FetchRelease: osimage.Payloads{Releases: a.releases, Known: a.settings.Offered()}.Fetch,
		Users:        discovery.Users(a.db), Secrets: a.sealed, CheckURL: a.egress.CheckURL,
		Shared: a.fleet.LiveISOs(a.db), Clock: a.clock, Logger: a.log,
	})
}

// openHosts opens what hosts and their BMCs use, and AMS.
func (a *opening) openHosts(ctx context.Context) (err error) {
	a.agents = agents.New(agents.Options{DB: a.db, Engine: a.engine, Issuer: a.tokens,
		ImageURLs: a.networks.ImageURLs, Clock: a.clock, Logger: a.log})
	names, err := joining.ParseNames(a.config.Joining.Addresses)
	if err != nil {
		return err
	}
	a.spokes = a.newSpokes(names)
	if a.ams, err = a.newAMS(); err != nil {
		return err
	}
	passwords, err := a.siteKey.Box(bmcPasswords, nil)
	if err != nil {
		return err
	}
	if a.tracing, err = tracing.Open(ctx, tracing.Options{Endpoint: a.config.Tracing.Endpoint,
		CAFile: a.config.Tracing.CAFile, Percent: a.config.Tracing.Percent, Version: a.version, Instance: a.urls[0],
		Logger: a.log}); err != nil {
		return err
	}
	a.discovery = discovery.NewImages(a.engine, a.images, a.networks)
	a.infraEnvs = bmc.NewInfraEnvs(a.engine, a.discovery, a.networks)
	a.bmcs = bmc.New(bmc.Options{DB: a.db, Site: a.infraEnvs, Secrets: passwords, Egress: a.egress, Clock: a.clock,
		Logger: a.log})
	return nil
}

// openSetup opens the site's settings and services.
func (a *opening) openSetup(ctx context.Context) (err error) {
	a.proofs = site.NewProofs(site.ProofsOptions{Prover: a.prover, Engine: a.engine, Known: a.settings.Offered(),
		DB: a.db, Key: a.siteKey})
	if err := a.openHandOver(ctx); err != nil {
		return err
	}
	a.progress = progress.NewService(progress.Options{DB: a.db, Events: a.engine.Events, Clock: a.clock, Logger: a.log})
	if a.kubernetes != nil {
		a.wake = a.kubernetes.loop.RetryFailed
	}
	a.mirror = site.NewManager(a.rules, a.engine, a.wake)
	a.allowed = trust.NewManager(a.policy, a.engine,
		func() (authn.Keychain, error) { return a.settings.Offered().Keychain("") }, a.wake, a.log)
	a.setup = a.newSetup(a.wake)
	a.services, err = a.newSiteServices()
	return err
}

// newSiteServices returns the network services for the site.
func (a *Appliance) newSiteServices() (*siteservice.Manager, error) {
	configured, err := a.config.SiteServices(a.urls)
	if err != nil {
		return nil, err
	}
	return siteservice.New(siteservice.Options{
		DB: a.db, Site: a.engine, Configured: configured, TimeServers: a.settings.NTPSources, Images: a.discovery,
		Servers: a.bmcs.Servers, CheckNetworkBoot: a.engine.CheckNetworkBoot, Limit: a.inbound.Limit,
		Clock: a.clock, Logger: a.log})
}

// openProtection opens backups, the replica and the checks.
func (a *opening) openProtection(ctx context.Context) (err error) {
	if a.backups, err = backup.NewService(ctx, backup.Options{DB: a.db, Dir: a.config.DataDir, Program: a.version,
		Keys: a.keys, Schedule: a.config.Backup.Schedule(), Hold: a.ams.Reverify, Clock: a.clock, Logger: a.log,
	}); err != nil {
		return err
	}
	if a.replica, err = replica.New(ctx, replica.Options{Settings: a.config.Replica.Settings(), DB: a.db,
		Dir: a.config.DataDir, Name: a.urls[0], Program: a.version, Keys: a.keys, Clock: a.clock, Logger: a.log,
	}); err != nil {
		return err
	}
	a.integrity = integrity.New(a.db, a.engine, a.log)
	a.protection = &doctor.Protections{Data: a.integrity.Finding, Replica: a.replica.Finding,
		Listener: doctor.Listener{Address: a.address, Authenticates: !a.open()}, TLS: a.transport != nil,
		Sandbox: a.box, Keys: a.keys, Certificates: a.transport.Certificates(), Clients: a.clients.certificates,
		Trail: a.trail, Backups: a.backups.Finding, Storage: a.usage, Clock: a.clock, Logger: a.log,
	}
	a.membership, a.single = membership.Of(a.among.takes,
		a.config.Fleet.Options(a.config, a.urls, a.address, a.version, a.clock, a.log))
	a.doctor = doctor.NewService(doctor.Options{
		Engine: a.engine, Rules: a.rules.At, MirroredReleases: a.proofs.Contents,
		CheckImage: a.images.CheckRelease, URLs: a.urls, NoteSite: a.setup.NoteDiagnosis,
		Egress: a.egress, Agents: a.agents, Protections: a.protection, Logger: a.log,
		SiteServices: a.services, Fleet: diagnosis.Fleet{Of: a.membership, URL: a.urls[0]}.Findings,
	})
	return nil
}

// openServers opens the servers and what they show.
func (a *opening) openServers(ctx context.Context) (err error) {
	if a.notices, err = a.newNotices(); err != nil {
		return err
	}
	a.abi = abi.New(abi.Options{Engine: a.engine, Settings: a.abiHosts, Mirror: a.mirror, Logger: a.log})
	if a.rehearsals, err = a.newRehearsals(); err != nil {
		return err
	}
	if a.hosted, err = a.openHosted(ctx); err != nil {
		return err
	}
	if err := a.newServer(); err != nil {
		return err
	}
	if a.kubeServer, err = a.newKubernetesServer(); err != nil {
		return err
	}
	return errors.Join(a.fleet.KeepKeys(a.db)(ctx), a.inbound.Unused())
}
