// Package controller runs reconcilers: what makes of an object's desired state, as it is in the
// store, something real, and is called again whenever the object or one that it depends on changes,
// until there is nothing left to do.
//
// A reconciler is given only the name of an object. It reads what is there now, so that a change
// that came while it worked, was missed during a crash, or came twice makes no difference.
package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/kube/objects"
	"landfall/store"
)

// Key names an object.
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

// Reconciler does what one kind of object asks for.
type Reconciler interface {
	Kind() objects.Kind
	// Reconcile brings about what the object wants, or takes back what it brought about if the
	// object is gone. It is called again after the returned duration if that is not 0, and after a
	// growing time if it fails: a second, then twice as long each time, five minutes at last;
	// whatever changes the object or what it depends on has it called at once. A fault that the
	// object tells of itself is a *[Told]. It is never called twice at once for the same object.
	Reconcile(ctx context.Context, namespace, name string) (again time.Duration, err error)
}

// Told is a fault that people read at the object: it is not logged.
type Told struct{ Err error }

func (t *Told) Error() string { return t.Err.Error() }
func (t *Told) Unwrap() error { return t.Err }

// Relation has objects reconciled when one of another kind changes: a ClusterDeployment, say, when
// its pull secret does.
type Relation struct {
	Of objects.Kind
	// To lists the objects that are to be reconciled. The changed object may be gone.
	To func(tx *store.Tx, namespace, name string) ([]Key, error)
	// Missing says that these are to be reconciled when the loop begins, too, because they may be
	// objects that are not there. Those that are there are without it.
	Missing bool
}

const (
	// workers is how many objects of a kind are reconciled at once. Each kind has its own, so that
	// one that waits for a registry or a BMC that is silent holds up none of the others.
	workers    = 4
	firstRetry = time.Second
	lastRetry  = 5 * time.Minute
)

// Loop calls reconcilers. Make one with New, add to it, then Run it.
type Loop struct {
	db          *store.DB
	clock       clockwork.Clock
	logger      *slog.Logger
	reconcilers map[objects.Kind]Reconciler
	relations   map[objects.Kind][]Relation

	wake chan struct{} // the time of the next delayed key changed
	idle *sync.Cond    // over mu: something was finished or came

	mu      sync.Mutex
	lines   map[objects.Kind]*line
	queued  map[Key]bool      // in their lines
	working map[Key]bool      // at a worker; true if it changed meanwhile
	later   map[Key]time.Time // to be reconciled at a time
	retries map[Key]int
	seen    uint64 // the revision up to which changes were taken in
	ended   bool
}

// line is the objects of a kind that are to be reconciled, in order.
type line struct {
	keys []Key
	more *sync.Cond // over the loop's mu: one came, or the loop has ended
}

// New returns a loop over a store.
func New(db *store.DB, clock clockwork.Clock, logger *slog.Logger) *Loop {
	l := &Loop{
		db: db, clock: clock, logger: logger,
		reconcilers: map[objects.Kind]Reconciler{},
		relations:   map[objects.Kind][]Relation{},
		wake:        make(chan struct{}, 1),
		lines:       map[objects.Kind]*line{},
		queued:      map[Key]bool{},
		working:     map[Key]bool{},
		later:       map[Key]time.Time{},
		retries:     map[Key]int{},
	}
	l.idle = sync.NewCond(&l.mu)
	return l
}

// Add has a reconciler called for the objects of its kind, and for those that changes of others
// lead to. It must be called before Run.
func (l *Loop) Add(r Reconciler, relations ...Relation) {
	l.reconcilers[r.Kind()] = r
	l.lines[r.Kind()] = &line{more: sync.NewCond(&l.mu)}
	for _, relation := range relations {
		l.relations[relation.Of] = append(l.relations[relation.Of], relation)
	}
}

// Enqueue has an object reconciled soon.
func (l *Loop) Enqueue(keys ...Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		l.add(key)
	}
}

// Hurry has all objects reconciled that failed, and as often in the beginning as if they had not:
// something changed that objects don't tell of.
func (l *Loop) Hurry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.retries {
		l.add(key)
	}
	clear(l.retries)
}

func (l *Loop) add(key Key) {
	if l.reconcilers[key.Kind] == nil {
		return
	}
	delete(l.later, key)
	if _, busy := l.working[key]; busy {
		l.working[key] = true
		return
	}
	if !l.queued[key] {
		l.queued[key] = true
		line := l.lines[key.Kind]
		line.keys = append(line.keys, key)
		line.more.Signal()
	}
}

// Run reconciles every object once and then whatever changes, until the context ends or the store
// fails. It returns when all that it started has ended.
func (l *Loop) Run(ctx context.Context) error {
	from, err := l.takeAll()
	if err != nil {
		return fmt.Errorf("list the objects: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	for _, line := range l.lines {
		for range workers {
			group.Go(func() { l.work(ctx, line) })
		}
	}
	group.Go(func() { l.keepTime(ctx) })
	err = l.follow(ctx, from)
	cancel()
	l.mu.Lock()
	l.ended = true
	l.idle.Broadcast()
	for _, line := range l.lines {
		line.more.Broadcast()
	}
	l.mu.Unlock()
	group.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// takeAll queues every object that has a reconciler and returns the revision at which it looked.
func (l *Loop) takeAll() (revision uint64, err error) {
	var keys []Key
	// The snapshot may be newer than what the feed has told of, and a watch can't begin after that.
	// What is told twice does no harm.
	revision = l.db.Revision()
	err = l.db.View(func(tx *store.Tx) error {
		for _, kind := range objects.Kinds() {
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
		missing, err := l.missing(tx)
		keys = append(keys, missing...)
		return err
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		l.add(key)
	}
	l.seen, l.ended = revision, false // at once with what is to be done of it: see Quiet
	l.idle.Broadcast()
	return revision, err
}

// missing lists what relations lead to that may not be there.
func (l *Loop) missing(tx *store.Tx) (keys []Key, err error) {
	for kind, relations := range l.relations {
		for _, relation := range relations {
			if !relation.Missing {
				continue
			}
			if err := objects.Names(tx, kind, "", func(namespace, name string) error {
				related, err := relation.To(tx, namespace, name)
				keys = append(keys, related...)
				return err
			}); err != nil {
				return nil, err
			}
		}
	}
	return keys, nil
}

// follow takes in changes until the context ends. Changes of other rows count too, so that Quiet
// knows what has been looked at.
func (l *Loop) follow(ctx context.Context, from uint64) error {
	for {
		watch := l.db.Watch(ctx, from)
		for changes := range watch.C() {
			if err := l.take(changes); err != nil {
				return err
			}
		}
		err := watch.Err()
		if !errors.Is(err, store.ErrCompacted) {
			return err
		}
		if from, err = l.takeAll(); err != nil {
			return err
		}
	}
}

func (l *Loop) take(changes []store.Change) error {
	var keys []Key
	for _, change := range changes {
		kind, namespace, name, ok := objects.ParseKey(change.Key)
		if !ok {
			continue
		}
		keys = append(keys, Key{kind, namespace, name})
		for _, relation := range l.relations[kind] {
			if err := l.db.View(func(tx *store.Tx) error {
				related, err := relation.To(tx, namespace, name)
				keys = append(keys, related...)
				return err
			}); err != nil {
				return fmt.Errorf("look for what depends on %s %s/%s: %w", kind, namespace, name, err)
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		l.add(key)
	}
	l.seen = changes[len(changes)-1].Revision
	l.idle.Broadcast()
	return nil
}

func (l *Loop) work(ctx context.Context, line *line) {
	for {
		key, ok := l.next(line)
		if !ok {
			return
		}
		again, err := l.reconcilers[key.Kind].Reconcile(ctx, key.Namespace, key.Name)
		l.finish(ctx, key, again, err)
	}
}

func (l *Loop) next(line *line) (Key, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(line.keys) == 0 && !l.ended {
		line.more.Wait()
	}
	if l.ended {
		return Key{}, false
	}
	key := line.keys[0]
	line.keys = line.keys[1:]
	delete(l.queued, key)
	l.working[key] = false
	return key, true
}

func (l *Loop) finish(ctx context.Context, key Key, again time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := l.working[key]
	delete(l.working, key)
	if err != nil && ctx.Err() == nil {
		again = min(firstRetry<<min(l.retries[key], 16), lastRetry)
		l.retries[key]++
		if _, told := errors.AsType[*Told](err); !told {
			l.logger.WarnContext(ctx, "an object could not be reconciled", "object", key.String(), "error", err,
				"retry_in", again)
		}
	} else {
		delete(l.retries, key)
	}
	switch {
	case changed:
		l.add(key)
	case again > 0:
		l.later[key] = l.clock.Now().Add(again)
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
	l.idle.Broadcast()
}

// keepTime queues delayed keys when their time has come.
func (l *Loop) keepTime(ctx context.Context) {
	for l.sleep(ctx) {
	}
}

// sleep waits for the next delayed key, or for another to come first. It is false when the context
// has ended.
func (l *Loop) sleep(ctx context.Context) bool {
	var due <-chan time.Time
	if at, ok := l.takeDue(); ok {
		timer := l.clock.NewTimer(at.Sub(l.clock.Now()))
		defer timer.Stop()
		due = timer.Chan()
	}
	select {
	case <-ctx.Done():
		return false
	case <-l.wake:
	case <-due:
	}
	return true
}

// takeDue queues what is due and tells when the next key is.
func (l *Loop) takeDue() (at time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	for key, when := range l.later {
		switch {
		case !when.After(now):
			l.add(key)
		case !ok || when.Before(at):
			at, ok = when, true
		}
	}
	return at, ok
}

// Quiet waits until every change that is committed when it is called, and whatever follows from it,
// has been reconciled; what waits for a time does not count. Tests look at the outcome then.
func (l *Loop) Quiet(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.idle.Broadcast()
	})
	defer stop()
	for {
		revision := l.db.Revision()
		l.mu.Lock()
		for ctx.Err() == nil && !l.ended && (l.seen < revision || len(l.queued)+len(l.working) > 0) {
			l.idle.Wait()
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
