// Package ams reports clusters to OpenShift Cluster Manager (AMS). The relay reports over the
// network when there is a connection; a courier carries the reports in a file on a USB stick. Both
// decide with [Decide]; docs/ams.md contains its table of rules. The engine never waits for this
// package: it writes the desired state (package outbox) in its own transactions.
//
// Design: docs/design.md#offline-first.
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
	"landfall/appliance/sentence"
	"landfall/appliance/sitekey"
	"landfall/store"
)

const (
	backoffBase = 2 * time.Second
	backoffCap  = time.Hour        // longest wait for a cluster
	probeCap    = 15 * time.Minute // longest wait for the connection
	// number of successive clusters with broken calls after which the relay is offline
	unreachableLimit = 3
	forbiddenLimit   = 5 // number of successive clusters with answer 403 after which the relay pauses
	quotaTries       = 3
	batchSize        = 64                  // clusters in each step
	retention        = 90 * 24 * time.Hour // of the journal and of closed subscriptions
	cleanupInterval  = time.Hour
)

// Options configures a relay.
type Options struct {
	DB          *store.DB
	Clusters    Clusters
	Client      *Client
	URL         string // URL of AMS, as in the client
	Credentials Credentials
	Clock       clockwork.Clock
	Logger      *slog.Logger
	Account     string        // owner of new subscriptions; "" for the account of the credentials
	FinalStatus string        // Active or Disconnected
	Quarantine  time.Duration // 0 for 15 minutes
	Refresh     time.Duration // maximum age of the recorded AMS object before it is read again; 0 for a day
	Workers     int           // clusters that are processed in parallel; 0 for 4
	ByHand      bool          // connect only for the time that Connect allows
	Machine     string        // ID of this machine, by which copied data is detected; "" detects nothing
	Key         *sitekey.Key  // signs courier files
	Jitter      func(upTo time.Duration) time.Duration
	Metrics     *Metrics // nil for new metrics
	Off         bool     // the configuration disables AMS; Run is not called
}

// Relay synchronizes AMS with the site whenever there is a connection. Changes of clusters wake the
// relay and never wait for it.
type Relay struct {
	options Options
	gauges  relayGauges
	wake    chan struct{}

	mu           sync.Mutex
	state        State
	since        time.Time // time at which state began
	problem      string    // reason for not being online
	contact      time.Time // last answer of AMS
	probeAt      time.Time
	probes       int
	pauseUntil   time.Time // end of a pause that AMS requested
	connectUntil time.Time // end of the time that Connect allows
	cleanupAt    time.Time
	lastStep     time.Time       // wall clock at the last step
	unreachable  map[string]bool // clusters with broken calls since the last successful call
	forbidden    map[string]bool
	jobs         map[string]*job
	identity     Identity
	localOwner   local.Owner
	lastSecret   Secret // secret of the last attempt to open a session
	openNow      bool   // open a session although no cluster may be queued
}

// New returns a relay. It does nothing before [Relay.Run].
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
		options: options, gauges: newRelayGauges(), wake: make(chan struct{}, 1), state: state,
		since: options.Clock.Now(),
		localOwner: local.Owner{OrganizationID: local.LocalID(options.Key, "organization"),
			AccountID: local.LocalID(options.Key, "account")},
		unreachable: make(map[string]bool), forbidden: make(map[string]bool), jobs: make(map[string]*job),
	}
}

// Run synchronizes AMS until the context ends. It returns early only if the store is closed.
func (r *Relay) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := r.load(ctx, &group); err != nil {
		if ctx.Err() != nil {
			return nil // stopped before the start
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

// load schedules the queued clusters and follows later changes. It tries until the store can be
// read. Nothing is reported before, because the stored identity decides for which organization.
func (r *Relay) load(ctx context.Context, group *sync.WaitGroup) error {
	for {
		revision, err := r.firstScan(ctx)
		if err == nil {
			r.setState(Offline, "") // without the problem of an earlier attempt
			group.Go(func() { r.watch(ctx, revision) })
			return nil
		}
		if ctx.Err() != nil || errors.Is(err, store.ErrClosed) {
			return err
		}
		r.setState(Offline, "The clusters that wait for AMS could not be read: "+sentence.Ending(err))
		r.awaitRescan(ctx, err)
	}
}

func (r *Relay) firstScan(ctx context.Context) (revision uint64, err error) {
	if err := r.index(ctx); err != nil {
		return 0, err
	}
	return r.scan()
}

// rescanInterval is the wait after a failed reading of the queued clusters.
const rescanInterval = 10 * time.Second

// awaitRescan logs a failed reading of the queued clusters and waits for the next attempt.
func (r *Relay) awaitRescan(ctx context.Context, err error) {
	r.options.Logger.Error("The clusters that wait for AMS could not be read. Landfall tries again.", "error", err,
		"wait", rescanInterval)
	select {
	case <-ctx.Done():
	case <-r.options.Clock.After(rescanInterval):
	}
}

// watch follows the changes after a revision until ctx ends or the store is closed. If the store no
// longer has these changes, watch reads the queued clusters instead.
func (r *Relay) watch(ctx context.Context, revision uint64) {
	for {
		watcher := r.options.DB.Watch(ctx, revision, outbox.DesiredRows.Prefix())
		for changes := range watcher.C() {
			r.follow(changes)
		}
		err := watcher.Err()
		for err != nil {
			if ctx.Err() != nil || errors.Is(err, store.ErrClosed) {
				return
			}
			if revision, err = r.scan(); err != nil {
				r.awaitRescan(ctx, err)
			}
		}
		r.wakeUp()
	}
}

// index builds the indexes once, in a store from an earlier release.
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

// scan schedules all queued clusters and returns the revision of the store.
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

// step processes the due clusters and returns the time of the next step, or the zero time to wait
// for an event.
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
		r.options.Logger.Error("A step of the AMS relay failed.", "error", err)
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
