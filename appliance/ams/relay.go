package ams

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
	"golang.org/x/sync/errgroup"

	"landfall/appliance/ams/local"
	"landfall/appliance/ams/outbox"
	"landfall/appliance/sitekey"
	"landfall/store"
)

const (
	backoffBase      = 2 * time.Second
	backoffCap       = time.Hour        // of a cluster
	probeCap         = 15 * time.Minute // of the connection
	unreachableLimit = 3                // broken calls in a row, over different clusters, that say the line is down
	forbiddenLimit   = 5                // clusters in a row that are forbidden
	quotaTries       = 3
	batchSize        = 64                  // clusters before it is looked anew whose turn it is
	retention        = 90 * 24 * time.Hour // of the journal and of ended subscriptions
	cleanupInterval  = time.Hour
)

// Options is what a relay is made of.
type Options struct {
	DB          *store.DB
	Clusters    Clusters
	Client      *Client
	URL         string // of AMS, as the client has it
	Credentials Credentials
	Clock       clockwork.Clock
	Logger      *slog.Logger
	Account     string        // in whose name subscriptions are made; "" is the account of the credentials
	FinalStatus string        // Active or Disconnected
	Quarantine  time.Duration // 0: 15 minutes
	Refresh     time.Duration // how old AMS's object may become; 0: a day
	Workers     int           // clusters at a time; 0: 4
	ByHand      bool          // connect only for the time that Connect allows
	Machine     string        // names this machine, so that copied data is noticed
	Key         *sitekey.Key  // signs what a courier carries
	Jitter      func(upTo time.Duration) time.Duration
	Metrics     *Metrics // nil: one that nobody else has
	Off         bool     // the configuration keeps the site from AMS: Run is not called
}

// Relay tells AMS what it must come to know whenever there is a way. It holds up nobody: the
// clusters' own changes only wake it.
type Relay struct {
	options Options
	wake    chan struct{}

	mu           sync.Mutex
	state        State
	since        time.Time // of the state
	problem      string    // why it is not online
	contact      time.Time // AMS answered last
	probeAt      time.Time
	probes       int
	silentUntil  time.Time // AMS asked for silence until then
	connectUntil time.Time // connecting by hand is allowed until then
	cleanupAt    time.Time
	lastStep     time.Time       // by the wall clock, when it was last looked at what is due
	unreachable  map[string]bool // clusters whose calls broke since the last that did not
	forbidden    map[string]bool
	jobs         map[string]*job
	identity     Identity
	localOwner   local.Owner
	lastSecret   Secret // by which a session was opened last, or was not
}

// New returns a relay that does nothing before [Relay.Run].
func New(options Options) *Relay {
	options.Quarantine = cmp.Or(options.Quarantine, 15*time.Minute)
	options.Refresh = cmp.Or(options.Refresh, 24*time.Hour)
	options.Workers = cmp.Or(options.Workers, 4)
	if options.Metrics == nil {
		options.Metrics = NewMetrics()
	}
	if options.Jitter == nil {
		options.Jitter = func(upTo time.Duration) time.Duration { return rand.N(upTo + 1) }
	}
	state := Offline
	if options.Off {
		state = Off
	}
	return &Relay{
		options: options, wake: make(chan struct{}, 1), state: state, since: options.Clock.Now(),
		localOwner: local.Owner{OrganizationID: local.LocalID(options.Key, "organization"),
			AccountID: local.LocalID(options.Key, "account")},
		unreachable: make(map[string]bool), forbidden: make(map[string]bool), jobs: make(map[string]*job),
	}
}

// Run tells AMS until the context ends. It returns early only when the store can not be read.
func (r *Relay) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := r.load(ctx, &group); err != nil {
		if ctx.Err() != nil {
			return nil // stopped before it began
		}
		return err
	}
	for {
		next := r.step(ctx)
		var timer <-chan time.Time
		if !next.IsZero() {
			timer = r.options.Clock.After(next.Sub(r.options.Clock.Now()))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-timer:
		case <-r.wake:
		}
	}
}

// load finds what waits and follows what is desired from there.
func (r *Relay) load(ctx context.Context, group *sync.WaitGroup) error {
	if err := r.index(ctx); err != nil {
		return err
	}
	revision, err := r.scan()
	if err != nil {
		return err
	}
	watcher := r.options.DB.Watch(ctx, revision, outbox.DesiredRows.Prefix())
	group.Go(func() {
		for {
			for changes := range watcher.C() {
				r.follow(changes)
			}
			if !errors.Is(watcher.Err(), store.ErrCompacted) {
				return
			}
			if revision, err = r.scan(); err != nil {
				r.options.Logger.Error("What AMS must be told can not be read; it is read again at the next start.",
					"error", err)
				return
			}
			watcher = r.options.DB.Watch(ctx, revision, outbox.DesiredRows.Prefix())
		}
	})
	return nil
}

// index sees once that what waits in the store can be found without reading it all.
func (r *Relay) index(ctx context.Context) error {
	indexed := false
	err := r.options.DB.View(func(tx *store.Tx) error {
		indexed = outbox.Indexed(tx)
		return nil
	})
	if err != nil || indexed {
		return err
	}
	return r.options.DB.Update(ctx, outbox.Index)
}

// scan finds all clusters of which AMS has yet to hear, and returns the revision that it saw.
func (r *Relay) scan() (revision uint64, err error) {
	err = r.options.DB.View(func(tx *store.Tx) error {
		revision = tx.Revision()
		if identity, err := identities.Get(tx, identityKey); err == nil {
			r.setIdentity(*identity)
		} else if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		all, err := outbox.AllWaiting(tx)
		for _, one := range all {
			r.enqueue(one.ClusterID, one.Since, false)
		}
		return err
	})
	return revision, err
}

func (r *Relay) follow(changes []store.Change) {
	for _, change := range changes {
		if !change.Deleted {
			r.enqueue(strings.TrimPrefix(change.Key, outbox.DesiredRows.Prefix()), r.options.Clock.Now(), false)
		}
	}
	r.mu.Lock()
	working := r.state == Online || !r.options.Clock.Now().Before(r.probeAt)
	r.mu.Unlock()
	if working {
		r.wakeUp()
	}
}

func (r *Relay) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// step does all that is due and returns when to come again; zero is when something happens.
func (r *Relay) step(ctx context.Context) time.Time {
	now := r.options.Clock.Now()
	r.limitWaits(now)
	if again, ready := r.ready(ctx, now); !ready {
		return again
	}
	r.cleanUp(ctx, now)
	due := r.due(now)
	var group errgroup.Group
	group.SetLimit(r.options.Workers)
	for _, id := range due {
		if ctx.Err() != nil || !r.mayContinue() {
			break
		}
		refresh := r.begin(id)
		group.Go(func() error {
			r.finish(ctx, id, r.reconciler().reconcile(ctx, id, refresh))
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		r.options.Logger.Error("AMS could not be told.", "error", err)
	}
	return r.next()
}

func (r *Relay) reconciler() *reconciler {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &reconciler{
		api: r.options.Client, states: &dbState{r.options.DB, r.options.Clusters}, clock: r.options.Clock, by: byRelay,
		account: cmp.Or(r.options.Account, r.identity.Username), identity: r.identity.String(),
		site: Site{
			Organization: r.identity.OrganizationID, AccountID: r.identity.AccountID,
			FinalStatus: r.options.FinalStatus, Quarantine: r.options.Quarantine,
		},
	}
}
