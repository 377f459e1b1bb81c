package etcd_test

import (
	"context"
	"errors"
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
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"

	"landfall/store"
	"landfall/web/kube/etcd"
)

// Kubernetes' own tests of its storage (k8s.io/apiserver/pkg/storage/testing) run here on the store
// of this program. All of them run; those of lists and watches run over streamed ranges and over
// pages.

const storedPrefix = "test!"

// bench is a storage over its own store.
type bench struct {
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

func newBench(t *testing.T, options ...func(*bench)) *bench {
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
	b := &bench{
		codec: apitesting.TestCodec(serializer.NewCodecFactory(scheme), examplev1.SchemeGroupVersion),
		client: etcd.NewClient(ctx, etcd.Options{DB: db, Rows: rows, Clock: clock,
			ProgressEvery: 250 * time.Millisecond}), transformer: new(swappable), db: db,
	}
	b.pages = &counted{Interface: b.client.Kubernetes}
	b.lists = storagetesting.NewKubernetesRecorder(b.pages)
	b.reads = storagetesting.NewKVRecorder(b.client.KV, b.lists)
	b.client.Kubernetes, b.client.KV = b.lists, b.reads
	b.transformer.set(storagetesting.NewPrefixTransformer([]byte(storedPrefix), false))
	// etcd begins at revision 1; here the program makes the first write before it serves the API
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
func (b *bench) UpdatePrefixTransformer(modify storagetesting.PrefixTransformerModifier) func() {
	old := *b.transformer.now.Load()
	changed := *old.(*storagetesting.PrefixTransformer)
	b.transformer.set(modify(&changed))
	return func() { b.transformer.set(old) }
}

func (b *bench) UpdateTransformer(modify storagetesting.TransformerModifier) func() {
	old := *b.transformer.now.Load()
	b.transformer.set(modify(old))
	return func() { b.transformer.set(old) }
}

// keys lists the keys of all objects.
func (b *bench) keys(ctx context.Context) ([]string, error) {
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

func (b *bench) stored(ctx context.Context, t *testing.T, key string) {
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
func (b *bench) calls(t *testing.T, pageSize, processed uint64) {
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
func (b *bench) compact(ctx context.Context, t *testing.T, resourceVersion string) {
	at, err := storage.APIObjectVersioner{}.ParseResourceVersion(resourceVersion)
	require.NoError(t, err)
	_, err = b.client.KV.Put(ctx, "compact_rev_key", resourceVersion)
	require.NoError(t, err)
	_, err = b.client.KV.Compact(ctx, int64(at))
	require.NoError(t, err)
}

func (b *bench) raise(ctx context.Context, t *testing.T) int64 {
	response, err := b.client.KV.Put(ctx, "increaseRV", time.Now().String())
	require.NoError(t, err)
	return response.Header.Revision
}

// failing fails to read on demand.
type failing struct {
	value.Transformer
	runtime.Codec
	fail atomic.Bool
}

var errFailing = errors.New("made to fail")

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

func TestStorage_upstream(t *testing.T) {
	ctx := context.Background()
	for name, run := range map[string]func(*testing.T, *bench){
		"Create": func(t *testing.T, b *bench) {
			storagetesting.RunTestCreate(ctx,
				t, b, b.stored)
		},
		"CreateWithTTL": func(t *testing.T, b *bench) {
			storagetesting.RunTestCreateWithTTL(ctx,
				t, b)
		},
		"CreateWithKeyExist": func(t *testing.T,
			b *bench) {
			storagetesting.RunTestCreateWithKeyExist(ctx, t, b)
		},
		"Get": func(t *testing.T, b *bench) { storagetesting.RunTestGet(ctx, t, b) },
		"UnconditionalDelete": func(t *testing.T,
			b *bench) {
			storagetesting.RunTestUnconditionalDelete(ctx, t, b)
		},
		"ConditionalDelete": func(t *testing.T,
			b *bench) {
			storagetesting.RunTestConditionalDelete(ctx, t, b)
		},
		"DeleteWithSuggestion": func(t *testing.T,
			b *bench) {
			storagetesting.RunTestDeleteWithSuggestion(ctx, t, b)
		},
		"DeleteWithSuggestionAndConflict": func(t *testing.T,
			b *bench) {
			storagetesting.RunTestDeleteWithSuggestionAndConflict(ctx, t, b)
		},
		"DeleteWithConflict": func(t *testing.T,
			b *bench) {
			storagetesting.RunTestDeleteWithConflict(ctx, t, b)
		},
		"DeleteWithSuggestionOfDeletedObject": func(t *testing.T,
			b *bench) {
			storagetesting.RunTestDeleteWithSuggestionOfDeletedObject(ctx, t, b)
		},
		"ValidateDeletionWithSuggestion": func(t *testing.T,
			b *bench) {
			storagetesting.RunTestValidateDeletionWithSuggestion(ctx, t, b)
		},
		"ValidateDeletionOnlySuggestionValid": func(t *testing.T,
			b *bench) {
			storagetesting.RunTestValidateDeletionWithOnlySuggestionValid(ctx, t, b)
		},
		"PreconditionalDeleteWithSuggestion": func(t *testing.T,
			b *bench) {
			storagetesting.RunTestPreconditionalDeleteWithSuggestion(ctx, t, b)
		},
		"PreconditionalDeleteOnlySuggestion": func(t *testing.T, b *bench) {
			storagetesting.RunTestPreconditionalDeleteWithOnlySuggestionPass(ctx, t, b)
		},
		"GetListNonRecursive": func(t *testing.T,
			b *bench) {
			storagetesting.RunTestGetListNonRecursive(ctx, t, b.raise, b)
		},
		"GetListRecursivePrefix": func(t *testing.T,
			b *bench) {
			storagetesting.RunTestGetListRecursivePrefix(ctx, t, b)
		},
		"ListContinuation": func(t *testing.T, b *bench) {
			storagetesting.RunTestListContinuation(ctx,
				t, b, b.calls)
		},
		"ListPaginationRareObject": func(t *testing.T,
			b *bench) {
			storagetesting.RunTestListPaginationRareObject(ctx, t, b, b.calls)
		},
		"ListContinuationWithFilter": func(t *testing.T,
			b *bench) {
			storagetesting.RunTestListContinuationWithFilter(ctx, t, b, b.calls)
		},
		"ListInconsistentContinuation": func(t *testing.T,
			b *bench) {
			storagetesting.RunTestListInconsistentContinuation(ctx, t, b, b.compact)
		},
		"ListResourceVersionMatch": func(t *testing.T,
			b *bench) {
			storagetesting.RunTestListResourceVersionMatch(ctx, t, b)
		},
		"ListPaging": func(t *testing.T, b *bench) {
			storagetesting.RunTestListPaging(ctx,
				t, b)
		},
		"NamespaceScopedList": func(t *testing.T,
			b *bench) {
			storagetesting.RunTestNamespaceScopedList(ctx, t, b)
		},
		"KeySchema": func(t *testing.T, b *bench) { storagetesting.RunTestKeySchema(ctx, t, b) },
		"GuaranteedUpdate": func(t *testing.T, b *bench) {
			storagetesting.RunTestGuaranteedUpdate(ctx,
				t, b, b.stored)
		},
		"GuaranteedUpdateWithTTL": func(t *testing.T,
			b *bench) {
			storagetesting.RunTestGuaranteedUpdateWithTTL(ctx, t, b)
		},
		"GuaranteedUpdateChecksStoredData": func(t *testing.T,
			b *bench) {
			storagetesting.RunTestGuaranteedUpdateChecksStoredData(ctx, t, b)
		},
		"GuaranteedUpdateWithConflict": func(t *testing.T,
			b *bench) {
			storagetesting.RunTestGuaranteedUpdateWithConflict(ctx, t, b)
		},
		"GuaranteedUpdateSuggestionAndConflict": func(t *testing.T, b *bench) {
			storagetesting.RunTestGuaranteedUpdateWithSuggestionAndConflict(ctx, t, b)
		},
		"TransformationFailure": func(t *testing.T, b *bench) {
			storagetesting.RunTestTransformationFailure(ctx,
				t, b)
		},
		"Stats": func(t *testing.T, b *bench) {
			storagetesting.RunTestStats(ctx, t, b, b.codec,
				b.transformer, false)
		},
		"StatsBySizesOfKeys": func(t *testing.T, b *bench) {
			require.NoError(t, b.EnableResourceSizeEstimation(b.keys))
			storagetesting.RunTestStats(ctx, t, b, b.codec, b.transformer, true)
		},
		"CompactRevision": func(t *testing.T, b *bench) {
			storagetesting.RunTestCompactRevision(ctx, t, b, b.raise,
				b.compact)
		},
	} {
		t.Run(name, func(t *testing.T) { run(t, newBench(t)) })
	}
}

func TestStorage_deleteUnreadable(t *testing.T) {
	ctx := context.Background()
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate,
		features.AllowUnsafeMalformedObjectDeletion, true)
	var broken *failing
	badCodec := func(b *bench) {
		broken = &failing{Codec: b.codec}
		b.codec = broken
	}
	badTransformer := func(b *bench) {
		broken = &failing{Transformer: *b.transformer.now.Load()}
		b.transformer.set(struct{ value.Transformer }{broken})
	}
	t.Run("MissingExpectedError", func(t *testing.T) {
		b := newBench(t, badCodec)
		storagetesting.RunTestDeleteWithConflictAndMissingExpectedTransformOrDecodeError(ctx, t, b, broken.fail.Store)
	})
	t.Run("ExpectedTransformError", func(t *testing.T) {
		b := newBench(t, badTransformer)
		storagetesting.RunTestDeleteExpectedTransformOrDecodeError(ctx, t, b, broken.fail.Store)
	})
	t.Run("ExpectedDecodeError", func(t *testing.T) {
		b := newBench(t, badCodec)
		storagetesting.RunTestDeleteExpectedTransformOrDecodeError(ctx, t, b, broken.fail.Store)
	})
	t.Run("SuggestionAndMissingExpectedError", func(t *testing.T) {
		storagetesting.RunTestDeleteWithSuggestionAndMissingExpectedTransformOrDecodeError(ctx, t, newBench(t))
	})
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

func TestStorage_listUnreadable(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate,
		features.AllowUnsafeMalformedObjectDeletion, false)
	storagetesting.RunTestGetListWithoutErrorAggregation(context.Background(), t, newBench(t), corrupt(t))
}

func TestStorage_listAllUnreadable(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate,
		features.AllowUnsafeMalformedObjectDeletion, true)
	b := newBench(t)
	b.Interface = etcd3.NewStoreWithUnsafeCorruptObjectDeletion(b.Interface, schema.GroupResource{Resource: "pods"})
	storagetesting.RunTestGetListWithErrorAggregation(context.Background(), t, b, corrupt(t))
}

func TestStorage_watchUnreadable(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate,
		features.AllowUnsafeMalformedObjectDeletion, true)
	storagetesting.RunTestWatchWithUnsafeDelete(context.Background(), t, newBench(t), corrupt(t))
}

// both runs a test over streamed ranges and over pages.
func both(t *testing.T, run func(t *testing.T, streamed bool)) {
	for _, streamed := range []bool{false, true} {
		t.Run(fmt.Sprintf("streamed=%v", streamed), func(t *testing.T) {
			featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.EtcdRangeStream,
				streamed)
			run(t, streamed)
		})
	}
}

func TestStorage_consistentLists(t *testing.T) {
	ctx := context.Background()
	both(t, func(t *testing.T, streamed bool) {
		t.Run("List", func(t *testing.T) {
			b := newBench(t)
			storagetesting.RunTestList(ctx, t, b, b.compact, false, b.lists)
			require.Equal(t, streamed, b.reads.GetStreamReadsAndReset() > 0)
		})
		t.Run("ConsistentList", func(t *testing.T) {
			b := newBench(t)
			storagetesting.RunTestConsistentList(ctx, t, b, b.raise, false, true, false)
		})
	})
}

func TestStorage_watches(t *testing.T) {
	ctx := context.Background()
	for name, run := range map[string]func(*testing.T, *bench){
		"Watch": func(t *testing.T, b *bench) {
			storagetesting.RunTestWatch(ctx,
				t, b)
		},
		"ClusterScopedWatch": func(t *testing.T,
			b *bench) {
			storagetesting.RunTestClusterScopedWatch(ctx, t, b)
		},
		"NamespaceScopedWatch": func(t *testing.T,
			b *bench) {
			storagetesting.RunTestNamespaceScopedWatch(ctx, t, b)
		},
		"DeleteTriggerWatch": func(t *testing.T,
			b *bench) {
			storagetesting.RunTestDeleteTriggerWatch(ctx, t, b)
		},
		"WatchFromZero": func(t *testing.T,
			b *bench) {
			storagetesting.RunTestWatchFromZero(ctx, t, b, b.compact)
		},
		"WatchFromNonZero": func(t *testing.T,
			b *bench) {
			storagetesting.RunTestWatchFromNonZero(ctx, t, b)
		},
		"DelayedWatchDelivery": func(t *testing.T,
			b *bench) {
			storagetesting.RunTestDelayedWatchDelivery(ctx, t, b)
		},
		"WatchError": func(t *testing.T, b *bench) {
			storagetesting.RunTestWatchError(ctx,
				t, b)
		},
		"WatchContextCancel": func(t *testing.T,
			b *bench) {
			storagetesting.RunTestWatchContextCancel(ctx, t, b)
		},
		"WatcherTimeout": func(t *testing.T,
			b *bench) {
			storagetesting.RunTestWatcherTimeout(ctx, t, b)
		},
		"WatchDeleteEventObjectHaveLatestRV": func(t *testing.T,
			b *bench) {
			storagetesting.RunTestWatchDeleteEventObjectHaveLatestRV(ctx, t, b)
		},
		"WatchInitializationSignal": func(t *testing.T,
			b *bench) {
			storagetesting.RunTestWatchInitializationSignal(ctx, t, b)
		},
		"ProgressNotify": func(t *testing.T,
			b *bench) {
			storagetesting.RunOptionalTestProgressNotify(ctx, t, b, b.raise)
		},
		"WatchDispatchBookmarkEvents": func(t *testing.T,
			b *bench) {
			storagetesting.RunTestWatchDispatchBookmarkEvents(ctx, t, b, false)
		},
		"SendInitialEventsBackwardCompatibility": func(t *testing.T,
			b *bench) {
			storagetesting.RunSendInitialEventsBackwardCompatibility(ctx, t, b)
		},
		"WatchBookmarksWithCorrectResourceVersion": func(t *testing.T, b *bench) {
			b.Interface = bookmarking{b.Interface}
			storagetesting.RunTestOptionalWatchBookmarksWithCorrectResourceVersion(ctx, t, b)
		},
		"WatchErrorIsBlockingFurtherEvents": func(t *testing.T,
			b *bench) {
			storagetesting.RunWatchErrorIsBlockingFurtherEvents(ctx, t, b)
		},
	} {
		t.Run(name, func(t *testing.T) { run(t, newBench(t)) })
	}
	both(t, func(t *testing.T, _ bool) {
		t.Run("WatchSemantics", func(t *testing.T) { storagetesting.RunWatchSemantics(ctx, t, newBench(t)) })
		t.Run("WatchSemanticsWithConcurrentDecode", func(t *testing.T) {
			featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate,
				features.ConcurrentWatchObjectDecode, true)
			storagetesting.RunWatchSemantics(ctx, t, newBench(t))
		})
		t.Run("WatchSemanticInitialEventsExtended",
			func(t *testing.T) { storagetesting.RunWatchSemanticInitialEventsExtended(ctx, t, newBench(t)) })
		t.Run("WatchListMatchSingle", func(t *testing.T) {
			storagetesting.RunWatchListMatchSingle(ctx,
				t, newBench(t))
		})
	})
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
