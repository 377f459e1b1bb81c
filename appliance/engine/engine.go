// Package engine is the installation engine. It is the only writer of clusters, infra-envs and
// hosts.
//
// Each request, each reply of an agent and each timer calls one method of [Engine], which runs one
// transaction of the store. The method loads records through a [change], changes them and settles.
// Settling computes the validations and states that follow, by the tables in package lifecycle. It
// writes records, events, outbox entries and deadlines together. To follow a request, read
// clusters.go (RegisterCluster), change.go (settle), settle.go (validations and state transitions),
// events.go and outbox.go (events and entries for AMS).
//
// Design: docs/design.md#one-transaction-for-each-change.
package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/access/machine"
	"landfall/appliance/engine/catalog"
	"landfall/appliance/engine/description"
	"landfall/appliance/engine/event"
	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/operator"
	"landfall/appliance/engine/presence"
	"landfall/appliance/engine/validation"
	"landfall/appliance/engine/validationcache"
	"landfall/appliance/engine/view"
	"landfall/appliance/mirror"
	"landfall/appliance/release"
	"landfall/appliance/sitekey"
	"landfall/store"
)

// Releases reads release payloads and runs the installer that they contain; *release.Library
// implements it.
type Releases interface {
	// Payload resolves a release pull spec through the mirror with the given pull secret.
	Payload(ctx context.Context, pullSpec, arch string, secret authn.Keychain) (*release.Payload, error)
	// Installer provides the payload's openshift-install as a file. The returned function releases
	// the file.
	Installer(ctx context.Context, payload *release.Payload, secret authn.Keychain,
		progress func(done, total int64)) (*release.Installer, func(), error)
	// Generate runs the installer on an install-config and returns the generated files.
	Generate(ctx context.Context, installer *release.Installer, request release.GenerateRequest) (*release.Generated,
		error)
}

// ReleasePolicy decides which releases the site allows; *trust.Policy implements it.
type ReleasePolicy interface {
	// Check returns an error unless the release with the digest may be used. pullSpec is its name.
	Check(ctx context.Context, pullSpec, digest string, secret authn.Keychain) error
	// CheckName is like Check for a release that is not resolved yet. It accepts a tag.
	CheckName(ctx context.Context, pullSpec string, secret authn.Keychain) error
}

// Mirror provides the site's mirror rules; *mirror.Rules implements it.
type Mirror interface {
	RegistriesConf() []byte
	ImageDigestSources() []mirror.ImageDigestSource
	ImageTagSources() []mirror.ImageDigestSource
	CABundle() []byte
	Endpoints(name.Reference) []mirror.Endpoint
	Hosts() []string // of the mirrors, without ports
	Empty() bool
	// Narrow removes the entries of a pull secret that the rules and the images do not need.
	Narrow(pullSecret string, images ...string) (string, error)
	// InstallConfig returns the digest rules that install-config can express. Manifests returns the
	// remaining rules as manifests.
	InstallConfig(mirror.Target) []mirror.ImageDigestSource
	Manifests(mirror.Target) ([]mirror.Manifest, error)
	// LaterObjects returns the objects that a cluster can only accept after its installation.
	LaterObjects(mirror.Target) []mirror.Object
	// FollowPolicies applies the mirrorSourcePolicy of the user's mirror sets in the documents. The
	// policy decides whether nodes may contact the original registry.
	FollowPolicies(documents ...[]byte) (*mirror.Rules, error)
}

// Images holds the pull specs of the programs that run on hosts and in the cluster. An empty pull
// spec selects the image in the cluster's release payload.
type Images struct {
	Agent, Installer, Controller string
}

// ReleaseImage is an OpenShift release that the site offers.
type ReleaseImage = description.Release

// SiteSettings are settings of the site that may change; package settings implements it. The engine
// does not change the lists.
type SiteSettings interface {
	Releases() []ReleaseImage
	NTPSources() []string
}

// Options holds the dependencies and settings of an engine.
type Options struct {
	DB       *store.DB
	Releases Releases
	Mirror   Mirror
	// ReleasePolicy decides which releases may be used; nil allows all of them. The release library
	// has its own check before it runs a program.
	ReleasePolicy ReleasePolicy
	MirrorProver  MirrorProver // nil: the mirror is not checked before an installation
	// KeepCluster returns an error if a cluster must not be deleted without force; nil: all may be.
	KeepCluster func(tx *store.Tx, id string) error
	// CheckName returns an error if a cluster must not have its name and base domain beside the
	// other clusters; nil: it may have any.
	CheckName func(tx *store.Tx, cluster *models.Cluster) error
	// AccessAt returns the access to images at a level: the site, an infra-env or a cluster, each
	// of which may have mirror rules. If nil, Releases, Mirror, Catalogs and CatalogReader apply at
	// all levels.
	AccessAt    func(mirror.Level) ImageAccess
	Clock       clockwork.Clock
	Logger      *slog.Logger
	URL         string // the URL of the appliance for hosts, without a trailing slash
	Images      Images
	BaseImages  BaseImages // nil: recipes are not checked against base images
	ReleaseList []ReleaseImage
	ServiceCA   []byte // CA certificates (PEM) for URL, if URL is https and uses a private CA
	NTPSources  []string
	// Site provides releases and NTP sources that change while the appliance runs; nil: ReleaseList
	// and NTPSources.
	Site                SiteSettings
	Requirements        func(version string) validation.Requirements // nil: the defaults
	DisabledValidations []validation.ID                              // validations of hosts that do not run
	Timeouts            lifecycle.Timeouts
	EventLimits         event.Limits
	// Catalogs returns the operator catalogs in the site's mirror. It excludes the catalogs in a
	// cluster's manifests. If nil, the site has no catalogs.
	Catalogs func() []operator.Source
	// CatalogReader reads operator catalogs. If nil, catalogs cannot be checked.
	CatalogReader catalog.Reader
	// Secrets seals pull secrets in the store. If nil, they are stored in clear text.
	Secrets *sitekey.Box
	// Tokens issues the tokens of machines, which are part of their images. It is nil if the
	// appliance does not authenticate machines.
	Tokens *machine.Issuer
	// Capable reports whether the site's organization has a capability. If nil, no feature depends
	// on capabilities.
	Capable func(capability string) bool
	// BeforeInstall is called before the installation of a cluster begins; it may be nil.
	BeforeInstall func(ctx context.Context, e *Engine, clusterID string) error
	// Follows reports whether the appliance follows the hosts that join a cluster, through the
	// Kubernetes API of that cluster. [Engine.UpdateJoining] then records their progress. Follows
	// runs in the transaction of a change. If it is nil, the hosts of no cluster are followed.
	Follows func(tx *store.Tx, rows view.Rows, clusterID string) (bool, error)
	// WithoutAMS is true if the site never reports to OpenShift Cluster Manager (AMS). The deletion
	// of a cluster then also deletes its outbox entry, unless AMS has data of the cluster.
	WithoutAMS bool
	// Observer is called after each commit, for the checks of simulations and tests; it may be nil.
	Observer func(e *Engine, c Committed)
	// Pulse detects interruptions of the process; nil for none, in simulations.
	Pulse *presence.Pulse
	// Projector updates objects of another API in the transaction of each change; it may be nil.
	Projector Projector
	// Random is the source of ids; nil for crypto/rand. A simulation sets a reproducible source.
	Random io.Reader
}

// Engine drives clusters and hosts through their lifecycles. Its methods are safe for concurrent
// use.
type Engine struct {
	*view.Reader // reads without a transaction of the engine

	options             Options
	presence            *presence.Hosts
	clockWatch          *presence.ClockWatch
	tolerance           time.Duration // of the clock, see presence.ClockTolerance
	clockSetBack        atomic.Bool   // deadlines must be recomputed
	parsed              *inventory.Cache
	validationCache     *validationcache.Cache
	events              event.Index
	budgets             event.Budgets
	replies             presence.KeyedLocks
	hosts               *lifecycle.Machine[lifecycle.HostSituation]
	clusters            *lifecycle.Machine[lifecycle.ClusterSituation]
	validator           validator     // nil for the validations
	wakesAt             atomic.Int64  // end of the wait for the next deadline (UnixNano); 0 while it is computed
	earlierDeadline     chan struct{} // a deadline before wakesAt was set
	preparationsChanged chan struct{} // the set of clusters to prepare changed
	unfrozen            chan string   // infra-envs whose recipe lacks the agent's pull spec
	awaitedChange       chan struct{} // the set of awaited hosts changed
}

// New returns an engine on a store. It does not read the store; [Engine.Run] continues the work of
// an earlier process.
func New(options Options) (*Engine, error) {
	if options.DB == nil || options.AccessAt == nil && (options.Releases == nil || options.Mirror == nil) {
		return nil, errors.New("engine: the options lack the store, the releases or the mirror rules")
	}
	if options.Clock == nil {
		options.Clock = clockwork.NewRealClock()
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	if options.Requirements == nil {
		options.Requirements = validation.DefaultRequirements
	}
	if options.Random == nil {
		options.Random = rand.Reader
	}
	options.Timeouts = options.Timeouts.OrDefaults()
	options.EventLimits = options.EventLimits.OrDefaults()
	tolerance := presence.ClockTolerance(options.Timeouts.HostDisconnected)
	hosts := presence.New(options.Clock.Now(), tolerance)
	return &Engine{
		Reader:              view.NewReader(options.DB, options.Secrets, options.Tokens, hosts),
		options:             options,
		presence:            hosts,
		clockWatch:          presence.NewClockWatch(tolerance),
		tolerance:           tolerance,
		parsed:              inventory.NewCache(parsedFactsLimit),
		validationCache:     new(validationcache.Cache),
		hosts:               lifecycle.HostMachine(),
		clusters:            lifecycle.ClusterMachine(),
		earlierDeadline:     make(chan struct{}, 1),
		preparationsChanged: make(chan struct{}, 1),
		unfrozen:            make(chan string, 64),
		awaitedChange:       make(chan struct{}, 1),
	}, nil
}

// Run handles deadlines, preparations and recipes until the context ends. It returns when all
// goroutines that it started have ended. It resumes preparations that an earlier process began.
func (e *Engine) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { e.watchDeadlines(ctx) })
	group.Go(func() { e.freezeRecipes(ctx) })
	group.Go(func() { e.options.Pulse.Run(ctx, func() { e.checkClock() }) })
	e.runPreparations(ctx)
	return nil
}

// update runs a change in a transaction. After the commit, it notifies the waiting goroutines. The
// function may run more than once, so it must have no effects except those on its change.
func (e *Engine) update(ctx context.Context, fn func(*change) error) error {
	var committed *change
	err := e.options.DB.Update(ctx, func(tx *store.Tx) error {
		c := newChange(ctx, e, tx)
		tx.Note(c.note)
		if err := fn(c); err != nil {
			return err
		}
		if err := c.settle(); err != nil {
			return err
		}
		if err := c.project(); err != nil {
			return err
		}
		committed = c
		if c.readResult != nil {
			if err := c.readResult(); err != nil {
				return err
			}
		}
		if !store.IsDryRun(ctx) {
			e.cacheResults(c)
		}
		return nil
	})
	if err != nil {
		e.recordRejection(ctx, err)
		return err
	}
	e.notify(committed)
	return nil
}

// changeHost runs a change of a host and returns the changed host. It reads the host in the same
// transaction, because the host's agent may change it right after the commit.
func (e *Engine) changeHost(ctx context.Context, infraEnvID, hostID string,
	fn func(*change) error) (*models.Host, error) {
	var shown *models.Host
	err := e.update(ctx, func(c *change) error {
		c.readResult = func() error {
			h, err := c.hostIn(infraEnvID, hostID)
			if err != nil {
				return err
			}
			shown, err = e.ShowHost(c.tx, h, true)
			return err
		}
		return fn(c)
	})
	if err != nil {
		return nil, err
	}
	return shown, nil
}

// changeCluster runs a change of a cluster and returns the changed cluster, like changeHost.
func (e *Engine) changeCluster(ctx context.Context, id string, fn func(*change) error) (*models.Cluster, error) {
	var shown *models.Cluster
	err := e.update(ctx, func(c *change) error {
		c.readResult = func() error {
			row, err := c.cluster(id)
			if err != nil {
				return err
			}
			shown, err = e.ShowCluster(c.tx, row, true)
			return err
		}
		return fn(c)
	})
	if err != nil {
		return nil, err
	}
	return shown, nil
}

// cacheResults caches the parsed facts and validation results of a change for the next change,
// which may begin before this change is on disk. Cached values are valid only for the revision of
// this change. No other change gets that revision, even if this change is rolled back.
func (e *Engine) cacheResults(c *change) {
	for key, facts := range c.facts {
		if h, ok := c.hosts[key]; ok {
			e.parsed.Put(key, h.Reported, facts)
		}
	}
	for key, found := range c.validated {
		e.validationCache.Put(key, found)
	}
}

// notify updates the caches in memory after a commit and wakes the goroutines that wait for changed
// records. It does not serve the browser's live feed, which reads the store's change log.
func (e *Engine) notify(c *change) {
	for _, key := range c.touchedHosts {
		e.presence.Invalidate(key)
	}
	for _, key := range c.deletedHosts {
		e.presence.Remove(key)
		e.parsed.Drop(key)
		e.validationCache.Drop(key)
		e.DropHost(key)
	}
	for _, id := range c.deletedClusters {
		e.validationCache.Drop(id)
	}
	if end := e.wakesAt.Load(); !c.deadline.IsZero() && (end == 0 || c.deadline.UnixNano() < end) {
		e.wake()
	}
	if c.preparationsChanged {
		select {
		case e.preparationsChanged <- struct{}{}:
		default:
		}
	}
	if c.joiningChanged {
		select {
		case e.awaitedChange <- struct{}{}:
		default:
		}
	}
	if e.options.Observer != nil {
		e.options.Observer(e, c.committed())
	}
	e.budgets.Store(c.budgets)
	for _, line := range c.logLines {
		e.options.Logger.Log(c.ctx, line.level, line.message, line.attrs...)
	}
}

// Committed holds the keys of the records that a committed change wrote, and of the hosts that it
// deleted.
type Committed struct {
	Clusters, Hosts, DeletedHosts []string
}

func (c *change) committed() Committed {
	return Committed{Clusters: slices.Collect(maps.Keys(c.dirtyClusters)),
		Hosts: slices.Collect(maps.Keys(c.dirtyHosts)), DeletedHosts: c.deletedHosts}
}

// URL returns the URL of the appliance for hosts, without a trailing slash.
func (e *Engine) URL() string { return e.options.URL }

// Images returns the configured images of the programs on hosts and in clusters.
func (e *Engine) Images() Images { return e.options.Images }

// ReleaseList returns the releases that clusters can have. The caller must not change it.
func (e *Engine) ReleaseList() []ReleaseImage {
	if e.options.Site != nil {
		return e.options.Site.Releases()
	}
	return e.options.ReleaseList
}

// NTPSources returns the site's NTP sources. The caller must not change them.
func (e *Engine) NTPSources() []string {
	if e.options.Site != nil {
		return e.options.Site.NTPSources()
	}
	return e.options.NTPSources
}

// ContactsSince returns the time since which hosts could contact this process without interruption:
// its start, or the last jump of the machine's clock.
func (e *Engine) ContactsSince() time.Time { return e.presence.Started() }

// LastContact returns the time of a host's last contact with this process, or false if there was
// none.
func (e *Engine) LastContact(hostKey string) (time.Time, bool) { return e.presence.Polled(hostKey) }

func (e *Engine) newID() strfmt.UUID {
	return strfmt.UUID(uuid.Must(uuid.NewRandomFromReader(e.options.Random)).String())
}

func (e *Engine) wake() {
	select {
	case e.earlierDeadline <- struct{}{}:
	default:
	}
}
