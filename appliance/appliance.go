// Package appliance wires, starts and stops one appliance.
//
// New opens all resources that can fail (the data directory, the mirror's files, the address), so
// that errors of a start are reported immediately. Run serves until its context ends.
//
// Design: docs/design.md#construction-in-one-step.
package appliance

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"slices"

	"github.com/jonboulle/clockwork"
	"golang.org/x/sync/errgroup"

	"landfall/appliance/abi"
	"landfall/appliance/access/machine"
	"landfall/appliance/agents"
	"landfall/appliance/ams"
	"landfall/appliance/arrival"
	"landfall/appliance/audittrail"
	"landfall/appliance/backup"
	"landfall/appliance/bmc"
	"landfall/appliance/config"
	"landfall/appliance/discovery"
	"landfall/appliance/doctor"
	"landfall/appliance/egress"
	"landfall/appliance/engine"
	"landfall/appliance/engine/presence"
	"landfall/appliance/engine/record"
	"landfall/appliance/fleet"
	"landfall/appliance/fleet/membership"
	"landfall/appliance/inhibitor"
	"landfall/appliance/integrity"
	"landfall/appliance/journal"
	"landfall/appliance/keyring"
	"landfall/appliance/kube/joining"
	"landfall/appliance/kube/metal"
	"landfall/appliance/kube/projection"
	"landfall/appliance/mirror/site"
	"landfall/appliance/monitoring"
	"landfall/appliance/notice"
	"landfall/appliance/osimage"
	"landfall/appliance/overview"
	"landfall/appliance/process"
	"landfall/appliance/progress"
	"landfall/appliance/registry/absence"
	"landfall/appliance/registry/handover"
	"landfall/appliance/rehearsal"
	"landfall/appliance/release"
	"landfall/appliance/release/trust"
	"landfall/appliance/replica"
	"landfall/appliance/settings"
	"landfall/appliance/sitekey"
	"landfall/appliance/siteservice"
	"landfall/appliance/storage"
	"landfall/appliance/tracing"
	"landfall/appliance/transport"
	"landfall/assets"
	"landfall/store"
	"landfall/web"
	"landfall/web/accounts"
	"landfall/web/api"
	"landfall/web/console"
	"landfall/web/image"
	webregistry "landfall/web/registry"
	"landfall/web/traffic"
)

// Appliance is an opened appliance that listens on its address.
type Appliance struct {
	config     config.Config
	version    string
	log        *slog.Logger
	clock      clockwork.Clock
	listener   net.Listener
	address    net.Addr // of the listener; still set after the server has taken the listener
	urls       []string
	db         *store.DB
	keys       *keyring.Keyring
	siteKey    *sitekey.Key
	trail      *audittrail.Trail
	transport  *transport.Transport // nil if the configuration disables TLS
	recent     *journal.RecentLog
	settings   *settings.Site
	setup      *settings.Service
	notices    *notice.Service
	rules      *site.Rules
	mirror     *site.Manager
	proofs     *site.Proofs
	abiHosts   *abi.HostSettings
	abi        *abi.Service
	rehearsals *rehearsal.Service
	releases   *release.Library
	policy     *trust.Policy
	allowed    *trust.Manager
	tokens     *machine.Issuer // nil if the appliance does not authenticate machines
	clients    *clients
	engine     *engine.Engine
	agents     *agents.Service
	ams        *ams.Service
	images     *osimage.Library
	discovery  *discovery.Images
	networks   discovery.Networks
	downloads  *image.Service
	services   *siteservice.Manager
	infraEnvs  *bmc.InfraEnvs
	bmcs       *bmc.Manager
	doctor     *doctor.Service
	progress   *progress.Service
	protection *doctor.Protections
	integrity  *integrity.Monitor
	backups    *backup.Service
	replica    *replica.Service // nil if the configuration has none
	egress     *egress.Rules
	inbound    *web.Connections
	meter      *traffic.Meter
	usage      *storage.Usage
	pulse      *presence.Pulse
	tracing    *tracing.Recorder // nil if the configuration has no collector
	overview   *overview.Reader
	monitor    *monitoring.Monitor
	refusals   *arrival.Refusals
	boot       *discovery.BootListener // nil if only the main server serves images
	server     *web.Server
	bootServer *web.Server         // serves boot
	registry   *webregistry.Server // nil if the configuration has none
	handover   *handover.Service   // nil if registry is nil
	absences   *absence.Log        // nil if registry is nil

	fleet      *fleet.Leading // nil on a single machine
	membership membership.Service
	single     *membership.Single  // nil in a fleet
	hosted     *hostedClusters     // nil if the configuration disables hosted clusters
	kubernetes *kubernetesObjects  // nil if the configuration disables the Kubernetes API
	catchUp    *projection.CatchUp // writes deferred changes to Kubernetes objects; nil if kubernetes is nil
	kubeServer *kubernetesServer   // nil if kubernetes is nil
	spokes     *joining.Spokes     // nil if the configuration disables connections to installed clusters
}

// bmcPasswords is the purpose with which the site's key encrypts the passwords of BMCs.
const bmcPasswords sitekey.Purpose = "bmc passwords"

// New opens an appliance with a configuration. Its errors are sentences for the user. After an
// error, it has closed all resources.
func New(ctx context.Context, config config.Config, logger *slog.Logger, version string) (*Appliance, error) {
	return open(ctx, config, logger, version, clockwork.NewRealClock(), surroundings{})
}

// Lead does the same as New for an appliance that leads a fleet.
func Lead(ctx context.Context, config config.Config, logger *slog.Logger, version string,
	of *fleet.Leading, takes membership.Service) (*Appliance, error) {
	return open(ctx, config, logger, version, clockwork.NewRealClock(), surroundings{fleet: of, takes: takes})
}

func (a *Appliance) openTrail() (*audittrail.Trail, error) {
	syslog, err := a.config.Audit.Receiver()
	if err != nil {
		return nil, err
	}
	return audittrail.Open(audittrail.Options{
		Dir: filepath.Join(a.config.DataDir, audittrail.DirName), Key: a.siteKey, DB: a.db, Logger: a.log,
		Clock: a.clock, Bytes: int64(a.config.Audit.Bytes), Syslog: syslog, Member: a.fleet.Trail(a.config.DataDir),
	})
}

func (a *Appliance) newServer() error {
	a.server = web.New(web.Options{
		Logger: a.log, BodyLimit: int64(a.config.Limits.RequestBodyBytes), ShutdownTimeout: a.config.Timeouts.Shutdown,
		Connections: a.inbound, Hosts: a.clients.hosts, Wrap: a.wrap(false), Spelling: a.hosted.spelling(),
		TLS: a.line(web.PlainFromMachine, a.towardsBoot), Stamp: a.fleet.Stamp(a.db),
		Front: a.fleet.Before(a.at, a.backups, a.db, a.engine, a.inbound.Remember),
	})
	var tokens image.Tokens
	if a.agents.Enabled() {
		tokens = a.agents
	}
	a.downloads = image.New(image.Options{
		Source: a.discovery, Networks: a.networks, Logger: a.log, Clock: a.clock, Elsewhere: a.fleet.OtherReads(),
		Tokens: tokens, StallTimeout: a.config.Timeouts.ImageStalled, Hold: a.config.Timeouts.ImageHold,
	})
	if a.boot != nil {
		a.log.Info("Images and boot files are also served on the boot listener in plain HTTP.", "port", a.boot.Port())
		a.bootServer = web.New(web.Options{Logger: a.log, ShutdownTimeout: a.config.Timeouts.Shutdown,
			Connections: a.inbound, Hosts: a.clients.hosts, Wrap: a.wrap(true),
			TLS: a.line(web.PlainForAll, a.towardsMain), Front: a.fleet.Count()})
		if err := a.bootServer.Register(a.downloads.Operations()...); err != nil {
			return err
		}
	}
	page, err := console.PageOperations(assets.UI())
	if err != nil {
		return err
	}
	service := &api.Service{
		Engine: a.engine, Defaults: a.settings, Links: a.clients.links, BootURL: a.networks[0].Boot, Agents: a.agents,
		ManifestBytes:  int64(a.config.Limits.ManifestBytes),
		LogUploadBytes: int64(a.config.Limits.LogUploadBytes), Version: a.version,
	}
	if a.kubernetes != nil {
		service.HostChanges = metal.HostChanges{DB: a.db, Objects: a.kubernetes.objects}
	}
	if err := service.Register(a.server); err != nil {
		return err
	}
	monitor, err := a.monitorOperations()
	if err != nil {
		return err
	}
	return a.server.Register(slices.Concat(
		page, a.accessOperations(), a.downloads.Operations(), accounts.Operations(a.accounts()),
		console.FeedOperations(console.Feed{
			Changes: a.db, ClusterOf: a.engine.OwningCluster, Draining: a.server.Draining(), Clock: a.clock,
			Logger: a.log,
		}),
		console.StatusOperations(a.status()),
		console.DoctorOperations(a.doctor), console.ImageOperations(a.discovery, a.downloads),
		console.OSImageOperations(a.images, int64(a.config.Limits.OSImageBytes)),
		console.ReleaseOperations(a.allowed), console.SettingsOperations(a.setup),
		console.NoticeOperations(a.notices),
		console.MirrorOperations(a.mirror, record.Relations{DB: a.db}), console.MirrorProofOperations(a.proofs),
		console.AMSOperations(a.ams, !a.config.AMS.Enabled), console.AMSTokenOperations(a.ams.Site),
		monitor, console.ABIOperations(a.abi), console.RehearsalOperations(a.rehearsals),
		console.OverviewOperations(a.overview), console.ProgressOperations(a.progress),
		console.StaticNetworkOperations(a.engine), console.OperatorOperations(a.engine),
		console.MachineOperations(a.agents), console.BMCOperations(bmc.NewService(a.bmcs, a.infraEnvs)),
		console.AuditOperations(a.trail, a.membership.Trails(a.trail)), console.SiteServiceOperations(a.services),
		console.RegistryOperations(a.registry, a.completeStatus), console.HandOverOperations(a.handover),
		console.ClusterRegistryOperations(a.registry, a.Dependents, a.absences, a.engine.InstallSource),
		console.HostOperations(a.engine, a.bmcs, a.approvals()),
		console.ArrivalOperations(console.ArrivalOptions{Table: a.engine, Servers: a.bmcs,
			InfraEnvs: a.engine.InfraEnvs, Cluster: a.engine.Cluster, Reads: a.downloads.Reads,
			Refusals: a.refusals, URL: a.urls[0], Started: a.clock.Now().UTC()}),
		console.JournalOperations(a.journals()),
		console.DataKeyOperations(a.RotateDataKey), console.ReplicaOperations(a.config.Replica.Receiver(), a.log),
		console.BackupOperations(a.backups), console.FleetOperations(a.membership),
		console.IntegrityOperations(integrity.NewChecker(a.db, a.clock)),
		console.KubernetesOperations(a.kubernetesURL, a.transport.Roots()), a.hosted.operations(a.engine),
	)...)
}

// URLs returns the URLs of the appliance for hosts, the preferred one first.
func (a *Appliance) URLs() []string { return a.urls }

// AuthorityFingerprint returns the SHA-256 of the appliance's certificate authority, or "" if the
// configuration disables TLS.
func (a *Appliance) AuthorityFingerprint() string { return a.transport.Fingerprint() }

// LocalURL returns a URL of the appliance for programs on this machine, to which the appliance also
// serves plain HTTP.
func (a *Appliance) LocalURL() string {
	host, port, err := net.SplitHostPort(a.address.String())
	if err != nil {
		return a.urls[0]
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return (&url.URL{Scheme: "http", Host: net.JoinHostPort(host, port)}).String()
}

// Run serves until the context ends or a task fails. It then waits for running requests, up to the
// configured time, and closes all resources.
func (a *Appliance) Run(ctx context.Context) error {
	return errors.Join(runAll(a.tracing.Context(ctx), a.tasks()), a.Close())
}

// task is a part of the appliance that runs until its context ends.
type task = func(context.Context) error

// runAll runs tasks until all of them have returned. The first error ends the context of the
// others, and is returned. A task that the end of the context interrupted has not failed.
func runAll(ctx context.Context, tasks []task) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, run := range tasks {
		group.Go(func() error {
			err := run(ctx)
			if ctx.Err() != nil && errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		})
	}
	return group.Wait()
}

func (a *Appliance) tasks() []task {
	tasks := []task{
		a.engine.Run, a.agents.Run, a.clients.people.Run, a.clients.tokens.Run, a.ams.Run, a.images.Run,
		a.discovery.Run, func(ctx context.Context) error { return storage.Tidy(ctx, a.db, a.engine.TrimEvents, a.log) },
		a.serve, func(ctx context.Context) error { return a.fleet.Watch(ctx, a.db, a.networks) }, a.single.Run,
		func(ctx context.Context) error { return a.downloads.FollowInfraEnvs(ctx, a.db) },
		a.proofs.FollowClusters, a.progress.Run, a.notices.Run, a.mirror.FollowDeletions, a.clients.certificates.Run,
		a.bmcs.Run, func(ctx context.Context) error { return a.abiHosts.Run(ctx, a.engine) }, a.followHosts,
	}
	if a.transport != nil {
		tasks = append(tasks, a.transport.Certificates().Run)
	}
	if a.boot != nil {
		tasks = append(tasks, func(ctx context.Context) error { return a.boot.Serve(ctx, a.bootServer.Serve) })
	}
	tasks = append(tasks, a.integrity.Run, a.backups.Run, a.replica.Run, (&integrity.Scrubber{DB: a.db,
		Dir: a.config.DataDir, Interval: a.config.Scrub.Interval, Clock: a.clock, Logger: a.log}).Run)
	tasks = append(append(tasks, a.keys.Completion(a.siteKey, a.db), a.protection.Run, a.services.Run),
		a.hosted.tasks()...)
	tasks = append(tasks, a.registryTasks()...)
	tasks = append(tasks, inhibitor.Of(a.db, a.doctor.LogClocks, a.clock, a.log).Run)
	return append(tasks, a.kubeServer.tasks()...)
}

func (a *Appliance) serve(ctx context.Context) error {
	listener := a.listener
	a.listener = nil // the server closes it
	return a.server.Serve(ctx, listener)
}

// KeepSmall returns unused memory to the operating system whenever the appliance is idle, until the
// context ends.
func (a *Appliance) KeepSmall(ctx context.Context, clock clockwork.Clock) {
	process.KeepSmall(ctx, a.db, clock, a.log)
}

// Close closes all resources that New opened. Run calls it at its end.
func (a *Appliance) Close() error {
	var errs []error
	if a.listener != nil {
		errs = append(errs, a.listener.Close())
		a.listener = nil
	}
	errs = append(errs, a.boot.Close(), a.kubernetes.close(), a.hosted.close(), a.registry.Close(), a.tracing.Close())
	if a.rehearsals != nil {
		a.rehearsals.Close()
	}
	errs = append(errs, a.images.Close())
	if a.setup != nil {
		a.setup.Close()
	}
	if a.proofs != nil {
		a.proofs.Close()
	}
	errs = append(errs, a.releases.Close())
	if a.rules != nil {
		a.rules.Close()
	}
	errs = append(errs, a.trail.Close())
	if a.db != nil {
		errs = append(errs, a.replica.Close(), a.db.Close())
	}
	return errors.Join(errs...)
}

// listening returns the addresses at which the appliance listens.
func (a *Appliance) listening() []net.Addr {
	var addresses []net.Addr
	if a.address != nil {
		addresses = append(addresses, a.address)
	}
	if a.boot != nil {
		addresses = append(addresses, a.boot.Addr())
	}
	if a.kubernetes != nil && a.kubernetes.address != nil {
		addresses = append(addresses, a.kubernetes.address)
	}
	return addresses
}

// RotateDataKey seals everything in the data directory with a new data key.
func (a *Appliance) RotateDataKey(ctx context.Context) error {
	if a.fleet != nil {
		return fleet.ErrDataKey
	}
	return a.keys.Rotate(ctx, a.siteKey, a.db)
}
