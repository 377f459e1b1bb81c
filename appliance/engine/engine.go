// Package engine is the installation engine: the only writer of clusters, infra-envs and hosts.
//
// Each request, reply of an agent and timer becomes one call of a method of [Engine], and each call
// is one transaction of the store. It loads records through a [change], alters them, and settles:
// validations and states that follow are computed by the tables in package lifecycle, and objects,
// events, outbox entries and deadlines are written together. A reader who follows one request goes:
// clusters.go (RegisterCluster) -> change.go (settle) -> lifecycle.go (the tables) -> events.go and
// outbox.go (what people and AMS hear of it).
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

	"landfall/appliance/engine/catalog"
	"landfall/appliance/engine/description"
	"landfall/appliance/engine/event"
	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/operator"
	"landfall/appliance/engine/presence"
	"landfall/appliance/engine/validation"
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
	// Installer provides the payload's openshift-install as a file and a function that ends its
	// use.
	Installer(ctx context.Context, payload *release.Payload, secret authn.Keychain,
		progress func(done, total int64)) (*release.Installer, func(), error)
	// Generate runs the installer over an install-config and returns what it wrote.
	Generate(ctx context.Context, installer *release.Installer, request release.GenerateRequest) (*release.Generated,
		error)
}

// Mirror is what the engine asks of the site's mirror rules; *mirror.Rules implements it.
type Mirror interface {
	RegistriesConf() []byte
	ImageDigestSources() []mirror.ImageDigestSource
	ImageTagSources() []mirror.ImageDigestSource
	CABundle() []byte
	Endpoints(name.Reference) []mirror.Endpoint
	Hosts() []string // of the mirrors, without ports
	Empty() bool
	// InstallConfig are the rules for digests as install-config has them; Manifests are what that
	// has no word for.
	InstallConfig(mirror.Target) []mirror.ImageDigestSource
	Manifests(mirror.Target) ([]mirror.Manifest, error)
	// LaterObjects are what a cluster can only be given when it runs.
	LaterObjects(mirror.Target) []mirror.Object
	// FollowPolicies takes over what a person's mirror sets say of whether sources are contacted.
	FollowPolicies(documents ...[]byte) (*mirror.Rules, error)
}

// Images names the three programs that run on hosts and in the cluster. An empty name means: the
// one in the cluster's release payload.
type Images struct {
	Agent, Installer, Controller string
}

// ReleaseImage is an OpenShift release that the site offers.
type ReleaseImage = description.Release

// Options holds the dependencies and settings of an engine.
type Options struct {
	DB           *store.DB
	Releases     Releases
	Mirror       Mirror
	MirrorProver MirrorProver // nil: nothing is proven before an installation
	// AccessAt is how images are reached at a level, where an infra-env or a cluster may have
	// mirror rules of its own; nil: as Releases, Mirror, Catalogs and CatalogReader say,
	// everywhere.
	AccessAt            func(mirror.Level) ImageAccess
	Clock               clockwork.Clock
	Logger              *slog.Logger
	URL                 string // what hosts reach, without a trailing slash
	Images              Images
	BaseImages          BaseImages // nil: recipes are not checked against base images
	ReleaseList         []ReleaseImage
	ServiceCA           []byte // PEM of the certificate authority of URL, when it is https with an own one
	NTPSources          []string
	Requirements        func(version string) validation.Requirements // nil: the defaults
	DisabledValidations []validation.ID                              // of hosts
	Timeouts            lifecycle.Timeouts
	EventLimits         event.Limits
	// Catalogs are the catalogs of operators that the site's mirror has, beside those of a
	// cluster's own manifests; nil: none.
	Catalogs func() []operator.Source
	// CatalogReader reads catalogs of operators; nil: they can't be checked.
	CatalogReader catalog.Reader
	// Secrets seals pull secrets in the store; nil: they are kept as they came.
	Secrets *sitekey.Box
	// Capable tells whether the site's organization has a capability; nil: features do not depend
	// on any.
	Capable func(capability string) bool
	// BeforeInstall is called before the installation of a cluster begins; may be nil.
	BeforeInstall func(ctx context.Context, e *Engine, clusterID string) error
	// Follows reports whether joining hosts are followed in a cluster, with calls of
	// [Engine.UpdateJoining]. It runs in a change's transaction. Nil means that no cluster is
	// followed.
	Follows func(tx *store.Tx, rows view.Rows, clusterID string) (bool, error)
	// WithoutAMS says that this site never speaks to OpenShift Cluster Manager: an installed
	// cluster that is deleted is not kept for it to hear of.
	WithoutAMS bool
	// Observer is called after each change was committed, for the checks of simulations and tests;
	// nil: none.
	Observer func(e *Engine, c Committed)
	// Projector follows each change with objects of another API, in its transaction; nil: nobody
	// does.
	Projector Projector
	Random    io.Reader // what ids are made of; nil: crypto/rand. A simulation gives one that repeats itself
}

// Engine drives clusters and hosts through their lifecycles. Its methods are safe for concurrent
// use.
type Engine struct {
	*view.Reader // of clusters and hosts

	options             Options
	presence            *presence.Hosts
	clockWatch          presence.ClockWatch
	clockSetBack        atomic.Bool // deadlines must be computed again
	parsed              *inventory.Cache
	validationCache     validationCache
	events              event.Index
	budgets             event.Budgets
	replies             presence.KeyedLocks
	hosts               *lifecycle.Machine[lifecycle.HostSituation]
	clusters            *lifecycle.Machine[lifecycle.ClusterSituation]
	validator           validator     // nil: the validations
	wakesAt             atomic.Int64  // when the wait for the next deadline ends (UnixNano); 0: it is being looked for
	earlierDeadline     chan struct{} // a deadline was set that comes before that
	preparationsChanged chan struct{} // the set of clusters to prepare changed
	unfrozen            chan string   // infra-envs whose recipe waits for the agent's pull spec

	awaitedChange chan struct{} // the set of hosts that are waited for in their clusters changed
}

// New returns an engine over a store. It reads nothing yet: [Engine.Run] continues the work of an
// earlier process.
func New(options Options) (*Engine, error) {
	if options.DB == nil || options.AccessAt == nil && (options.Releases == nil || options.Mirror == nil) {
		return nil, errors.New("engine: a store, a source of releases and mirror rules are needed")
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
	hosts := presence.New(options.Clock.Now())
	return &Engine{
		Reader: view.NewReader(options.DB, options.Secrets, hosts),

		options:             options,
		presence:            hosts,
		parsed:              inventory.NewCache(parsedFactsLimit),
		hosts:               lifecycle.HostMachine(),
		clusters:            lifecycle.ClusterMachine(),
		earlierDeadline:     make(chan struct{}, 1),
		preparationsChanged: make(chan struct{}, 1),
		unfrozen:            make(chan string, 64),

		awaitedChange: make(chan struct{}, 1),
	}, nil
}

// Run handles deadlines, preparations and recipes until the context ends. It returns when all
// goroutines that it started have ended. It resumes preparations that an earlier process began.
func (e *Engine) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // before the wait: a failure of one goroutine ends the others
	group.Go(func() { e.watchDeadlines(ctx) })
	group.Go(func() { e.freezeRecipes(ctx) })
	return e.runPreparations(ctx)
}

// update runs one change and notifies the waiting goroutines after the commit. The function may run
// more than once. It must have no effects except those on its change.
func (e *Engine) update(ctx context.Context, fn func(*change) error) error {
	e.checkClock()
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
		e.cacheResults(c)
		return nil
	})
	if err != nil {
		e.recordRejection(ctx, err)
		return err
	}
	e.notify(committed)
	return nil
}

// changeHost runs one change of a host and returns the host after it. The host is read in the same
// transaction, because its agent may change it again at once.
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

// changeCluster is changeHost for a cluster.
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

// cacheResults keeps what a change has parsed and judged for the next one, which may begin before
// this one is safe on the disk. It holds for revisions that no other change gets, even if this one
// is not kept.
func (e *Engine) cacheResults(c *change) {
	for key, facts := range c.facts {
		if h, ok := c.hosts[key]; ok {
			e.parsed.Put(key, h.Reported, facts)
		}
	}
	for key, found := range c.validated {
		e.validationCache.put(key, found)
	}
}

// notify wakes the goroutines that wait for the records of a committed change. The store itself
// serves the feed of the browser.
func (e *Engine) notify(c *change) {
	for _, key := range c.touchedHosts {
		e.presence.Invalidate(key)
	}
	for _, key := range c.deletedHosts {
		e.presence.Remove(key)
		e.parsed.Drop(key)
		e.validationCache.drop(key)
		e.ForgetHost(key)
	}
	for _, id := range c.deletedClusters {
		e.validationCache.drop(id)
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

// Committed names the records that a committed change wrote, and the hosts that it deleted, by
// their keys.
type Committed struct {
	Clusters, Hosts, DeletedHosts []string
}

func (c *change) committed() Committed {
	return Committed{Clusters: slices.Collect(maps.Keys(c.dirtyClusters)),
		Hosts: slices.Collect(maps.Keys(c.dirtyHosts)), DeletedHosts: c.deletedHosts}
}

// URL returns the URL that hosts reach, without a trailing slash.
func (e *Engine) URL() string { return e.options.URL }

// Images returns the configured programs that run on hosts and in clusters.
func (e *Engine) Images() Images { return e.options.Images }

// ReleaseList returns the releases that clusters can be made of. The caller must not change it.
func (e *Engine) ReleaseList() []ReleaseImage { return e.options.ReleaseList }

// NTPSources returns the configured NTP sources. The caller must not change them.
func (e *Engine) NTPSources() []string { return e.options.NTPSources }

// ContactsSince returns since when hosts could contact this process without a gap: since its start,
// or since the machine's clock jumped.
func (e *Engine) ContactsSince() time.Time { return e.presence.Started() }

// LastContact returns when a host, by its key, contacted this process last; false for never.
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
