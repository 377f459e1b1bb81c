package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/jonboulle/clockwork"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"landfall/appliance/kube/objects"
	"landfall/appliance/sitekey"
	"landfall/store"
	"landfall/web/kube/etcd"
)

// In a cluster, separate controllers delete the dependents of deleted objects, empty namespaces
// that are being deleted, and delete expired objects. Here the garbage collector does all three. It
// watches the store's feed and works in the store's transactions. It checks all objects when it
// starts, so that it misses no change after a crash.

// garbageCollector deletes dependents, empties namespaces, and deletes expired objects.
type garbageCollector struct {
	db      *store.DB
	objects *objects.Objects
	box     *sitekey.Box
	clock   clockwork.Clock
	logger  *slog.Logger

	graph       ownerGraph
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
	// startBatch is the number of objects that the start reads at a time.
	startBatch = 500
)

func newGarbageCollector(s *Server, d discovery) *garbageCollector {
	return &garbageCollector{
		db: s.options.DB, objects: s.options.Objects, box: s.options.Box, clock: s.options.Clock,
		logger: s.options.Logger, discovery: d,
	}
}

// run collects garbage until the context ends.
func (k *garbageCollector) run(ctx context.Context) error {
	for ctx.Err() == nil {
		from, err := k.start(ctx)
		if err != nil {
			return k.ended(ctx, err)
		}
		if err := k.watch(ctx, from); !errors.Is(err, store.ErrCompacted) {
			return k.ended(ctx, err)
		}
	}
	return nil
}

func (k *garbageCollector) ended(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, store.ErrClosed) {
		return nil
	}
	return fmt.Errorf("collect garbage of Kubernetes objects: %w", err)
}

// start checks all objects and returns the revision of that check.
func (k *garbageCollector) start(ctx context.Context) (revision uint64, err error) {
	k.graph, k.terminating, k.retry = newGraph(), map[string]bool{}, map[string]bool{}
	var marked []string
	err = k.db.View(func(tx *store.Tx) error {
		revision = tx.Revision()
		for from, more := "", true; more; {
			var rows []store.KeyValue
			if rows, _, more, err = Rows().Range(tx, store.Range{From: from, Limit: startBatch}); err != nil {
				return err
			}
			for _, row := range rows {
				from = row.Key + "\x00"
				collect, err := k.load(row)
				if err != nil {
					return err
				}
				if collect {
					marked = append(marked, row.Key)
				}
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	for _, key := range marked {
		k.collect(ctx, key)
	}
	for namespace := range k.terminating {
		k.emptyNamespace(ctx, namespace)
	}
	return revision, nil
}

// load adds an existing row to the graph. collect reports whether the object must be checked.
func (k *garbageCollector) load(row store.KeyValue) (collect bool, err error) {
	k.discovery.update(row.Key, row.Value)
	about, ok, err := k.read(row.Value)
	if err != nil {
		return false, fmt.Errorf("read %s: %w", row.Key, err)
	}
	if !ok {
		return false, nil
	}
	k.graph.set(row.Key, about)
	if at := parseKey(row.Key); at.isNamespace() && about.deleting {
		k.terminating[at.name] = true
	}
	return about.deleting || len(about.owners) > 0, nil
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
		case <-expiry.Chan():
			k.expire(ctx)
		case <-retry.Chan():
			k.retryFailed(ctx)
		}
	}
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

func parseOwnership(plain []byte) (ownership, error) {
	var object struct {
		Metadata struct {
			UID               types.UID               `json:"uid"`
			OwnerReferences   []metav1.OwnerReference `json:"ownerReferences"`
			Finalizers        []string                `json:"finalizers"`
			DeletionTimestamp *metav1.Time            `json:"deletionTimestamp"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(plain, &object); err != nil {
		return ownership{}, err
	}
	m := object.Metadata
	return ownership{uid: m.UID, owners: m.OwnerReferences, finalizers: m.Finalizers,
			deleting: m.DeletionTimestamp != nil},
		nil
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
