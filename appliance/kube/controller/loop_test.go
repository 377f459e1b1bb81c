package controller_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/objects"
	"landfall/store"
)

// recorder reconciles ConfigMaps: it counts the calls for each name.
type recorder struct {
	mu    sync.Mutex
	calls map[string]int
	busy  map[string]bool
	do    func(name string, call int) (time.Duration, error)
	twice bool // an object was reconciled by two workers at the same time

	watches []controller.Watch
}

func (r *recorder) Kind() objects.Kind { return objects.ConfigMaps }

func (r *recorder) Watches() []controller.Watch { return r.watches }

func (r *recorder) Reconcile(_ context.Context, _, name string) (time.Duration, error) {
	r.mu.Lock()
	r.twice = r.twice || r.busy[name]
	r.busy[name] = true
	r.calls[name]++
	call := r.calls[name]
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.busy[name] = false
	}()
	if r.do == nil {
		return 0, nil
	}
	return r.do(name, call)
}

func (r *recorder) called(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls[name]
}

type site struct {
	*testing.T
	db    *store.DB
	o     *objects.Objects
	clock clockwork.Clock
	r     *recorder
	loop  *controller.Loop
}

func newSite(t *testing.T) *site {
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	s := &site{T: t, db: db, o: objects.New(nil, nil), clock: clockwork.NewRealClock(),
		r: &recorder{calls: map[string]int{}, busy: map[string]bool{}}}
	s.loop = controller.New(db, s.clock, slog.New(slog.DiscardHandler))
	return s
}

func (s *site) run(watches ...controller.Watch) {
	s.r.watches = watches
	s.loop.Add(s.r)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.loop.Run(ctx) }()
	s.Cleanup(func() {
		cancel()
		require.NoError(s, <-done)
		require.False(s, s.r.twice, "an object was reconciled by two workers at the same time")
	})
	s.waitIdle()
}

func (s *site) waitIdle() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(s, s.loop.WaitIdle(ctx))
}

// pass advances the clock of the synctest bubble and waits until all goroutines are blocked.
func (s *site) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (s *site) create(kind objects.Kind, name string) {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": kind.APIVersion(), "kind": kind.Kind}}
	u.SetNamespace("site")
	u.SetName(name)
	require.NoError(s, s.db.Update(context.Background(), func(tx *store.Tx) error {
		return s.o.Create(tx, kind,
			u, s.clock.Now())
	}))
}

func TestLoop_existingAndChangedObjects(t *testing.T) {
	s := newSite(t)
	s.create(objects.ConfigMaps, "old")
	s.run()
	require.Equal(t, 1, s.r.called("old"))
	s.create(objects.ConfigMaps, "new")
	s.waitIdle()
	require.Equal(t, 1, s.r.called("new"))
	require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error {
		return s.o.Delete(tx, objects.ConfigMaps,
			"site", "new", s.clock.Now())
	}))
	s.waitIdle()
	require.Equal(t, 2, s.r.called("new"), "a deleted object is reconciled")
	require.Equal(t, 1, s.r.called("old"))
}

func TestLoop_watches(t *testing.T) {
	s := newSite(t)
	s.create(objects.ConfigMaps, "site")
	s.run(controller.Watch{Kind: objects.Secrets, Map: func(_ *store.Tx, namespace, name string) ([]controller.Key,
		error) {
		require.Equal(t, "pull", name)
		return []controller.Key{{Kind: objects.ConfigMaps, Namespace: namespace, Name: "site"}}, nil
	}})
	s.create(objects.Secrets, "pull")
	s.waitIdle()
	require.Equal(t, 2, s.r.called("site"))
}

func TestLoop_enqueueAllAtStart(t *testing.T) {
	for _, missing := range []bool{true, false} {
		s := newSite(t)
		s.create(objects.Secrets, "pull")
		s.run(controller.Watch{Kind: objects.Secrets, EnqueueAll: missing, Map: func(_ *store.Tx, namespace,
			_ string) ([]controller.Key, error) {
			return []controller.Key{{Kind: objects.ConfigMaps, Namespace: namespace, Name: "absent"}}, nil
		}})
		require.Equal(t, missing, s.r.called("absent") == 1)
	}
}

// A damaged row leaves out what can't be found because of it. The loop goes on.
func TestLoop_damagedRowOfWatch(t *testing.T) {
	s := newSite(t)
	s.create(objects.ConfigMaps, "site")
	s.create(objects.Secrets, "pull")
	s.run(controller.Watch{Kind: objects.Secrets, EnqueueAll: true, Map: func(_ *store.Tx, namespace,
		_ string) ([]controller.Key, error) {
		found := []controller.Key{{Kind: objects.ConfigMaps, Namespace: namespace, Name: "found"}}
		return found, fmt.Errorf("read another: %w", &store.DamagedError{Key: "other", Err: errors.New("cut")})
	}})
	require.Equal(t, 1, s.r.called("site"))
	require.Equal(t, 1, s.r.called("found"))
	s.create(objects.Secrets, "other")
	s.waitIdle()
	require.Equal(t, 2, s.r.called("found"))
}

func TestLoop_backoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.r.do = func(_ string, call int) (time.Duration, error) {
			if call < 4 {
				return 0, errors.New("the mirror does not answer")
			}
			return 0, nil
		}
		s.create(objects.ConfigMaps, "one")
		s.run()
		for i, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			s.pass(wait - 1)
			require.Equal(t, i+1, s.r.called("one"))
			s.pass(1)
			require.Equal(t, i+2, s.r.called("one"))
		}
		s.pass(time.Hour)
		require.Equal(t, 4, s.r.called("one"), "an object is not requeued after a success")
	})
}

func TestLoop_retryFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.r.do = func(string, int) (time.Duration, error) {
			return 0, &controller.ReportedError{Err: errors.New("the mirror does not answer")}
		}
		s.create(objects.ConfigMaps, "one")
		s.run()
		s.pass(time.Hour)
		calls := s.r.called("one")
		s.pass(time.Hour)
		require.Equal(t, calls+12, s.r.called("one"), "the longest backoff is five minutes")
		require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error {
			return s.o.Update(tx, objects.ConfigMaps, "site", "one", func(u *unstructured.Unstructured) error {
				u.SetLabels(map[string]string{"changed": "yes"})
				return nil
			})
		}))
		s.pass(0)
		require.Equal(t, calls+13, s.r.called("one"))
		s.loop.RetryFailed()
		s.pass(0)
		require.Equal(t, calls+14, s.r.called("one"))
		s.pass(time.Second)
		require.Equal(t, calls+15, s.r.called("one"), "the backoff starts again")
	})
}

func TestLoop_requeueAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.r.do = func(_ string, call int) (time.Duration, error) {
			if call == 1 {
				return time.Minute, nil
			}
			return 0, nil
		}
		s.create(objects.ConfigMaps, "one")
		s.run()
		s.pass(time.Minute - 1)
		require.Equal(t, 1, s.r.called("one"))
		s.pass(1)
		require.Equal(t, 2, s.r.called("one"))
	})
}

// lateClock is a clock that advances to the time of a timer before the timer exists.
type lateClock struct{ *clockwork.FakeClock }

func (c lateClock) NewTimer(d time.Duration) clockwork.Timer {
	c.Advance(d)
	return c.FakeClock.NewTimer(d)
}

func TestLoop_clockAdvancesBeforeTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.loop = controller.New(s.db, lateClock{clockwork.NewFakeClock()}, slog.New(slog.DiscardHandler))
		s.r.do = func(_ string, call int) (time.Duration, error) {
			if call == 1 {
				return time.Minute, nil
			}
			return 0, nil
		}
		s.run()
		synctest.Wait()
		s.create(objects.ConfigMaps, "one")
		synctest.Wait()
		require.Equal(t, 2, s.r.called("one"))
	})
}

func TestLoop_changeDuringReconcile(t *testing.T) {
	s := newSite(t)
	first, changed := make(chan struct{}), make(chan struct{})
	s.r.do = func(_ string, call int) (time.Duration, error) {
		if call == 1 {
			close(first)
			<-changed
		}
		return 0, nil
	}
	s.loop.Add(s.r)
	s.create(objects.ConfigMaps, "one")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.loop.Run(ctx) }()
	<-first
	for i := range 5 {
		require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error {
			return s.o.Update(tx, objects.ConfigMaps, "site", "one", func(u *unstructured.Unstructured) error {
				u.SetLabels(map[string]string{"change": fmt.Sprint(i)})
				return nil
			})
		}))
	}
	close(changed)
	s.waitIdle()
	require.GreaterOrEqual(t, s.r.called("one"), 2)
	cancel()
	require.NoError(t, <-done)
	require.False(t, s.r.twice)
}

// secrets reconciles Secrets: it sends their names to a channel.
type secrets struct{ done chan string }

func (secrets) Kind() objects.Kind { return objects.Secrets }

func (secrets) Watches() []controller.Watch { return nil }

func (r secrets) Reconcile(_ context.Context, _, name string) (time.Duration, error) {
	r.done <- name
	return 0, nil
}

func TestLoop_workersPerKind(t *testing.T) {
	s := newSite(t)
	answer := make(chan struct{}) // the reconciles of ConfigMaps wait for it
	s.r.do = func(string, int) (time.Duration, error) { <-answer; return 0, nil }
	for i := range 20 {
		s.create(objects.ConfigMaps, fmt.Sprint("waits-", i))
	}
	s.create(objects.Secrets, "pull")
	others := secrets{make(chan string, 1)}
	s.loop.Add(s.r)
	s.loop.Add(others)
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- s.loop.Run(ctx) }()
	select {
	case name := <-others.done:
		require.Equal(t, "pull", name)
	case <-time.After(time.Minute):
		t.Error("the Secret waits for the ConfigMaps")
	}
	close(answer)
	s.waitIdle()
	require.Equal(t, 1, s.r.called("waits-19"))
	cancel()
	require.NoError(t, <-done)
}

func TestLoop_manyObjects(t *testing.T) {
	s := newSite(t)
	s.run()
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for j := range 25 {
				name := fmt.Sprintf("map-%d-%d", i, j)
				err := s.db.Update(context.Background(), func(tx *store.Tx) error {
					return s.o.Create(tx, objects.ConfigMaps,
						&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "site", Name: name}}, s.clock.Now())
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	s.waitIdle()
	for i := range 8 {
		for j := range 25 {
			require.GreaterOrEqual(t, s.r.called(fmt.Sprintf("map-%d-%d", i, j)), 1)
		}
	}
}
