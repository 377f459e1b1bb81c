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

	"landfall/appliance/kube/objects"
	"landfall/store"
)

// glimpse is what a watch showed once.
type observation struct {
	Type     watch.EventType
	Key      string // of the object's row in its bucket
	Revision uint64
	Object   string // JSON without the resourceVersion, fields in order
}

// onlooker watches all objects of a kind across the lives of an appliance. Each watch goes on from
// the resourceVersion that it saw last.
type watcher struct {
	kind   objects.Kind
	client dynamic.ResourceInterface
	notify chan<- struct{} // something was seen

	mu        sync.Mutex
	began     uint64 // the revision of the list from which it watches
	last      uint64 // of what it saw last, bookmarks too
	bookmarks int
	resumed   int // times that it went on
	seen      []observation
	unchecked int // of seen, from where on nobody has looked
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

// watch goes on until the context ends. An appliance that is down is asked again; that it can't go
// on from where it was is a failure.
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
			return fmt.Errorf("%d objects were there before the site", len(list.Items))
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
		return fmt.Errorf("the watch of %s says: %w", o.kind, apierrors.FromObject(event.Object))
	}
	s, err := observationOf(o.kind, event.Type, event.Object.(*unstructured.Unstructured))
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if s.Revision < o.last {
		return fmt.Errorf("the watch of %s goes back from %d to %d", o.kind, o.last, s.Revision)
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

// bare is an object's JSON without its resourceVersion.
func withoutRevision(u *unstructured.Unstructured) (string, error) {
	u = u.DeepCopy()
	unstructured.RemoveNestedField(u.Object, "metadata", "resourceVersion")
	text, err := json.Marshal(u.Object)
	return string(text), err
}

// news is what was seen since it was asked for the last time.
func (o *watcher) newObservations() ([]observation, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	newObservations := slices.Clone(o.seen[o.unchecked:])
	o.unchecked = len(o.seen)
	return newObservations, o.err
}

// informed is a client that keeps what there is of a kind, as controllers do: Kubernetes' own
// reflector, which lists and watches as it likes, and again when it was cut off.
type reflectorClient struct {
	cache.Store
	kind      objects.Kind
	reflector *cache.Reflector

	mu   sync.Mutex
	seen []observation // of what is listed as well
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

// history is what became of the versioned rows, as the store has it in the end.
type history struct {
	db   *store.DB
	rows store.Versions
}

// changes are those of a kind's objects behind a revision, each as a watch is to show it.
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

// at is a row as it was at a revision; "" if it was not there.
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

// canonical is a JSON text with its fields in order.
func canonical(t *testing.T, text []byte) string {
	t.Helper()
	var value any
	require.NoError(t, json.Unmarshal(text, &value))
	ordered, err := json.Marshal(value)
	require.NoError(t, err)
	return string(ordered)
}

// public is everybody who watches a hub.
type watchers struct {
	onlookers       []*watcher
	reflectorClient *reflectorClient
	notify          chan struct{}
	watching        sync.WaitGroup
}

func newWatchers(t *testing.T, address string) *watchers {
	p := &watchers{notify: make(chan struct{}, 1), reflectorClient: newReflectorClient(t, address, objects.Agents)}
	for _, kind := range []objects.Kind{objects.ClusterDeployments, objects.AgentClusterInstalls, objects.InfraEnvs,
		objects.Agents, objects.BareMetalHosts} {
		p.onlookers = append(p.onlookers, newWatcher(t, address, kind, p.notify))
	}
	return p
}

// watch has all of them watch until the context ends, and returns when they have begun.
func (p *watchers) watch(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, o := range p.onlookers {
		p.watching.Go(func() { o.watch(ctx) })
	}
	p.watching.Go(func() { p.reflectorClient.reflector.RunWithContext(ctx) })
	t.Cleanup(p.watching.Wait)
	eventually(t, "everybody watches", func() bool {
		return p.reflectorClient.reflector.LastSyncResourceVersion() != "" && !slices.ContainsFunc(p.onlookers,
			func(o *watcher) bool {
				o.mu.Lock()
				defer o.mu.Unlock()
				return o.resumed == 0
			})
	})
}

// next waits until somebody is shown something, for a while.
func (p *watchers) next() {
	select {
	case <-p.notify: // before
	default:
	}
	select {
	case <-p.notify:
	case <-time.After(time.Second):
	}
}

// news is what the watches have shown since it was asked for the last time.
func (p *watchers) newObservations(t *testing.T) []observation {
	t.Helper()
	var all []observation
	for _, o := range p.onlookers {
		newObservations, err := o.newObservations()
		require.NoError(t, err)
		all = append(all, newObservations...)
	}
	return all
}

// catchUp waits until they have been shown the site's end.
func (p *watchers) catchUp(t *testing.T) {
	t.Helper()
	eventually(t, "the watches have shown the end of all objects", func() bool {
		for _, o := range p.onlookers {
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

// verify holds what they were shown against what the dead appliance has left, and tells how much it
// was.
func (p *watchers) verify(t *testing.T, dir string) string {
	t.Helper()
	p.watching.Wait()
	db, err := store.Open(t.Context(), dir, store.Options{NoSync: true, Versioned: "kubernetes"})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	h := history{db, store.NewVersions("kubernetes", 1)}
	notify := ""
	for _, o := range p.onlookers {
		require.NoError(t, o.err)
		require.Greater(t, o.resumed, 1, "the watch of %s was never taken up again", o.kind)
		became := h.changes(t, o.kind, o.began)
		require.Equal(t, became, o.seen, "what the watch of %s showed is not what became of them", o.kind)
		for _, s := range o.seen {
			if s.Type != watch.Deleted {
				require.Equal(t, s.Object, h.at(t, s.Key, s.Revision), "%s at %d", s.Key, s.Revision)
			}
		}
		notify += fmt.Sprintf("%s: %d changes by %d watches; ", o.kind.Kind, len(o.seen), o.resumed)
	}
	require.NoError(t, p.reflectorClient.err)
	require.NotEmpty(t, p.reflectorClient.seen)
	for _, s := range p.reflectorClient.seen {
		require.Equal(t, s.Object, h.at(t, s.Key, s.Revision), "%s at %d, in a reflector", s.Key, s.Revision)
	}
	return notify + fmt.Sprintf("a reflector was told of %d", len(p.reflectorClient.seen))
}

// verifyShown looks for what was shown in a copy of the store that was made after that.
func verifyShown(t *testing.T, tx *store.Tx, shown []observation) {
	t.Helper()
	rows := store.NewVersions("kubernetes", 1)
	for _, s := range shown {
		require.LessOrEqual(t, s.Revision, tx.Revision(), "a watch showed %s %s before it was committed", s.Type, s.Key)
		row, err := rows.Get(tx, s.Key)
		if errors.Is(err, store.ErrNotFound) {
			continue // it was deleted, now or later
		}
		require.NoError(t, err)
		if s.Type != watch.Deleted {
			require.GreaterOrEqual(t, row.Modified, s.Revision, "a watch showed a state of %s that never was", s.Key)
		}
		if row.Modified == s.Revision {
			require.Equal(t, canonical(t, row.Value), s.Object, "a watch showed %s otherwise than it is", s.Key)
		}
	}
}
