package etcd_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	apitesting "k8s.io/apimachinery/pkg/api/apitesting"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value"

	"landfall/store"
	"landfall/web/kube/etcd"
)

// harness is a storage over its own store.
type harness struct {
	storage.Interface
	client      *kubernetes.Client
	codec       runtime.Codec
	transformer *swappable
	reads       *storagetesting.KVRecorder
	lists       *storagetesting.KubernetesRecorder
	pages       *counted
	db          *store.DB
}

// counted counts the lists.
type counted struct {
	kubernetes.Interface
	lists atomic.Uint64
}

func (c *counted) List(ctx context.Context, prefix string,
	options kubernetes.ListOptions) (kubernetes.ListResponse, error) {
	c.lists.Add(1)
	return c.Interface.List(ctx, prefix, options)
}

// swappable is a transformer that can be replaced while the storage runs.
type swappable struct {
	now atomic.Pointer[value.Transformer]
}

func (s *swappable) set(t value.Transformer) { s.now.Store(&t) }

func (s *swappable) TransformFromStorage(ctx context.Context, data []byte, c value.Context) ([]byte, bool, error) {
	return (*s.now.Load()).TransformFromStorage(ctx, data, c)
}

func (s *swappable) TransformToStorage(ctx context.Context, data []byte, c value.Context) ([]byte, error) {
	return (*s.now.Load()).TransformToStorage(ctx, data, c)
}

func newBench(t *testing.T, options ...func(*harness)) *harness {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	require.NoError(t, example.AddToScheme(scheme))
	require.NoError(t, examplev1.AddToScheme(scheme))
	rows := store.NewVersions("kubernetes", 1)
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{Versioned: "kubernetes", NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	clock := clockwork.NewRealClock()
	b := &harness{
		codec: apitesting.TestCodec(serializer.NewCodecFactory(scheme), examplev1.SchemeGroupVersion),
		client: etcd.NewClient(ctx, etcd.Options{DB: db, Rows: rows, Clock: clock,
			ProgressEvery: 250 * time.Millisecond}), transformer: new(swappable), db: db,
	}
	b.pages = &counted{Interface: b.client.Kubernetes}
	b.lists = storagetesting.NewKubernetesRecorder(b.pages)
	b.reads = storagetesting.NewKVRecorder(b.client.KV, b.lists)
	b.client.Kubernetes, b.client.KV = b.lists, b.reads
	b.transformer.set(storagetesting.NewPrefixTransformer([]byte(storedPrefix), false))
	// The revisions of etcd start at 1; here the first write makes the revision 1 before the API is
	// served.
	b.raise(ctx, t)
	for _, option := range options {
		option(b)
	}
	lease := etcd3.NewDefaultLeaseManagerConfig()
	lease.ReuseDurationSeconds = 1
	s, err := etcd.NewStorage(b.client, db, etcd.Resource{
		GroupResource: schema.GroupResource{Resource: "pods"}, Prefix: "/pods/", Codec: b.codec,
		Transformer: b.transformer,
		New:         func() runtime.Object { return new(example.Pod) },
		NewList:     func() runtime.Object { return new(example.PodList) }, Lease: lease,
	})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	b.Interface = s
	sweeping, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-sweeping.Done():
				return
			case <-ticker.C:
				_, _, err := etcd.Expired(sweeping, etcd.Options{DB: db, Rows: rows, Clock: clock}, 100)
				if sweeping.Err() == nil && err != nil {
					t.Error(err)
				}
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return b
}

// UpdatePrefixTransformer and UpdateTransformer let upstream's tests corrupt stored objects.
func (b *harness) UpdatePrefixTransformer(modify storagetesting.PrefixTransformerModifier) func() {
	old := *b.transformer.now.Load()
	changed := *old.(*storagetesting.PrefixTransformer)
	b.transformer.set(modify(&changed))
	return func() { b.transformer.set(old) }
}

func (b *harness) UpdateTransformer(modify storagetesting.TransformerModifier) func() {
	old := *b.transformer.now.Load()
	b.transformer.set(modify(old))
	return func() { b.transformer.set(old) }
}

// keys lists the keys of all objects.
func (b *harness) keys(ctx context.Context) ([]string, error) {
	response, err := b.client.KV.Get(ctx, "/pods/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, err
	}
	keys := make([]string, len(response.Kvs))
	for i, kv := range response.Kvs {
		keys[i] = string(kv.Key)
	}
	return keys, nil
}

func (b *harness) stored(ctx context.Context, t *testing.T, key string) {
	response, err := b.client.KV.Get(ctx, key)
	require.NoError(t, err)
	require.NotEmpty(t, response.Kvs, key)
	object, err := runtime.Decode(b.codec, response.Kvs[0].Value[len(storedPrefix):])
	require.NoError(t, err)
	pod := object.(*example.Pod)
	require.Empty(t, pod.ResourceVersion)
}

// calls asserts that a page of a list needs no more reads than with etcd: pages grow when a filter
// selects few objects.
func (b *harness) calls(t *testing.T, pageSize, processed uint64) {
	require.Equal(t, processed, (*b.transformer.now.Load()).(*storagetesting.PrefixTransformer).GetReadsAndReset())
	wanted := uint64(1)
	if pageSize != 0 {
		size := pageSize
		for sum := uint64(1); sum < processed; wanted++ {
			size = min(2*size, 10000)
			sum += size
		}
	}
	require.Equal(t, wanted, b.reads.GetReadsAndReset()+b.reads.GetStreamReadsAndReset()+b.pages.lists.Swap(0))
}

// compact truncates the log, and writes a key as the compactor of a cluster does.
func (b *harness) compact(ctx context.Context, t *testing.T, resourceVersion string) {
	at, err := storage.APIObjectVersioner{}.ParseResourceVersion(resourceVersion)
	require.NoError(t, err)
	_, err = b.client.KV.Put(ctx, "compact_rev_key", resourceVersion)
	require.NoError(t, err)
	_, err = b.client.KV.Compact(ctx, int64(at))
	require.NoError(t, err)
}

func (b *harness) raise(ctx context.Context, t *testing.T) int64 {
	response, err := b.client.KV.Put(ctx, "increaseRV", time.Now().String())
	require.NoError(t, err)
	return response.Header.Revision
}

// failing is a transformer that returns an error on demand.
type failing struct {
	value.Transformer
	runtime.Codec
	fail atomic.Bool
}

func (f *failing) TransformFromStorage(ctx context.Context, data []byte, c value.Context) ([]byte, bool, error) {
	if f.fail.Load() {
		return nil, false, errFailing
	}
	return f.Transformer.TransformFromStorage(ctx, data, c)
}

func (f *failing) Decode(data []byte, defaults *schema.GroupVersionKind,
	into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if f.fail.Load() {
		return nil, nil, errFailing
	}
	return f.Codec.Decode(data, defaults, into)
}

// corrupt is the error of an unreadable object, as Kubernetes' storage marks it.
func corrupt(t *testing.T) error {
	broken := &failing{}
	broken.fail.Store(true)
	_, _, err := etcd3.WithCorruptObjErrorHandlingTransformer(broken).TransformFromStorage(context.Background(),
		nil, nil)
	require.ErrorIs(t, err, errFailing)
	return err
}

// bookmarking requests bookmarks where clients accept them, as the API's storage does (see package
// kube), and gives each client its own object.
type bookmarking struct{ storage.Interface }

func (b bookmarking) Watch(ctx context.Context, key string, options storage.ListOptions) (watch.Interface, error) {
	options.ProgressNotify = options.Predicate.AllowWatchBookmarks
	shown, err := b.Interface.Watch(ctx, key, options)
	if err != nil {
		return nil, err
	}
	return watch.Filter(shown, func(event watch.Event) (watch.Event, bool) {
		if shared, ok := event.Object.(runtime.CacheableObject); ok {
			event.Object = shared.GetObject()
		}
		return event, true
	}), nil
}

// counting counts the decoded objects.
type counting struct {
	runtime.Codec
	decoded atomic.Int64
	failing atomic.Bool
}

func (c *counting) Decode(data []byte, defaults *schema.GroupVersionKind,
	into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if into == nil {
		c.decoded.Add(1)
		if c.failing.Load() {
			return nil, nil, errFailing
		}
	}
	return c.Codec.Decode(data, defaults, into)
}

func countingBench(t *testing.T) (*harness, *counting) {
	counts := new(counting)
	return newBench(t, func(b *harness) {
		counts.Codec = b.codec
		b.codec = counts
	}), counts
}

func (b *harness) watch(t *testing.T, predicate storage.SelectionPredicate) watch.Interface {
	w, err := b.Watch(t.Context(), "/pods/", storage.ListOptions{ResourceVersion: fmt.Sprint(b.db.Revision()),
		Predicate: predicate, Recursive: true})
	require.NoError(t, err)
	t.Cleanup(w.Stop)
	return w
}

func (b *harness) create(t *testing.T, name string) *example.Pod {
	pod := new(example.Pod)
	wanted := &example.Pod{}
	wanted.Namespace, wanted.Name, wanted.Labels = "ns", name, map[string]string{"a": "b"}
	require.NoError(t, b.Create(t.Context(), "/pods/ns/"+name, wanted, pod, 0))
	return pod
}

// label gives a pod another label.
func (b *harness) label(ctx context.Context, name, value string) (*example.Pod, error) {
	pod := new(example.Pod)
	return pod, b.GuaranteedUpdate(ctx, "/pods/ns/"+name, pod, false, nil,
		storage.SimpleUpdate(func(object runtime.Object) (runtime.Object, error) {
			object.(*example.Pod).Labels["a"] = value
			return object, nil
		}), nil)
}

// plain returns the object of an event in the form that its receiver may keep.
func plain(t *testing.T, event watch.Event) *example.Pod {
	shared, ok := event.Object.(runtime.CacheableObject)
	require.True(t, ok, "%T", event.Object)
	pod, ok := shared.GetObject().(*example.Pod)
	require.True(t, ok)
	return pod
}
