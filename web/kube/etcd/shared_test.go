package etcd_test

import (
	"bytes"
	"fmt"
	"io"
	goruntime "runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"landfall/web/kube/etcd"
)

func TestSharedCodec_onceForAllWatchers(t *testing.T) {
	b, counts := countingBench(t)
	watchers := make([]watch.Interface, 50)
	for i := range watchers {
		watchers[i] = b.watch(t, storage.Everything)
	}
	pod := b.create(t, "one")
	events := make([]watch.Event, len(watchers)) // objects are shared while a watcher holds them
	for i, w := range watchers {
		events[i] = <-w.ResultChan()
		require.Equal(t, watch.Added, events[i].Type)
		require.Equal(t, pod, plain(t, events[i]))
	}
	require.EqualValues(t, 1, counts.decoded.Load())
	var encoded atomic.Int64
	encode := func(object runtime.Object, w io.Writer) error {
		encoded.Add(1)
		_, err := io.WriteString(w, object.(*example.Pod).Name)
		return err
	}
	var group sync.WaitGroup
	for _, event := range events {
		group.Go(func() {
			for _, form := range []runtime.Identifier{"json", "table"} {
				var text strings.Builder
				if err := event.Object.(runtime.CacheableObject).CacheEncode(form, encode, &text); err != nil ||
					text.String() != "one" {
					t.Errorf("%s: %q, %v", form, text.String(), err)
				}
				splice := runtime.NewSpliceBuffer()
				if err := event.Object.(runtime.CacheableObject).CacheEncode(form, encode, splice); err != nil ||
					string(splice.Bytes()) != "one" {
					t.Errorf("%s: %q, %v", form, splice.Bytes(), err)
				}
			}
		})
	}
	group.Wait()
	require.EqualValues(t, 2, encoded.Load(), "each encoding once")
	goruntime.KeepAlive(events)
}

func TestSharedCodec_copies(t *testing.T) {
	b, _ := countingBench(t)
	b.create(t, "one")
	const watchers, changes = 8, 40
	// Like real encoders, it modifies the object temporarily.
	encode := func(object runtime.Object, w io.Writer) error {
		pod := object.(*example.Pod)
		kind := pod.GroupVersionKind()
		pod.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Pod"})
		defer pod.SetGroupVersionKind(kind)
		_, err := fmt.Fprint(w, pod.Kind, pod.ResourceVersion, pod.Labels["a"])
		return err
	}
	selecting := storage.SelectionPredicate{Label: labels.Everything(),
		Field: fields.OneTermEqualSelector("metadata.name", "one"),
		GetAttrs: func(object runtime.Object) (labels.Set, fields.Set, error) {
			pod := object.(*example.Pod)
			return pod.Labels, fields.Set{"metadata.name": pod.Name}, nil
		}}
	var group sync.WaitGroup
	for i := range watchers {
		w := b.watch(t, []storage.SelectionPredicate{storage.Everything, selecting}[i%2])
		group.Go(func() {
			for change := range changes {
				event := <-w.ResultChan()
				shared, ok := event.Object.(runtime.CacheableObject)
				if !ok {
					t.Errorf("a watch ended: %v", event)
					return
				}
				own := shared.GetObject().(*example.Pod)
				if own.Labels["a"] != fmt.Sprint(change) {
					t.Errorf("change %d has the label %s", change, own.Labels["a"])
				}
				var text bytes.Buffer
				if err := shared.CacheEncode("form", encode, &text); err != nil || text.String() != "Pod"+
					own.ResourceVersion+fmt.Sprint(change) {
					t.Errorf("change %d is encoded to %s, %v", change, &text, err)
				}
				own.Labels["a"], own.ResourceVersion = "spoilt", "0"
				event.Object.DeepCopyObject().(*example.Pod).Labels["a"] = "changed too"
				event.Object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{Kind: "Spoilt"})
			}
		})
	}
	for change := range changes {
		_, err := b.label(t.Context(), "one", fmt.Sprint(change))
		require.NoError(t, err)
	}
	group.Wait()
}

func TestSharedCodec_deletionRevision(t *testing.T) {
	b, counts := countingBench(t)
	first, second := b.watch(t, storage.Everything), b.watch(t, storage.Everything)
	pod := b.create(t, "one")
	added := []watch.Event{<-first.ResultChan(), <-second.ResultChan()}
	require.NoError(t, b.Delete(t.Context(), "/pods/ns/one", new(example.Pod), nil, storage.ValidateAllObjectFunc,
		nil, storage.DeleteOptions{}))
	for _, w := range []watch.Interface{first, second} {
		deleted := <-w.ResultChan()
		require.Equal(t, watch.Deleted, deleted.Type)
		require.Equal(t, fmt.Sprint(b.db.Revision()), plain(t, deleted).ResourceVersion)
	}
	for _, event := range added {
		require.Equal(t, pod, plain(t, event), "the event of the creation is unchanged")
	}
	require.EqualValues(t, 1, counts.decoded.Load(), "the deleted object was decoded with its creation")
}

func TestSharedCodec_memory(t *testing.T) {
	b, counts := countingBench(t)
	for i := range 20 {
		w := b.watch(t, storage.Everything)
		b.create(t, fmt.Sprint("pod-", i))
		<-w.ResultChan()
		w.Stop()
		for range w.ResultChan() {
			t.Error("the watch sent an event after its end")
		}
	}
	require.EqualValues(t, 20, counts.decoded.Load())
	require.Eventually(t, func() bool { goruntime.GC(); return b.Interface.(etcd.Storage).Shared() == 0 },
		time.Minute, time.Millisecond)
}

func TestSharedCodec_retryDecode(t *testing.T) {
	b, counts := countingBench(t)
	counts.failing.Store(true)
	from := fmt.Sprint(b.db.Revision())
	pod := b.create(t, "one")
	for _, wanted := range []watch.EventType{watch.Error, watch.Added} {
		w, err := b.Watch(t.Context(), "/pods/", storage.ListOptions{ResourceVersion: from,
			Predicate: storage.Everything, Recursive: true})
		require.NoError(t, err)
		event := <-w.ResultChan()
		require.Equal(t, wanted, event.Type)
		if wanted == watch.Added {
			require.Equal(t, pod, plain(t, event))
		}
		w.Stop()
		counts.failing.Store(false)
	}
}

// TestVariant_onceForEachKey changes a watched object for some of its watchers.
func TestVariant_onceForEachKey(t *testing.T) {
	b, _ := countingBench(t)
	watchers := []watch.Interface{b.watch(t, storage.Everything), b.watch(t, storage.Everything),
		b.watch(t, storage.Everything)}
	pod := b.create(t, "one")
	changes, encoded := 0, 0
	encode := func(object runtime.Object, w io.Writer) error {
		encoded++
		_, err := io.WriteString(w, object.(*example.Pod).Name)
		return err
	}
	textOf := func(object runtime.Object) string {
		var text strings.Builder
		require.NoError(t, object.(runtime.CacheableObject).CacheEncode("json", encode, &text))
		return text.String()
	}
	held := make([]watch.Event, len(watchers)) // objects are shared while a watcher holds them
	for i, w := range watchers {
		held[i] = <-w.ResultChan()
	}
	for _, event := range held {
		require.Equal(t, "one", textOf(event.Object))
		for _, key := range []string{"viewer", "operator", "same"} {
			object, err := etcd.Variant(event.Object, key, func(object runtime.Object) (bool, error) {
				changes++
				object.(*example.Pod).Name = key
				return key != "same", nil
			})
			require.NoError(t, err)
			if key == "same" {
				require.Equal(t, "one", textOf(object), "an unchanged object shares the encoding")
				continue
			}
			require.Equal(t, key, textOf(object))
		}
		require.Equal(t, pod, plain(t, event), "the other watchers' object is not changed")
	}
	require.Equal(t, 3, changes, "each variant once")
	require.Equal(t, 3, encoded, "each encoding once")
	goruntime.KeepAlive(held)
}
