package ams

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
	"golang.org/x/sync/errgroup"

	"landfall/appliance/ams/outbox"
	"landfall/appliance/sitekey"
	"landfall/store"
)

// State is how the relay stands with AMS.
type State string

// The states of the relay.
const (
	NoCredentials     State = "no-credentials"     // nothing is tried until there are some
	ByHand            State = "by-hand"            // connects only when a person says so
	Offline           State = "offline"            // tried, and tried again later
	Online            State = "online"             //
	PausedCredentials State = "paused-credentials" // AMS does not take the credentials
	PausedPermission  State = "paused-permission"  // AMS forbids everything
	PausedIdentity    State = "paused-identity"    // the credentials are of another organization than before
	PausedPerson      State = "paused-person"      // this data was copied: a person says who speaks
)

const (
	backoffBase  = 2 * time.Second
	backoffCap   = time.Hour        // of a cluster
	probeCap     = 15 * time.Minute // of the connection
	missesToStop = 3                // broken calls in a row, over different clusters, that say the line is down
	bansToStop   = 5                // clusters in a row that are forbidden
	quotaTries   = 3
	stepSize     = 64                  // clusters before it is looked anew whose turn it is
	keepHistory  = 90 * 24 * time.Hour // of the journal and of ended subscriptions
	tidyEvery    = time.Hour
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
}

// Relay tells AMS what it must come to know whenever there is a way. It holds up nobody: the clusters' own changes only wake
// it.
type Relay struct {
	options Options
	wake    chan struct{}

	mu       sync.Mutex
	state    State
	since    time.Time // of the state
	problem  string    // why it is not online
	contact  time.Time // AMS answered last
	probeAt  time.Time
	probes   int
	quiet    time.Time // AMS asked for silence until then
	window   time.Time // connecting by hand is allowed until then
	tidyAt   time.Time
	misses   map[string]bool // clusters whose calls broke since the last that did not
	bans     map[string]bool
	jobs     map[string]*job
	identity Identity
	tried    Secret // by which a session was opened last, or was not
}

// job is a cluster of which AMS has yet to hear.
type job struct {
	since     time.Time // what is desired changed
	next      time.Time
	attempts  int
	throttled int
	refresh   bool
	running   bool
	moved     bool // what is desired changed while it ran
	leased    bool
	failure   string
}

// Identity is in whose name this site speaks; it is fixed at the first contact.
type Identity struct {
	URL              string `json:"api_url"`
	OrganizationID   string `json:"organization_id"`
	OrganizationName string `json:"organization_name,omitempty"`
	AccountID        string `json:"account_id"`
	Username         string `json:"account_username"`
	Machine          string `json:"machine,omitempty"`
}

func (i Identity) String() string { return i.URL + " " + i.OrganizationID }

var identities = store.NewBucket[Identity]("subscription-identity", 1)

const identityKey = "site"

// New returns a relay that does nothing before [Relay.Run].
func New(options Options) *Relay {
	options.Quarantine = cmp.Or(options.Quarantine, 15*time.Minute)
	options.Refresh = cmp.Or(options.Refresh, 24*time.Hour)
	options.Workers = cmp.Or(options.Workers, 4)
	if options.Jitter == nil {
		options.Jitter = func(upTo time.Duration) time.Duration { return rand.N(upTo + 1) }
	}
	return &Relay{
		options: options, wake: make(chan struct{}, 1), state: Offline, since: options.Clock.Now(),
		misses: make(map[string]bool), bans: make(map[string]bool), jobs: make(map[string]*job),
	}
}

// Run tells AMS until the context ends. It returns early only when the store can not be read.
func (r *Relay) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := r.load(ctx, &group); err != nil {
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
	revision, err := r.scan()
	if err != nil {
		return err
	}
	watcher := r.options.DB.Watch(ctx, revision, outbox.Rows.Prefix())
	group.Go(func() {
		for {
			for changes := range watcher.C() {
				r.follow(changes)
			}
			if !errors.Is(watcher.Err(), store.ErrCompacted) {
				return
			}
			if revision, err = r.scan(); err != nil {
				r.options.Logger.Error("What AMS must be told can not be read; it is read again at the next start.", "error", err)
				return
			}
			watcher = r.options.DB.Watch(ctx, revision, outbox.Rows.Prefix())
		}
	})
	return nil
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
		return outbox.Rows.Each(tx, "", func(id string, d *outbox.Desired) error {
			_, remembered, err := entry(tx, id)
			if err != nil {
				return err
			}
			if remembered.Closed == "" && !(remembered.Done(d) && d.DeletedAt.IsZero() && remembered.Mark == nil) {
				r.enqueue(id, d.ChangedAt, false)
			}
			return nil
		})
	})
	return revision, err
}

func (r *Relay) setIdentity(identity Identity) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.identity = identity
}

func (r *Relay) follow(changes []store.Change) {
	for _, change := range changes {
		if !change.Deleted {
			r.enqueue(strings.TrimPrefix(change.Key, outbox.Rows.Prefix()), r.options.Clock.Now(), false)
		}
	}
	r.mu.Lock()
	working := r.state == Online || !r.options.Clock.Now().Before(r.probeAt)
	r.mu.Unlock()
	if working {
		r.nudge()
	}
}

func (r *Relay) nudge() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *Relay) enqueue(id string, since time.Time, refresh bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	held, ok := r.jobs[id]
	if !ok {
		r.jobs[id] = &job{since: since, refresh: refresh}
		return
	}
	if refresh {
		return
	}
	held.refresh = false
	if held.running {
		held.moved = true
		return
	}
	if !held.leased {
		held.next, held.attempts, held.throttled = time.Time{}, 0, 0
	}
}

// step does all that is due and returns when to come again; zero is when something happens.
func (r *Relay) step(ctx context.Context) time.Time {
	now := r.options.Clock.Now()
	r.cutWaits(now)
	if again, ready := r.ready(ctx, now); !ready {
		return again
	}
	r.tidy(ctx, now)
	due := r.due(now)
	var group errgroup.Group
	group.SetLimit(r.options.Workers)
	for _, id := range due {
		if ctx.Err() != nil || !r.mayGoOn() {
			break
		}
		refresh := r.begin(id)
		group.Go(func() error {
			r.finish(ctx, id, r.teller().tell(ctx, id, refresh))
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		r.options.Logger.Error("AMS could not be told.", "error", err)
	}
	return r.next()
}

// cutWaits makes waits that a jump of the clock has made longer than they may be what they may be.
func (r *Relay) cutWaits(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, wait := range []struct {
		at  *time.Time
		cap time.Duration
	}{{&r.probeAt, probeCap}, {&r.quiet, longestWait}, {&r.tidyAt, tidyEvery}} {
		if latest := now.Add(wait.cap); wait.at.After(latest) {
			*wait.at = latest
		}
	}
	for _, j := range r.jobs {
		if latest := now.Add(backoffCap); j.next.After(latest) && !j.leased && j.throttled < quotaTries {
			j.next = latest
		}
	}
}

// ready sees that there is a session with AMS, if there is reason for one.
func (r *Relay) ready(ctx context.Context, now time.Time) (time.Time, bool) {
	r.mu.Lock()
	state, probeAt, quiet, window, waiting, refused := r.state, r.probeAt, r.quiet, r.window, len(r.jobs), r.tried
	r.mu.Unlock()
	switch {
	case r.options.ByHand && !now.Before(window):
		r.enter(ByHand, "AMS is told when a person connects the site for a while.")
		return time.Time{}, false
	case state == Online && now.Before(quiet):
		return quiet, false
	case state == Online:
		return time.Time{}, true
	case waiting == 0 && window.Before(now):
		return time.Time{}, false
	case now.Before(probeAt):
		return probeAt, false
	}
	secret, err := r.options.Credentials.Secret(ctx)
	if paused := []State{PausedCredentials, PausedPermission, PausedIdentity, PausedPerson}; slices.Contains(paused, state) && (err != nil || secret == refused) {
		return time.Time{}, false // until a person or new credentials end it
	}
	if secret != refused {
		r.options.Client.tokens.forget()
	}
	r.mu.Lock()
	r.tried = secret
	r.mu.Unlock()
	if err == nil && secret.Empty() {
		r.pause(NoCredentials, "There are no credentials for AMS; give them with landfall ams login or on the page.")
		return time.Time{}, false
	}
	if err == nil {
		err = r.open(ctx)
	}
	if err != nil {
		return r.lost(ctx, err), false
	}
	return time.Time{}, true
}

// errPaused says that a session is not opened until a person decides.
var errPaused = errors.New("paused")

// open begins a session: who are we, and are we who we were?
func (r *Relay) open(ctx context.Context) error {
	account, err := r.options.Client.Account(ctx)
	if err != nil {
		return err
	}
	now := Identity{
		URL: r.options.URL, OrganizationID: account.OrganizationID, OrganizationName: account.Organization,
		AccountID: account.ID, Username: account.Username, Machine: r.options.Machine,
	}
	r.mu.Lock()
	was := r.identity
	r.contact = r.options.Clock.Now()
	r.mu.Unlock()
	switch {
	case was == Identity{}:
	case was.String() != now.String():
		r.pause(PausedIdentity, "The credentials are of organization "+orNone(now.OrganizationName, now.OrganizationID)+" at "+now.URL+", and this site spoke for "+
			orNone(was.OrganizationName, was.OrganizationID)+" at "+was.URL+" so far; give credentials of that one, or say that the site changes to the new one.")
		return errPaused
	case was.Machine != "" && now.Machine != "" && was.Machine != now.Machine:
		r.pause(PausedPerson, "This data comes from another machine, which may still speak to AMS; say that this one speaks from now on.")
		return errPaused
	}
	if err := r.pin(ctx, now); err != nil {
		return err
	}
	r.enter(Online, "")
	return nil
}

func orNone(name, id string) string {
	if name == "" {
		return id
	}
	return name + " (" + id + ")"
}

func (r *Relay) pin(ctx context.Context, identity Identity) error {
	r.setIdentity(identity)
	return r.options.DB.Update(ctx, func(tx *store.Tx) error { return identities.Put(tx, identityKey, &identity) })
}

func (r *Relay) enter(state State, problem string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.options.Clock.Now()
	if r.state != state {
		r.since = now
		r.options.Logger.Info("The connection to AMS changed.", "state", state, "problem", problem)
	}
	r.state, r.problem = state, problem
	if state == Online {
		r.probes, r.probeAt, r.contact = 0, time.Time{}, now
		clear(r.misses)
		clear(r.bans)
	}
}

// pause stops everything until a person or new credentials end it.
func (r *Relay) pause(state State, problem string) {
	r.enter(state, problem)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probeAt = r.options.Clock.Now()
}

// lost notes that there is no session and returns when to try for one.
func (r *Relay) lost(ctx context.Context, err error) time.Time {
	if errors.Is(err, errPaused) || ctx.Err() != nil {
		return time.Time{}
	}
	failure, ok := errors.AsType[*CallError](err)
	switch {
	case ok && failure.Class == Unauthorized:
		r.pause(PausedCredentials, failure.Text)
		return time.Time{}
	case ok && failure.Class == Forbidden:
		r.pause(PausedPermission, failure.Text)
		return time.Time{}
	}
	wait := r.backoff(r.probesMade(), probeCap)
	if ok && failure.RetryAfter > wait {
		wait = failure.RetryAfter
	}
	r.enter(Offline, sentenceOf(err))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probeAt = r.options.Clock.Now().Add(wait)
	return r.probeAt
}

func (r *Relay) probesMade() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probes++
	return r.probes - 1
}

func sentenceOf(err error) string {
	if failure, ok := errors.AsType[*CallError](err); ok {
		return failure.Text
	}
	return err.Error()
}

// backoff is full jitter: somewhere between nothing and a limit that doubles.
func (r *Relay) backoff(attempts int, limit time.Duration) time.Duration {
	upTo := limit
	if attempts < 20 {
		upTo = min(limit, backoffBase<<attempts)
	}
	return r.options.Jitter(upTo)
}

func (r *Relay) teller() *teller {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &teller{
		api: r.options.Client, book: &storeBook{r.options.DB, r.options.Clusters}, clock: r.options.Clock, by: byRelay,
		account: cmp.Or(r.options.Account, r.identity.Username), identity: r.identity.String(),
		site: Site{
			Organization: r.identity.OrganizationID, AccountID: r.identity.AccountID,
			FinalStatus: r.options.FinalStatus, Quarantine: r.options.Quarantine,
		},
	}
}

// due lists the clusters whose turn it is, those that wait longest first and mere refreshes last.
func (r *Relay) due(now time.Time) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ids []string
	for id, j := range r.jobs {
		if !j.running && !now.Before(j.next) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		x, y := r.jobs[a], r.jobs[b]
		if x.refresh != y.refresh {
			if x.refresh {
				return 1
			}
			return -1
		}
		return cmp.Or(x.since.Compare(y.since), cmp.Compare(a, b))
	})
	return ids[:min(len(ids), stepSize)]
}

func (r *Relay) mayGoOn() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.options.Clock.Now()
	return r.state == Online && !now.Before(r.quiet) && (!r.options.ByHand || now.Before(r.window))
}

func (r *Relay) begin(id string) (refresh bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	j := r.jobs[id]
	j.running, j.moved, j.leased = true, false, false
	return j.refresh
}

// finish notes how far the work on a cluster came, and what its failure says of the line.
func (r *Relay) finish(ctx context.Context, id string, came result) {
	r.judge(id, came)
	if came.failure != nil && came.failure.Class == Throttled && r.overQuota(id, came.failure) {
		stop := outbox.Stop{
			Kind: outbox.Blocked, HTTP: came.failure.HTTP, Code: came.failure.Code, OperationID: came.failure.OperationID,
			Reason: "AMS refuses because of a limit or quota, and is asked again in a day: " + came.failure.Text,
		}
		stop.RetryAt = r.options.Clock.Now().UTC().Add(quotaRetry)
		v := &visit{teller: r.teller(), id: id}
		var err error
		if v.d, v.r, err = v.book.Entry(ctx, id); err == nil {
			came = v.stop(ctx, stop, came.failure.Op)
		}
	}
	if came.err != nil && ctx.Err() == nil {
		r.options.Logger.Error("What AMS was told could not be written down; it is found out again.", "cluster", id, "error", came.err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	j := r.jobs[id]
	j.running, j.failure = false, ""
	now := r.options.Clock.Now()
	switch {
	case j.moved:
		j.next, j.attempts = time.Time{}, 0
	case came.err != nil:
		j.failure, j.next = came.err.Error(), now.Add(r.backoff(j.attempts, backoffCap))
		j.attempts++
	case came.state == told && came.until.IsZero(), came.state == stopped && came.until.IsZero():
		delete(r.jobs, id)
	case came.state == leased:
		j.leased, j.next = true, came.until
	case !came.until.IsZero():
		j.next = came.until
	default:
		if came.failure != nil {
			j.failure = came.failure.Text
		}
		if r.state == Online {
			j.next = now.Add(r.backoff(j.attempts, backoffCap))
			j.attempts++
		}
	}
}

// overQuota tells whether AMS has refused a creation for a limit so often that it is no matter of pace.
func (r *Relay) overQuota(id string, failure *CallError) bool {
	if failure.Op != "create" || failure.RetryAfter > 0 && !failure.Quota {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	j := r.jobs[id]
	j.throttled++
	return j.throttled >= quotaTries
}

// judge draws conclusions about the line from one cluster's calls.
func (r *Relay) judge(id string, came result) {
	failure := came.failure
	if failure == nil {
		if came.err == nil && came.state != leased {
			r.mu.Lock()
			r.contact = r.options.Clock.Now()
			clear(r.misses)
			clear(r.bans)
			r.mu.Unlock()
		}
		return
	}
	switch failure.Class {
	case Unauthorized:
		r.pause(PausedCredentials, failure.Text)
	case Intercepted:
		r.offline(failure)
	case Unreachable:
		r.mu.Lock()
		r.misses[id] = true
		down := len(r.misses) >= missesToStop || len(r.misses) >= len(r.jobs)
		r.mu.Unlock()
		if down {
			r.offline(failure)
		}
	case Forbidden:
		r.mu.Lock()
		r.bans[id] = true
		all := failure.Banned || len(r.bans) >= bansToStop
		r.mu.Unlock()
		if all {
			r.pause(PausedPermission, failure.Text)
		}
	case Throttled:
		if failure.RetryAfter > 0 {
			r.mu.Lock()
			r.quiet = r.options.Clock.Now().Add(failure.RetryAfter)
			r.mu.Unlock()
		}
	}
}

// offline ends the session; the next one is tried for after a wait.
func (r *Relay) offline(failure *CallError) {
	wait := r.backoff(r.probesMade(), probeCap)
	r.enter(Offline, failure.Text)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probeAt = r.options.Clock.Now().Add(wait)
}

// next is when the relay has something to do by itself.
func (r *Relay) next() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.state == Offline && len(r.jobs) > 0:
		return r.probeAt
	case r.state != Online:
		return time.Time{}
	}
	next := r.tidyAt
	for _, j := range r.jobs {
		if !j.running && j.next.Before(next) {
			next = j.next
		}
	}
	now := r.options.Clock.Now() // what is due has the zero time, which would mean never
	for _, earliest := range []time.Time{r.quiet, now} {
		if next.Before(earliest) {
			next = earliest
		}
	}
	return next
}

// tidy asks once an hour for rows that were not seen for long, and removes what has ended long ago.
func (r *Relay) tidy(ctx context.Context, now time.Time) {
	r.mu.Lock()
	due := !now.Before(r.tidyAt)
	if due {
		r.tidyAt = now.Add(tidyEvery)
	}
	r.mu.Unlock()
	if !due {
		return
	}
	var old []string
	var ended []string
	err := r.options.DB.View(func(tx *store.Tx) error {
		if err := outbox.Replies.Each(tx, "", func(id string, remembered *outbox.Remembered) error {
			switch {
			case remembered.Closed != "" && now.Sub(remembered.ClosedAt) > keepHistory:
				ended = append(ended, id)
			case remembered.Closed == "" && remembered.SubscriptionID != "" && now.Sub(remembered.RemoteAt) > r.options.Refresh:
				r.enqueue(id, now, true)
			}
			return nil
		}); err != nil {
			return err
		}
		limit := journalKey(&Line{At: now.Add(-keepHistory)})
		return journal.Keys(tx, "", func(key string) error {
			if key >= limit {
				return store.ErrStop
			}
			old = append(old, key)
			return nil
		})
	})
	if err == nil && len(old)+len(ended) > 0 {
		err = r.options.DB.Update(ctx, func(tx *store.Tx) error { return forget(tx, old, ended) })
	}
	if err != nil && ctx.Err() == nil {
		r.options.Logger.Warn("What AMS was told long ago could not be removed.", "error", err)
	}
}

func forget(tx *store.Tx, lines, clusters []string) error {
	var errs []error
	for _, key := range lines {
		errs = append(errs, journal.Delete(tx, key))
	}
	for _, id := range clusters {
		errs = append(errs, outbox.Rows.Delete(tx, id), outbox.Replies.Delete(tx, id))
	}
	return errors.Join(errs...)
}
