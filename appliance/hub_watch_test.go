package appliance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kinds "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"landfall/appliance/keyring"
	"landfall/appliance/kube/objects"
	"landfall/store"
)

// observation is one event of a watch.
type observation struct {
	Type     watch.EventType
	Key      string // key of the object's row in its bucket
	Revision uint64
	Object   string // JSON without the resourceVersion, with sorted fields
}

// watcher watches all objects of a kind across restarts of the appliance. Each watch resumes at the
// last observed resourceVersion.
type watcher struct {
	kind   objects.Kind
	client dynamic.ResourceInterface
	notify chan<- struct{} // receives after each event

	mu        sync.Mutex
	began     uint64 // revision of the first list
	last      uint64 // last observed revision, bookmarks included
	bookmarks int
	resumed   int // number of watches
	seen      []observation
	unchecked int // index of the first event in seen that newObservations has not returned
	err       error
}

func newWatcher(t *testing.T, address string, kind objects.Kind, notify chan<- struct{}) *watcher {
	t.Helper()
	client, err := dynamic.NewForConfig(&rest.Config{Host: address, QPS: -1})
	require.NoError(t, err)
	return &watcher{kind: kind, notify: notify, client: client.Resource(resourceOf(kind))}
}

func resourceOf(kind objects.Kind) kinds.GroupVersionResource {
	return kinds.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: kind.Resource}
}

// watch watches until the context ends. It retries while the appliance is down. It fails if it
// cannot resume at the last revision.
func (o *watcher) watch(ctx context.Context) {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if err := o.resume(ctx); err != nil {
			o.mu.Lock()
			o.err = err
			o.mu.Unlock()
			return
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

func (o *watcher) resume(ctx context.Context) error {
	if o.began == 0 {
		list, err := o.client.List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil
		}
		if len(list.Items) > 0 {
			return fmt.Errorf("%d objects existed before the site", len(list.Items))
		}
		revision, err := strconv.ParseUint(list.GetResourceVersion(), 10, 64)
		if err != nil {
			return err
		}
		o.mu.Lock()
		o.began, o.last = revision, revision
		o.mu.Unlock()
	}
	events, err := o.client.Watch(ctx, metav1.ListOptions{ResourceVersion: strconv.FormatUint(o.last, 10),
		AllowWatchBookmarks: true})
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return fmt.Errorf("watch %s from %d: %w", o.kind, o.last, err)
	}
	if err != nil {
		return nil
	}
	defer events.Stop()
	o.mu.Lock()
	o.resumed++
	o.mu.Unlock()
	for {
		select {
		case event, ok := <-events.ResultChan():
			if !ok {
				return nil
			}
			if err := o.observe(event); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func (o *watcher) observe(event watch.Event) error {
	if event.Type == watch.Error {
		return fmt.Errorf("the watch of %s failed: %w", o.kind, apierrors.FromObject(event.Object))
	}
	s, err := observationOf(o.kind, event.Type, event.Object.(*unstructured.Unstructured))
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if s.Revision < o.last {
		return fmt.Errorf("the watch of %s went back from %d to %d", o.kind, o.last, s.Revision)
	}
	o.last = s.Revision
	if event.Type == watch.Bookmark {
		o.bookmarks++
		return nil
	}
	o.seen = append(o.seen, s)
	select {
	case o.notify <- struct{}{}:
	default:
	}
	return nil
}

func observationOf(kind objects.Kind, what watch.EventType, u *unstructured.Unstructured) (observation, error) {
	revision, err := strconv.ParseUint(u.GetResourceVersion(), 10, 64)
	if err != nil {
		return observation{}, fmt.Errorf("%s %s/%s: %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
	}
	text, err := withoutRevision(u)
	return observation{what, kind.Key(u.GetNamespace(), u.GetName()), revision, text}, err
}

// withoutRevision returns an object's JSON without its resourceVersion.
func withoutRevision(u *unstructured.Unstructured) (string, error) {
	u = u.DeepCopy()
	unstructured.RemoveNestedField(u.Object, "metadata", "resourceVersion")
	text, err := json.Marshal(u.Object)
	return string(text), err
}

// newObservations returns the events since the last call.
func (o *watcher) newObservations() ([]observation, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	newObservations := slices.Clone(o.seen[o.unchecked:])
	o.unchecked = len(o.seen)
	return newObservations, o.err
}

// reflectorClient caches the objects of a kind with Kubernetes' own reflector, as controllers do.
// The reflector lists and watches on its own schedule, and again after an interruption.
type reflectorClient struct {
	cache.Store
	kind      objects.Kind
	reflector *cache.Reflector

	mu   sync.Mutex
	seen []observation // includes listed objects
	err  error
}

func newReflectorClient(t *testing.T, address string, kind objects.Kind) *reflectorClient {
	t.Helper()
	client, err := dynamic.NewForConfig(&rest.Config{Host: address, QPS: -1})
	require.NoError(t, err)
	resource := client.Resource(resourceOf(kind))
	i := &reflectorClient{Store: cache.NewStore(cache.MetaNamespaceKeyFunc), kind: kind}
	i.reflector = cache.NewReflectorWithOptions(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return resource.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return resource.Watch(ctx, options)
		},
	}, &unstructured.Unstructured{}, i, cache.ReflectorOptions{Backoff: &wait.Backoff{Duration: 20 * time.Millisecond,
		Factor: 1, Steps: 1}})
	return i
}

func (i *reflectorClient) Add(object any) error {
	i.observe(watch.Added, object)
	return i.Store.Add(object)
}

func (i *reflectorClient) Update(object any) error {
	i.observe(watch.Modified, object)
	return i.Store.Update(object)
}

func (i *reflectorClient) Replace(all []any, revision string) error {
	for _, object := range all {
		i.observe(watch.Added, object)
	}
	return i.Store.Replace(all, revision)
}

func (i *reflectorClient) observe(what watch.EventType, object any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	s, err := observationOf(i.kind, what, object.(*unstructured.Unstructured))
	i.err = errors.Join(i.err, err)
	i.seen = append(i.seen, s)
}

// history reads earlier versions of rows from the store.
type history struct {
	db   *store.DB
	rows store.Versions
}

// changes returns the changes of a kind's objects after a revision, as a watch must report them.
func (h history) changes(t *testing.T, kind objects.Kind, from uint64) []observation {
	t.Helper()
	prefix := kind.Key("", "")
	w := h.rows.Watch(t.Context(), h.db, from, store.Range{From: prefix, End: h.rows.End(prefix)})
	var changes []observation
	observe := func(batch []store.ValueChange) {
		for _, c := range batch {
			what, value := watch.Modified, c.After.Value
			switch {
			case c.Before.Value == nil:
				what = watch.Added
			case c.After.Value == nil:
				what, value = watch.Deleted, c.Before.Value
			}
			changes = append(changes, observation{what, c.Key, c.Revision, canonical(t, value)})
		}
	}
	for {
		select {
		case batch, ok := <-w.C():
			require.True(t, ok, "%v", w.Err())
			observe(batch)
			continue
		case <-time.After(20 * time.Millisecond):
		}
		if _, all := w.Progress(); all {
			return changes
		}
	}
}

// at returns a row as of a revision, or "" if it did not exist.
func (h history) at(t *testing.T, key string, revision uint64) string {
	t.Helper()
	text := ""
	require.NoError(t, h.db.View(func(tx *store.Tx) error {
		rows, _, _, err := h.rows.Range(tx, store.Range{From: key, End: key + "\x00", At: revision})
		if err == nil && len(rows) == 1 {
			text = canonical(t, rows[0].Value)
		}
		return err
	}))
	return text
}

// canonical returns a JSON text with sorted fields.
func canonical(t *testing.T, text []byte) string {
	t.Helper()
	var value any
	require.NoError(t, json.Unmarshal(text, &value))
	ordered, err := json.Marshal(value)
	require.NoError(t, err)
	return string(ordered)
}

// watchers are all clients that watch a hub.
type watchers struct {
	clients         []*watcher
	reflectorClient *reflectorClient
	notify          chan struct{}
	watching        sync.WaitGroup
}

func newWatchers(t *testing.T, address string) *watchers {
	p := &watchers{notify: make(chan struct{}, 1), reflectorClient: newReflectorClient(t, address, objects.Agents)}
	for _, kind := range []objects.Kind{objects.ClusterDeployments, objects.AgentClusterInstalls, objects.InfraEnvs,
		objects.Agents, objects.BareMetalHosts} {
		p.clients = append(p.clients, newWatcher(t, address, kind, p.notify))
	}
	return p
}

// watch starts all clients and returns when their watches have begun. They end with the context.
func (p *watchers) watch(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, o := range p.clients {
		p.watching.Go(func() { o.watch(ctx) })
	}
	p.watching.Go(func() { p.reflectorClient.reflector.RunWithContext(ctx) })
	t.Cleanup(p.watching.Wait)
	eventually(t, "all watches have begun", func() bool {
		return p.reflectorClient.reflector.LastSyncResourceVersion() != "" && !slices.ContainsFunc(p.clients,
			func(o *watcher) bool {
				o.mu.Lock()
				defer o.mu.Unlock()
				return o.resumed == 0
			})
	})
}

// next waits up to a second for the next event.
func (p *watchers) next() {
	select {
	case <-p.notify: // discards an earlier event
	default:
	}
	select {
	case <-p.notify:
	case <-time.After(time.Second):
	}
}

// newObservations returns the events of all watches since the last call.
func (p *watchers) newObservations(t *testing.T) []observation {
	t.Helper()
	var all []observation
	for _, o := range p.clients {
		newObservations, err := o.newObservations()
		require.NoError(t, err)
		all = append(all, newObservations...)
	}
	return all
}

// catchUp waits until the clients have observed the deletion of all objects.
func (p *watchers) catchUp(t *testing.T) {
	t.Helper()
	eventually(t, "the watches have reported all deletions", func() bool {
		for _, o := range p.clients {
			o.mu.Lock()
			ended := len(o.seen) > 0 && o.seen[len(o.seen)-1].Type == watch.Deleted
			o.mu.Unlock()
			if !ended {
				return false
			}
		}
		return len(p.reflectorClient.ListKeys()) == 0
	})
}

// verify compares the observed events with the history in the stopped appliance's store. It returns
// a summary.
func (p *watchers) verify(t *testing.T, dir string) string {
	t.Helper()
	p.watching.Wait()
	db, err := store.Open(t.Context(), dir, store.Options{NoSync: true, Versioned: "kubernetes",
		Keys: keyring.New(dir, keyring.Options{}).Open})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	h := history{db, store.NewVersions("kubernetes", 1)}
	summary := ""
	for _, o := range p.clients {
		require.NoError(t, o.err)
		require.Greater(t, o.resumed, 1, "the watch of %s was never resumed", o.kind)
		became := h.changes(t, o.kind, o.began)
		require.Equal(t, became, o.seen, "the watch of %s differs from the history", o.kind)
		for _, s := range o.seen {
			if s.Type != watch.Deleted {
				require.Equal(t, s.Object, h.at(t, s.Key, s.Revision), "%s at %d", s.Key, s.Revision)
			}
		}
		summary += fmt.Sprintf("%s: %d changes by %d watches; ", o.kind.Kind, len(o.seen), o.resumed)
	}
	require.NoError(t, p.reflectorClient.err)
	require.NotEmpty(t, p.reflectorClient.seen)
	for _, s := range p.reflectorClient.seen {
		require.Equal(t, s.Object, h.at(t, s.Key, s.Revision), "%s at %d, in a reflector", s.Key, s.Revision)
	}
	return summary + fmt.Sprintf("a reflector received %d", len(p.reflectorClient.seen))
}

// verifyObserved checks that a copy of the store contains the events that were observed before the
// copy.
func verifyObserved(t *testing.T, tx *store.Tx, observed []observation) {
	t.Helper()
	rows := store.NewVersions("kubernetes", 1)
	for _, s := range observed {
		require.LessOrEqual(t, s.Revision, tx.Revision(), "a watch showed %s %s before it was committed", s.Type, s.Key)
		row, err := rows.Get(tx, s.Key)
		if errors.Is(err, store.ErrNotFound) {
			continue // the object was deleted, in the copy or later
		}
		require.NoError(t, err)
		if s.Type != watch.Deleted {
			require.GreaterOrEqual(t, row.Modified, s.Revision, "a watch showed a state of %s that never existed",
				s.Key)
		}
		if row.Modified == s.Revision {
			require.Equal(t, canonical(t, row.Value), s.Object, "a watch showed another state of %s than the store has",
				s.Key)
		}
	}
}
