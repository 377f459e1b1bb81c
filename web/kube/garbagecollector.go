package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"landfall/appliance/kube/objects"
	"landfall/appliance/sitekey"
	"landfall/store"
	"landfall/store/fastjson"
	"landfall/web/kube/etcd"
)

// In a cluster, separate controllers delete the dependents of deleted objects, empty namespaces
// that are being deleted, and delete expired objects. Here the garbage collector does all three. It
// watches the store's feed and works in the store's transactions. At a start it continues with the
// changes since the recorded progress. It checks all objects if there is none, and before the first
// change that needs the graph of owners: until then, that graph is not built.

// garbageCollector deletes dependents, empties namespaces, and deletes expired objects.
type garbageCollector struct {
	db      *store.DB
	objects *objects.Objects
	box     *sitekey.Box
	clock   clockwork.Clock
	logger  *slog.Logger

	progress  Progress   // nil: not recorded
	collected *collected // read by the recorder

	graph       ownerGraph      // empty until checked
	checked     bool            // whether all objects were checked
	terminating map[string]bool // namespaces that are being deleted
	retry       map[string]bool // keys and namespaces to check again after an error
	discovery   discovery
}

const (
	// retryAfter is the delay of a retry after an error.
	retryAfter = time.Second
	// expireEvery is the interval of checks for expired objects.
	expireEvery = time.Minute
	// expireBatch and purgeBatch limit the objects that a transaction deletes.
	expireBatch = 500
	purgeBatch  = 200
	// startBatch is the size of the objects that the start reads at a time. It limits the memory.
	startBatch = 1 << 20
)

func newGarbageCollector(s *Server, d discovery) *garbageCollector {
	return &garbageCollector{
		db: s.options.DB, objects: s.options.Objects, box: s.options.Box, clock: s.options.Clock,
		logger: s.options.Logger, discovery: d, progress: s.options.Progress, collected: &s.collected,
	}
}

// run collects garbage from the time that the API is ready until the context ends. The first check
// of all objects needs as much CPU time as the start of the API, which would be ready later.
func (k *garbageCollector) run(ctx context.Context, ready <-chan struct{}) error {
	if err := k.db.View(k.loadDefinitions); err != nil {
		return k.ended(ctx, err)
	}
	select {
	case <-ready:
	case <-ctx.Done():
	}
	from, err := k.start(ctx)
	for err == nil && ctx.Err() == nil {
		if err := k.watch(ctx, from); !errors.Is(err, store.ErrCompacted) {
			return k.ended(ctx, err)
		}
		from, err = k.check(ctx)
	}
	return k.ended(ctx, err)
}

// start returns the revision from which to watch. It checks all objects if the changes since an
// earlier check are not known.
func (k *garbageCollector) start(ctx context.Context) (revision uint64, err error) {
	if k.progress != nil {
		if revision, ok, err := k.progress.FollowerRevision(); ok || err != nil {
			return revision, err
		}
	}
	return k.check(ctx)
}

func (k *garbageCollector) ended(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, store.ErrClosed) {
		return nil
	}
	return fmt.Errorf("collect garbage of Kubernetes objects: %w", err)
}

// loadDefinitions adds the kinds of the custom resource definitions to the discovery.
func (k *garbageCollector) loadDefinitions(tx *store.Tx) error {
	return Rows().Each(tx, definitionPrefix, func(row store.KeyValue) error {
		if !strings.HasPrefix(row.Key, definitionPrefix) {
			return store.ErrStop
		}
		k.discovery.update(row.Key, row.Value)
		return nil
	})
}

// check checks all objects, builds the graph of owners, and returns the revision from which to
// watch.
func (k *garbageCollector) check(ctx context.Context) (revision uint64, err error) {
	k.graph, k.terminating, k.retry = newGraph(), map[string]bool{}, map[string]bool{}
	var first firstCheck
	for from, more := "", true; more; {
		err := k.db.View(func(tx *store.Tx) (err error) {
			if from == "" {
				revision = tx.Revision() // the watch repeats the changes of rows that were read later
			}
			from, more, err = k.loadBatch(tx, from, &first)
			return err
		})
		if err != nil {
			return 0, err
		}
		if err := errors.Join(k.db.ReleasePages(), ctx.Err()); err != nil {
			return 0, err
		}
	}
	if err := k.db.View(func(tx *store.Tx) error { return k.findOrphans(tx, &first) }); err != nil {
		return 0, err
	}
	if err := k.db.ReleasePages(); err != nil {
		return 0, err
	}
	for _, key := range first.marked {
		k.collect(ctx, key)
	}
	for namespace := range k.terminating {
		k.emptyNamespace(ctx, namespace)
	}
	k.checked = true
	if k.progress != nil {
		k.progress.FollowerChecked()
	}
	return revision, nil
}

// firstCheck holds the objects that the start has to check.
type firstCheck struct {
	owned  []ownedObject
	marked []string // keys of the objects to collect
}

type ownedObject struct {
	key    string
	owners []metav1.OwnerReference
}

// loadBatch adds existing rows to the graph, from a key on. It returns the key of the next batch.
func (k *garbageCollector) loadBatch(tx *store.Tx, from string, first *firstCheck) (next string, more bool, err error) {
	size := 0
	err = Rows().Each(tx, from, func(row store.KeyValue) error {
		if size > startBatch {
			next, more = row.Key, true
			return store.ErrStop
		}
		size += len(row.Value)
		return k.load(row, first)
	})
	return next, more, err
}

// load adds an existing row to the graph.
func (k *garbageCollector) load(row store.KeyValue, first *firstCheck) error {
	k.discovery.update(row.Key, row.Value)
	about, ok, err := k.read(row.Value)
	if err != nil {
		return fmt.Errorf("read %s: %w", row.Key, err)
	}
	if !ok {
		return nil
	}
	k.graph.set(row.Key, about)
	if at := parseKey(row.Key); at.isNamespace() && about.deleting {
		k.terminating[at.name] = true
	}
	switch {
	case about.deleting:
		first.marked = append(first.marked, row.Key)
	case len(about.owners) > 0:
		first.owned = append(first.owned, ownedObject{row.Key, about.owners})
	}
	return nil
}

// findOrphans marks the objects that have lost an owner. Many objects have the same owner, and an
// owner is read once.
func (k *garbageCollector) findOrphans(tx *store.Tx, first *firstCheck) error {
	states := map[string]ownerState{}
	for _, object := range first.owned {
		namespace, lost := parseKey(object.key).namespace, false
		for _, owner := range object.owners {
			id := strings.Join([]string{namespace, owner.APIVersion, owner.Kind, owner.Name, string(owner.UID)}, "/")
			state, known := states[id]
			if !known {
				var err error
				if state, err = k.stateOf(tx, namespace, owner); err != nil {
					return err
				}
				states[id] = state
			}
			lost = lost || state != ownerExists
		}
		if lost {
			first.marked = append(first.marked, object.key)
		}
	}
	return nil
}

func (k *garbageCollector) watch(ctx context.Context, from uint64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := Rows().Watch(ctx, k.db, from, store.Range{})
	defer func() {
		cancel()
		for range watch.C() {
			continue // drain the channel until the watch has ended
		}
	}()
	expiry, retry := k.clock.NewTicker(expireEvery), k.clock.NewTicker(retryAfter)
	defer expiry.Stop()
	defer retry.Stop()
	k.expire(ctx)
	last := from
	k.collected.set(watch, last, len(k.retry)+len(k.terminating) == 0)
	for {
		select {
		case changes, ok := <-watch.C():
			if !ok {
				return watch.Err()
			}
			for _, change := range changes {
				if err := k.handle(ctx, change); err != nil {
					return err
				}
			}
			last = changes[len(changes)-1].Revision
		case <-expiry.Chan():
			k.expire(ctx)
		case <-retry.Chan():
			k.retryFailed(ctx)
		}
		if ctx.Err() == nil { // else the collection was interrupted
			k.collected.set(watch, last, len(k.retry)+len(k.terminating) == 0)
		}
	}
}

// collected is the progress of the garbage collector.
type collected struct {
	mu      sync.Mutex
	watch   *store.ValueWatcher // nil before the first one
	last    uint64              // revision of the last change that was handled
	settled bool                // whether no object or namespace must be checked again
}

func (c *collected) set(watch *store.ValueWatcher, last uint64, settled bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watch, c.last, c.settled = watch, last, settled
}

func (c *collected) followed() (revision uint64, ok bool) {
	c.mu.Lock()
	watch, last, settled := c.watch, c.last, c.settled
	c.mu.Unlock()
	if watch == nil || !settled {
		return 0, false
	}
	return watch.Handled(last)
}

// handle acts on a change.
func (k *garbageCollector) handle(ctx context.Context, change store.ValueChange) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("read %s: %w", change.Key, err)
		}
	}()
	k.discovery.update(change.Key, change.After.Value)
	at := parseKey(change.Key)
	if !k.checked {
		if needed, err := k.needsGraph(at, change); !needed || err != nil {
			return err
		}
		if _, err := k.check(ctx); err != nil {
			return err
		}
	}
	if change.After.Value == nil {
		err = k.handleDeletion(ctx, at, change)
	} else {
		err = k.handleUpdate(ctx, at, change)
	}
	if at.namespace != "" && k.terminating[at.namespace] {
		k.emptyNamespace(ctx, at.namespace)
	}
	return err
}

// needsGraph reports whether a change can make an object garbage, or needs the graph of owners for
// another reason. The changes of statuses and the deletions of Events, which are most of the
// changes, do not.
func (k *garbageCollector) needsGraph(at place, change store.ValueChange) (bool, error) {
	if change.After.Value == nil {
		return at.kind.Resource != objects.Events.Resource, nil
	}
	now, _, err := k.read(change.After.Value)
	if err != nil || now.deleting || change.Before.Value == nil {
		return now.deleting || len(now.owners) > 0, err
	}
	before, _, err := k.read(change.Before.Value)
	return !slices.EqualFunc(before.owners, now.owners, func(a, b metav1.OwnerReference) bool {
		return a.UID == b.UID
	}), err
}

// handleDeletion acts on the deletion of an object.
func (k *garbageCollector) handleDeletion(ctx context.Context, at place, change store.ValueChange) error {
	if at.isNamespace() {
		delete(k.terminating, at.name)
	}
	before, err := k.metadata(change.Before.Value)
	if err != nil {
		return err
	}
	k.graph.remove(change.Key)
	for _, dependent := range k.graph.dependents(before.uid) {
		k.collect(ctx, dependent)
	}
	for _, owner := range before.owners {
		k.collectOwner(ctx, at.namespace, owner)
	}
	return nil
}

// handleUpdate acts on the creation or change of an object.
func (k *garbageCollector) handleUpdate(ctx context.Context, at place, change store.ValueChange) error {
	now, _, err := k.read(change.After.Value)
	if err != nil {
		return err
	}
	before := slices.Clone(k.graph.owners[change.Key])
	k.graph.set(change.Key, now)
	moved := !slices.Equal(before, k.graph.owners[change.Key])
	if now.deleting || moved {
		k.collect(ctx, change.Key)
	}
	if moved && len(before) > 0 {
		was, err := k.metadata(change.Before.Value)
		if err != nil {
			return err
		}
		for _, owner := range was.owners {
			k.collectOwner(ctx, at.namespace, owner)
		}
	}
	if at.isNamespace() && now.deleting {
		k.terminating[at.name] = true
		k.emptyNamespace(ctx, at.name)
	}
	return nil
}

// retryLater logs an error of the garbage collection of an object, and schedules a retry.
func (k *garbageCollector) retryLater(ctx context.Context, what string, err error) {
	if ctx.Err() == nil && !errors.Is(err, store.ErrClosed) {
		k.logger.Warn("Garbage collection of a Kubernetes object failed; retrying.",
			"object", what, "error", err)
		k.retry[what] = true
	}
}

func (k *garbageCollector) retryFailed(ctx context.Context) {
	again := k.retry
	k.retry = map[string]bool{}
	for what := range again {
		if strings.Contains(what, "/") {
			k.collect(ctx, what)
		} else {
			k.emptyNamespace(ctx, what)
		}
	}
}

// expire deletes expired objects.
func (k *garbageCollector) expire(ctx context.Context) {
	for {
		removed, _, err := etcd.Expired(ctx, etcd.Options{DB: k.db, Rows: Rows(), Clock: k.clock}, expireBatch)
		if err != nil && ctx.Err() == nil {
			k.logger.Warn("Expired Kubernetes Events could not be deleted; retrying.", "error", err)
		}
		if err != nil || removed < expireBatch {
			return
		}
	}
}

// ownership is the part of an object's metadata that the garbage collector uses.
type ownership struct {
	uid        types.UID
	owners     []metav1.OwnerReference
	finalizers []string
	deleting   bool
}

var (
	ownersText   = []byte(`"ownerReferences"`)
	deletingText = []byte(`"deletionTimestamp"`)
)

// read returns the ownership of a row. ok is false if the object has no owners and is not being
// deleted; that is detected without parsing the row.
func (k *garbageCollector) read(row []byte) (a ownership, ok bool, err error) {
	plain, err := objects.Open(k.box, row)
	if err != nil {
		return a, false, err
	}
	if !bytes.Contains(plain, ownersText) && !bytes.Contains(plain, deletingText) {
		return a, false, nil
	}
	a, err = parseOwnership(plain)
	return a, err == nil, err
}

func (k *garbageCollector) metadata(row []byte) (ownership, error) {
	plain, err := objects.Open(k.box, row)
	if err != nil {
		return ownership{}, err
	}
	return parseOwnership(plain)
}

// parseOwnership parses the metadata of an object. It does not parse what follows them, which is
// most of a large object.
func parseOwnership(plain []byte) (ownership, error) {
	var m struct {
		UID               types.UID               `json:"uid"`
		OwnerReferences   []metav1.OwnerReference `json:"ownerReferences"`
		Finalizers        []string                `json:"finalizers"`
		DeletionTimestamp *metav1.Time            `json:"deletionTimestamp"`
	}
	if err := fastjson.Unmarshal(metadataOf(plain), &m); err != nil {
		return ownership{}, err
	}
	return ownership{uid: m.UID, owners: m.OwnerReferences, finalizers: m.Finalizers,
		deleting: m.DeletionTimestamp != nil}, nil
}

// place is the key of an object.
type place struct {
	kind            objects.Kind // only with group, resource and scope
	namespace, name string
}

// parseKey splits the key of a row. Unlike objects.ParseKey it also accepts kinds of custom
// resource definitions that clients created.
func parseKey(key string) place {
	parts := strings.Split(key, "/")
	if len(parts) < 3 {
		return place{}
	}
	p := place{kind: objects.Kind{Group: parts[0], Resource: parts[1]}, name: parts[len(parts)-1]}
	if p.kind.Group == "core" {
		p.kind.Group = ""
	}
	if len(parts) > 3 {
		p.kind.Namespaced, p.namespace = true, parts[2]
	}
	return p
}

func (p place) isNamespace() bool {
	return p.kind.Group == "" && p.kind.Resource == objects.Namespaces.Resource
}

func (p place) key() string { return p.kind.Key(p.namespace, p.name) }
