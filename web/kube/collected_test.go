package kube_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/objects"
	"landfall/store"
	"landfall/web/kube"
)

// recorded is the loop of controllers that records the progress of the garbage collector.
type recorded struct {
	*controller.Loop
	checks atomic.Int32 // of all objects
}

func (r *recorded) FollowerChecked() {
	r.checks.Add(1)
	r.Loop.FollowerChecked()
}

// recordedSite is an API server with a loop, which can be started again.
type recordedSite struct {
	*testing.T
	*site
	recorded *recorded
	endLoop  func()
}

func newRecordedSite(t *testing.T) *recordedSite {
	s := &recordedSite{T: t}
	s.site = newSite(t, func(o *kube.Options) { o.Progress = s.newLoop(*o) })
	s.runLoop()
	t.Cleanup(func() { s.endLoop() })
	return s
}

func (s *recordedSite) newLoop(o kube.Options) *recorded {
	s.recorded = &recorded{Loop: controller.New(o.DB, o.Clock, o.Logger)}
	return s.recorded
}

func (s *recordedSite) runLoop() {
	s.recorded.SetFollower(s.server)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.recorded.Resume(ctx, "inputs") }()
	s.endLoop = func() {
		cancel()
		require.NoError(s, <-ended)
		s.endLoop = func() {}
	}
}

// restart stops and starts the API. Between them, it changes the stored objects.
func (s *recordedSite) restart(change func(tx *store.Tx) error) {
	s.Helper()
	s.endLoop()
	s.stop(s)
	if change != nil {
		require.NoError(s, s.db.Update(s.Context(), change))
	}
	s.options.Progress = s.newLoop(s.options)
	s.start(s)
	s.runLoop()
}

// settle waits until the garbage collector has nothing left to do, and the loop knows that.
func (s *recordedSite) settle() {
	s.Helper()
	require.Eventually(s, func() bool {
		to, ok := s.server.Followed()
		return ok && to >= s.db.Revision()
	}, time.Minute, time.Millisecond)
	require.NoError(s, s.recorded.WaitIdle(s.Context()))
}

func (s *recordedSite) label(name string) func(tx *store.Tx) error {
	return func(tx *store.Tx) error {
		return s.options.Objects.Update(tx, objects.ConfigMaps, "default", name,
			func(u *unstructured.Unstructured) error {
				u.SetLabels(map[string]string{"value": time.Now().Format(time.RFC3339Nano)})
				return nil
			})
	}
}

func (s *recordedSite) delete(name string) func(tx *store.Tx) error {
	return func(tx *store.Tx) error {
		return s.options.Objects.Delete(tx, objects.ConfigMaps, "default", name, time.Now())
	}
}

// family creates an object and a dependent of it.
func (s *recordedSite) family(name string) {
	parent := s.create(s, objects.ConfigMaps, "default", name, "")
	s.create(s, objects.ConfigMaps, "default", name+"-child", ownedBy(parent))
}

func TestGarbageCollector_startChecksNothingWithoutAChange(t *testing.T) {
	s := newRecordedSite(t)
	s.family("one")
	s.family("two")
	s.settle()
	require.EqualValues(t, 1, s.recorded.checks.Load(), "of a database without a record")
	s.restart(nil)
	s.settle()
	require.NoError(t, s.db.Update(t.Context(), s.label("one-child")))
	s.settle()
	require.Zero(t, s.recorded.checks.Load(), "nothing can have become garbage")

	require.NoError(t, s.db.Update(t.Context(), s.delete("one")))
	s.gone(t, objects.ConfigMaps, "default", "one-child")
	s.settle()
	require.EqualValues(t, 1, s.recorded.checks.Load(), "a deletion needs the graph of owners")
	require.NoError(t, s.db.Update(t.Context(), s.delete("two")))
	s.gone(t, objects.ConfigMaps, "default", "two-child")
	require.EqualValues(t, 1, s.recorded.checks.Load(), "which exists now")
}

func TestGarbageCollector_startFollowsChangesSinceTheStop(t *testing.T) {
	for name, change := range map[string]func(s *recordedSite) func(tx *store.Tx) error{
		"deleted owner": func(s *recordedSite) func(*store.Tx) error { return s.delete("one") },
		"owner that does not exist": func(s *recordedSite) func(*store.Tx) error {
			return func(tx *store.Tx) error {
				return s.options.Objects.Update(tx, objects.ConfigMaps, "default", "one-child",
					func(u *unstructured.Unstructured) error {
						owners := u.GetOwnerReferences()
						owners[0].UID = "another"
						u.SetOwnerReferences(owners)
						return nil
					})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRecordedSite(t)
			s.family("one")
			s.settle()
			s.restart(nil)
			s.settle()
			s.restart(change(s))
			s.gone(t, objects.ConfigMaps, "default", "one-child")
		})
	}
}

func TestGarbageCollector_startChecksAllAfterACompaction(t *testing.T) {
	s := newRecordedSite(t)
	s.family("one")
	s.settle()
	s.endLoop()
	s.stop(t)
	require.NoError(t, s.db.Update(t.Context(), s.delete("one")))
	require.NoError(t, s.db.Compact(t.Context(), s.db.Revision()))
	s.restart(nil)
	s.gone(t, objects.ConfigMaps, "default", "one-child")
	s.settle()
	require.EqualValues(t, 1, s.recorded.checks.Load())
}

func TestGarbageCollector_startFinishesADeletedNamespace(t *testing.T) {
	s := newRecordedSite(t)
	s.create(t, objects.Namespaces, "", "site", "")
	s.create(t, objects.ConfigMaps, "site", "held", `"metadata":{"finalizers":["example.com/held"]}`)
	s.settle()
	require.NoError(t, s.of(objects.Namespaces, "").Delete(t.Context(), "site", metav1.DeleteOptions{}))
	require.Eventually(t, func() bool {
		return s.get(t, objects.ConfigMaps, "site", "held").GetDeletionTimestamp() != nil
	}, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool {
		_, ok := s.server.Followed()
		return !ok
	}, time.Minute, time.Millisecond, "the namespace still exists")
	s.restart(nil)
	require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error {
		return s.options.Objects.Update(tx, objects.ConfigMaps, "site", "held",
			func(u *unstructured.Unstructured) error {
				objects.RemoveFinalizer(u, "example.com/held")
				return nil
			})
	}))
	s.gone(t, objects.Namespaces, "", "site")
}
