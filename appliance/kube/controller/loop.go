// Package controller runs reconcilers. The loop calls a reconciler whenever an object of its kind,
// or another object that it watches, has changed in the store. The reconciler then establishes the
// desired state of the object.
//
// A reconciler receives only the name of an object and reads the current state. Therefore, it does
// not matter if a change is made during a reconcile, missed during a crash, or delivered twice.
//
// To add a reconciler, implement [Reconciler] and list it in the Reconcilers method of its package.
// The appliance adds these lists to the loop (appliance/kubernetes_controllers.go).
//
// Design: docs/design.md#the-kubernetes-api-in-the-process,
// docs/design.md#projectors-and-controllers.
package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
	"go.opentelemetry.io/otel/attribute"
	"k8s.io/apimachinery/pkg/util/wait"

	"landfall/appliance/kube/objects"
	"landfall/appliance/tracing"
	"landfall/store"
)

// Key identifies an object by its kind and name.
type Key struct {
	Kind            objects.Kind
	Namespace, Name string
}

func (k Key) String() string {
	if k.Namespace == "" {
		return k.Kind.String() + "/" + k.Name
	}
	return k.Kind.String() + " " + k.Namespace + "/" + k.Name
}

// Reconciler reconciles the objects of one kind.
type Reconciler interface {
	// Kind returns the kind. The loop queues the objects of the kind when it starts and when they
	// change. If no objects of the kind are stored, the loop queues a key without a name when it
	// starts.
	Kind() objects.Kind
	// Watches returns the other kinds whose changes queue objects of the kind.
	Watches() []Watch
	// Reconcile establishes the desired state of an object. If the object does not exist, Reconcile
	// reverts what the object specified. The object is requeued after the returned duration unless
	// that is 0. After an error, the object is requeued with backoff: after one second, then twice
	// as long each time, up to five minutes. A change of the object, or of a watched object, queues
	// the object immediately. Errors that the object's status reports are returned as a
	// *[ReportedError]. Reconcile is never called concurrently for the same object.
	Reconcile(ctx context.Context, namespace, name string) (requeueAfter time.Duration, err error)
}

// ReportedError is an error that the status of the object reports. The loop does not log it.
type ReportedError struct{ Err error }

func (e *ReportedError) Error() string { return e.Err.Error() }
func (e *ReportedError) Unwrap() error { return e.Err }

// Watch queues objects when an object of another kind changes: a ClusterDeployment, for example,
// when its pull secret changes.
type Watch struct {
	Kind objects.Kind
	// Prefix selects, instead of Kind, the rows of the store whose keys have a prefix. Map then
	// receives the rest of the key as the name.
	Prefix string
	// Map returns the objects to queue for a changed object. The changed object may have been
	// deleted. After an error about a damaged row, the loop queues the returned objects.
	Map func(tx *store.Tx, namespace, name string) ([]Key, error)
	// Missed limits the watch to the changes that were made before the loop started. It is needed
	// if the reconciler of the changed object queues the objects of Map itself, because a crash
	// loses these keys.
	Missed bool
	// EnqueueAll also queues the results of Map when the loop starts. It is needed only if Map
	// returns objects that may not exist, because the loop queues all existing objects anyway.
	EnqueueAll bool
}

// workers is the number of objects of a kind that are reconciled concurrently. Each kind has its
// own workers, so that a reconcile that waits for a registry or a BMC does not delay other kinds.
const workers = 4

// newBackoff returns the delays before the retries of a failed reconcile.
func newBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: time.Second, Factor: 2, Cap: 5 * time.Minute, Steps: math.MaxInt}
}

// Loop calls reconcilers. [Loop.Add] registers them before [Loop.Run].
type Loop struct {
	db          *store.DB
	clock       clockwork.Clock
	logger      *slog.Logger
	reconcilers map[objects.Kind]Reconciler
	watches     map[objects.Kind][]Watch // by the kind that is watched
	rowWatches  []Watch                  // watches with a prefix
	inputs      string                   // see Resume; "" if the loop does not record its progress
	follower    Follower                 // nil for none

	delayChanged chan struct{} // receives a value when the time of the next delayed key may have changed
	progress     *sync.Cond    // uses mu; signals that a reconcile finished or changes were queued

	mu       sync.Mutex
	queues   map[objects.Kind]*queue
	queued   map[Key]bool // keys in the queues
	active   map[Key]bool // keys that a worker reconciles; true if the object changed meanwhile
	delayed  map[Key]delay
	failed   map[Key]*wait.Backoff
	atStart  map[Key]bool // see RepeatAtStart
	missed   uint64       // the last revision before the loop started
	revision uint64       // all changes up to this revision have been queued
	ended    bool
	recorder recorder
}

// delay is the time at which a key is queued, and the duration from the reconcile to that time.
type delay struct {
	at    time.Time
	after time.Duration
}

// queue holds the keys of one kind that wait for a worker, in order.
type queue struct {
	keys     []Key
	notEmpty *sync.Cond // uses the loop's mu; signals that a key was added or the loop ended
}

// New returns a loop over a store.
func New(db *store.DB, clock clockwork.Clock, logger *slog.Logger) *Loop {
	l := &Loop{
		db: db, clock: clock, logger: logger,
		reconcilers: map[objects.Kind]Reconciler{},
		watches:     map[objects.Kind][]Watch{},

		delayChanged: make(chan struct{}, 1),
		queues:       map[objects.Kind]*queue{},
		queued:       map[Key]bool{},
		active:       map[Key]bool{},
		delayed:      map[Key]delay{},
		failed:       map[Key]*wait.Backoff{},
		atStart:      map[Key]bool{},
		recorder:     newRecorder(),
	}
	l.progress = sync.NewCond(&l.mu)
	return l
}

// Add registers reconcilers. It must be called before Run.
func (l *Loop) Add(reconcilers ...Reconciler) {
	for _, r := range reconcilers {
		l.reconcilers[r.Kind()] = r
		l.queues[r.Kind()] = &queue{notEmpty: sync.NewCond(&l.mu)}
		for _, watch := range r.Watches() {
			if watch.Prefix != "" {
				l.rowWatches = append(l.rowWatches, watch)
				continue
			}
			l.watches[watch.Kind] = append(l.watches[watch.Kind], watch)
		}
	}
}

// Enqueue adds objects to the queues.
func (l *Loop) Enqueue(keys ...Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		l.add(key)
	}
}

// RepeatAtStart queues an object at the next start. A reconcile of the object calls it if its
// result is only in memory, for example a task in the background that will enqueue the object.
func (l *Loop) RepeatAtStart(key Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.atStart[key] = true
}

// RetryFailed queues all objects whose last reconcile failed, and resets their backoff. It is
// called after a change outside of the objects, such as new mirror rules.
func (l *Loop) RetryFailed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.failed {
		l.add(key)
	}
	clear(l.failed)
}

func (l *Loop) add(key Key) {
	if l.reconcilers[key.Kind] == nil {
		return
	}
	delete(l.delayed, key)
	if _, active := l.active[key]; active {
		l.active[key] = true
		return
	}
	if !l.queued[key] {
		l.queued[key] = true
		q := l.queues[key.Kind]
		q.keys = append(q.keys, key)
		q.notEmpty.Signal()
	}
}

// Run reconciles every object once, and then each object that changes, until the context ends or
// the store fails. It waits for its goroutines before it returns.
func (l *Loop) Run(ctx context.Context) error {
	from, err := l.enqueueAll()
	if err != nil {
		return fmt.Errorf("list the objects: %w", err)
	}
	return l.run(ctx, from)
}

// run starts the workers and follows the changes after a revision.
func (l *Loop) run(ctx context.Context, from uint64) error {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	for _, q := range l.queues {
		for range workers {
			group.Go(func() { l.work(ctx, q) })
		}
	}
	group.Go(func() { l.enqueueDelayed(ctx) })
	group.Go(func() { l.recordChanges(ctx) })
	err := l.watch(ctx, from)
	cancel()
	l.mu.Lock()
	l.ended = true
	l.progress.Broadcast()
	for _, q := range l.queues {
		q.notEmpty.Broadcast()
	}
	l.mu.Unlock()
	group.Wait()
	if errors.Is(err, context.Canceled) {
		l.recordEnd(ctx)
		return nil
	}
	return err
}

// enqueueAll queues every object that has a reconciler, and returns the revision from which to
// watch for changes.
func (l *Loop) enqueueAll() (revision uint64, err error) {
	var keys []Key
	// The snapshot may be newer than the feed, and a watch can't start after the feed's revision.
	// Queueing a change twice is harmless.
	revision = l.db.Revision()
	err = l.db.View(func(tx *store.Tx) error {
		stored := objects.Kinds()
		for kind := range l.reconcilers {
			if !slices.Contains(stored, kind) {
				keys = append(keys, Key{Kind: kind})
			}
		}
		for _, kind := range stored {
			if l.reconcilers[kind] == nil {
				continue
			}
			if err := objects.Names(tx, kind, "", func(namespace, name string) error {
				keys = append(keys, Key{kind, namespace, name})
				return nil
			}); err != nil {
				return err
			}
		}
		watching, err := l.watchingAtStart(tx)
		keys = append(keys, watching...)
		return err
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		l.add(key)
	}
	l.revision, l.ended = revision, false // set under the same lock as the keys, see WaitIdle
	l.scheduleRecord(recordAfter)
	l.progress.Broadcast()
	return revision, err
}

// watchingAtStart lists the objects that the watches with EnqueueAll queue.
func (l *Loop) watchingAtStart(tx *store.Tx) (keys []Key, err error) {
	for kind, watches := range l.watches {
		for _, watch := range watches {
			if !watch.EnqueueAll {
				continue
			}
			if err := objects.Names(tx, kind, "", func(namespace, name string) error {
				watching, err := l.watching(tx, watch, namespace, name)
				keys = append(keys, watching...)
				return err
			}); err != nil {
				return nil, err
			}
		}
	}
	return keys, nil
}

// watching lists the objects that a watch queues. A damaged row must not end the loop, which would
// end again at each start: only the objects that can't be found because of it are left out.
func (l *Loop) watching(tx *store.Tx, watch Watch, namespace, name string) ([]Key, error) {
	keys, err := watch.Map(tx, namespace, name)
	if store.IsDamaged(err) {
		l.logger.Warn("Objects were not queued after a change, because a row is damaged.", "error", err)
		return keys, nil
	}
	return keys, err
}

// watch queues the objects of each change until the context ends. It also records the revisions of
// all other changes for WaitIdle.
func (l *Loop) watch(ctx context.Context, from uint64) error {
	for {
		watch := l.db.Watch(ctx, from)
		for changes := range watch.C() {
			if err := l.enqueueChanges(changes); err != nil {
				return err
			}
		}
		err := watch.Err()
		if !errors.Is(err, store.ErrCompacted) {
			return err
		}
		if from, err = l.enqueueAll(); err != nil {
			return err
		}
	}
}

func (l *Loop) enqueueChanges(changes []store.Change) error {
	var keys []Key
	others := false
	for _, change := range changes {
		kind, namespace, name, ok := objects.ParseKey(change.Key)
		if ok {
			keys = append(keys, Key{kind, namespace, name})
		}
		watches := l.watches[kind]
		if !ok {
			watches, name = l.rowWatches, change.Key
			others = others || change.Key != followedRows.Prefix()+followedKey
		}
		for _, watch := range watches {
			if !strings.HasPrefix(name, watch.Prefix) || watch.Missed && change.Revision > l.missed {
				continue
			}
			name := strings.TrimPrefix(name, watch.Prefix)
			if err := l.db.View(func(tx *store.Tx) error {
				watching, err := l.watching(tx, watch, namespace, name)
				keys = append(keys, watching...)
				return err
			}); err != nil {
				return fmt.Errorf("find the objects that watch %s: %w", change.Key, err)
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		l.add(key)
	}
	l.revision = changes[len(changes)-1].Revision
	l.noteChanges(len(keys) > 0, others)
	l.progress.Broadcast()
	return nil
}

func (l *Loop) work(ctx context.Context, q *queue) {
	for {
		key, ok := l.next(q)
		if !ok {
			return
		}
		within, span := tracing.Start(ctx, "reconcile "+key.Kind.Kind,
			attribute.String("k8s.namespace.name", key.Namespace), attribute.String("landfall.object", key.Name))
		requeueAfter, err := l.reconcilers[key.Kind].Reconcile(within, key.Namespace, key.Name)
		tracing.End(span, err)
		l.finish(ctx, key, requeueAfter, err)
	}
}

// next returns the next key of a queue. ok is false when the loop has ended.
func (l *Loop) next(q *queue) (key Key, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(q.keys) == 0 && !l.ended {
		q.notEmpty.Wait()
	}
	if l.ended {
		return Key{}, false
	}
	key, q.keys = q.keys[0], q.keys[1:]
	delete(l.queued, key)
	delete(l.atStart, key)
	l.active[key] = false
	return key, true
}

// finish requeues a key after its reconcile, if necessary.
func (l *Loop) finish(ctx context.Context, key Key, requeueAfter time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := l.active[key]
	delete(l.active, key)
	if ctx.Err() != nil { // the reconcile may have been interrupted
		l.atStart[key] = true
		l.noteFinished(key)
		return
	}
	defer l.noteFinished(key)
	if err != nil {
		if l.failed[key] == nil {
			l.failed[key] = newBackoff()
		}
		requeueAfter = l.failed[key].Step()
		if _, reported := errors.AsType[*ReportedError](err); !reported {
			l.logger.WarnContext(ctx, "An object could not be reconciled.", "object", key.String(), "error", err,
				"retry_in", requeueAfter)
		}
	} else {
		delete(l.failed, key)
	}
	switch {
	case changed:
		l.add(key)
	case requeueAfter > 0:
		l.delayed[key] = delay{l.clock.Now().Add(requeueAfter), requeueAfter}
		select {
		case l.delayChanged <- struct{}{}:
		default:
		}
	}
	l.progress.Broadcast()
}

// enqueueDelayed queues delayed keys at their times, until the context ends.
func (l *Loop) enqueueDelayed(ctx context.Context) {
	for l.sleep(ctx) {
	}
}

// sleep waits for the time of the next delayed key, or until another key is delayed. It returns
// false when the context has ended.
func (l *Loop) sleep(ctx context.Context) bool {
	var due <-chan time.Time
	if at, ok := l.enqueueDue(); ok {
		timer := l.clock.NewTimer(at.Sub(l.clock.Now()))
		defer timer.Stop()
		if !at.After(l.clock.Now()) {
			return true // a test has advanced the clock before the timer existed
		}
		due = timer.Chan()
	}
	select {
	case <-ctx.Done():
		return false
	case <-l.delayChanged:
	case <-due:
	}
	return true
}

// enqueueDue queues the delayed keys that are due, and returns the time of the next delayed key.
func (l *Loop) enqueueDue() (at time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	for key, when := range l.delayed {
		switch {
		case !when.at.After(now):
			l.add(key)
		case !ok || when.at.Before(at):
			at, ok = when.at, true
		}
	}
	return at, ok
}

// WaitIdle waits until the controllers have reconciled every change that was committed before the
// call, and every change that results from it. It does not wait for delayed keys. Tests call it
// before they check the result.
func (l *Loop) WaitIdle(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.progress.Broadcast()
	})
	defer stop()
	for {
		revision := l.db.Revision()
		l.mu.Lock()
		for ctx.Err() == nil && !l.ended && (l.revision < revision || len(l.queued)+len(l.active) > 0) {
			l.progress.Wait()
		}
		l.mu.Unlock()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if l.db.Revision() == revision {
			return nil
		}
	}
}
