package controller_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
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

// restarted is a database on which loops run one after another.
type restarted struct {
	*testing.T
	dir   string
	db    *store.DB
	o     *objects.Objects
	clock clockwork.Clock
	r     *recorder // of the running loop
	loop  *controller.Loop
	end   func()
	// follower is that of the next loop; nil for none
	follower controller.Follower
}

func newRestarted(t *testing.T) *restarted {
	s := &restarted{T: t, dir: t.TempDir(), o: objects.New(nil, nil), clock: clockwork.NewRealClock()}
	s.open()
	s.end = func() {}
	t.Cleanup(func() {
		s.end()
		require.NoError(t, s.db.Close())
	})
	return s
}

func (s *restarted) open() {
	db, err := store.Open(context.Background(), s.dir, store.Options{NoSync: true})
	require.NoError(s, err)
	s.db = db
}

// start starts a loop and waits until it is idle.
func (s *restarted) start(inputs string, do func(name string, call int) (time.Duration, error),
	watches ...controller.Watch) {
	s.r = &recorder{calls: map[string]int{}, busy: map[string]bool{}, do: do, watches: watches}
	s.startWith(inputs, s.r)
}

func (s *restarted) startWith(inputs string, r controller.Reconciler) {
	s.loop = controller.New(s.db, s.clock, slog.New(slog.DiscardHandler))
	s.loop.Add(r)
	s.loop.SetFollower(s.follower)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		if inputs == "" {
			done <- s.loop.Run(ctx)
			return
		}
		done <- s.loop.Resume(ctx, inputs)
	}()
	s.end = func() {
		cancel()
		require.NoError(s, <-done)
		s.end = func() {}
	}
	waiting, stop := context.WithTimeout(context.Background(), time.Hour)
	defer stop()
	require.NoError(s, s.loop.WaitIdle(waiting))
}

// crash replaces the database by a copy of its files while the loop runs.
func (s *restarted) crash() {
	synctest.Wait()
	copied := s.TempDir()
	require.NoError(s, os.CopyFS(filepath.Join(copied, "data"), os.DirFS(s.dir)))
	s.end()
	require.NoError(s, s.db.Close())
	s.dir = filepath.Join(copied, "data")
	s.open()
}

func (s *restarted) update(fn func(tx *store.Tx) error) {
	s.Helper()
	require.NoError(s, s.db.Update(context.Background(), fn))
}

func (s *restarted) create(kind objects.Kind, names ...string) {
	s.Helper()
	for _, name := range names {
		s.update(func(tx *store.Tx) error {
			u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": kind.APIVersion(), "kind": kind.Kind}}
			u.SetNamespace("site")
			u.SetName(name)
			return s.o.Create(tx, kind, u, s.clock.Now())
		})
	}
}

func (s *restarted) label(name, value string) {
	s.Helper()
	s.update(func(tx *store.Tx) error {
		return s.o.Update(tx, objects.ConfigMaps, "site", name, func(u *unstructured.Unstructured) error {
			u.SetLabels(map[string]string{"value": value})
			return nil
		})
	})
}

// calls returns the number of reconciles by name.
func (s *restarted) calls() map[string]int {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	return maps.Clone(s.r.calls)
}

func (s *restarted) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestResume_reconcilesWhatChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRestarted(t)
		s.create(objects.ConfigMaps, "a", "b", "c")
		s.start("v1", nil)
		require.Equal(t, map[string]int{"a": 1, "b": 1, "c": 1}, s.calls())
		s.end()

		s.start("v1", nil)
		require.Empty(t, s.calls(), "nothing has changed")
		s.end()

		s.label("b", "changed")
		s.create(objects.ConfigMaps, "d")
		s.update(func(tx *store.Tx) error {
			return s.o.Delete(tx, objects.ConfigMaps, "site", "c", s.clock.Now())
		})
		s.start("v1", nil)
		require.Equal(t, map[string]int{"b": 1, "c": 1, "d": 1}, s.calls())
		s.label("a", "changed")
		s.pass(0)
		require.Equal(t, map[string]int{"a": 1, "b": 1, "c": 1, "d": 1}, s.calls(), "the loop goes on")
		s.end()
	})
}

// anyRow is a row in the bucket of the loop's progress with any content and schema version.
func anyRow(version int, content any) func(*restarted) {
	return func(s *restarted) {
		s.update(func(tx *store.Tx) error {
			return store.NewBucket[any]("controllers", version).Put(tx, "followed", &content)
		})
	}
}

func TestResume_reconcilesEverything(t *testing.T) {
	for name, test := range map[string]struct {
		inputs string
		before func(*restarted)
	}{
		"other inputs": {inputs: "v2"},
		"compacted log": {before: func(s *restarted) {
			s.label("a", "changed")
			require.NoError(s, s.db.Compact(s.Context(), s.db.Revision()))
		}},
		"no row": {before: func(s *restarted) {
			s.update(func(tx *store.Tx) error {
				return store.NewBucket[any]("controllers", 1).Delete(tx, "followed")
			})
		}},
		"row of another format": {before: anyRow(1, "followed")},
		"older row":             {before: anyRow(1, map[string]any{"revision": 3})},
		"row of an unknown kind": {before: anyRow(1, map[string]any{"inputs": "v1", "revision": 3,
			"unfinished": []any{map[string]any{"kind": "widgets", "name": "a"}}})},
		"row of a lost revision": {before: anyRow(1, map[string]any{"inputs": "v1", "revision": 1 << 40})},
		"row of a newer program": {before: anyRow(2, map[string]any{"inputs": "v1", "revision": 3})},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newRestarted(t)
				s.create(objects.ConfigMaps, "a", "b")
				s.start("v1", nil)
				s.end()
				if test.before != nil {
					test.before(s)
				}
				inputs := "v1"
				if test.inputs != "" {
					inputs = test.inputs
				}
				s.start(inputs, nil)
				require.Equal(t, map[string]int{"a": 1, "b": 1}, s.calls())
				s.end()
			})
		})
	}
}

func TestResume_everythingAgainOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRestarted(t)
		s.create(objects.ConfigMaps, "a")
		s.start("v1", nil)
		s.end()
		anyRow(1, "followed")(s)
		for _, expected := range []map[string]int{{"a": 1}, {}} {
			s.start("v1", nil)
			require.Equal(t, expected, s.calls(), "the first start writes a readable row")
			s.end()
		}
	})
}

func TestResume_afterCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRestarted(t)
		s.create(objects.ConfigMaps, "a", "b", "c")
		s.start("v1", nil)
		s.crash()
		s.start("v1", nil)
		require.Equal(t, map[string]int{"a": 1, "b": 1, "c": 1}, s.calls(), "nothing was recorded yet")
		s.pass(time.Minute)
		s.label("b", "changed")
		s.pass(time.Second)
		s.crash()
		s.start("v1", nil)
		require.Equal(t, map[string]int{"b": 1}, s.calls(), "the change was not recorded yet")
		s.pass(time.Minute)
		s.crash()
		s.start("v1", nil)
		require.Empty(t, s.calls())
		s.end()
	})
}

// TestResume_idle holds that a loop without work writes nothing, and that the change log may be
// compacted while nothing changes.
func TestResume_idle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRestarted(t)
		s.create(objects.ConfigMaps, "a")
		s.start("v1", nil)
		s.pass(time.Minute)
		revision := s.db.Revision()
		s.pass(24 * time.Hour)
		require.Equal(t, revision, s.db.Revision())
		require.NoError(t, s.db.Compact(t.Context(), revision))
		s.end()
		require.Equal(t, revision, s.db.Revision(), "a stop without news writes nothing")
		for range 3 {
			s.start("v1", nil)
			require.Empty(t, s.calls())
			s.end()
			require.Equal(t, revision, s.db.Revision())
		}
	})
}

// TestResume_otherRows holds that rows of other packages are recorded before the change log is
// compacted, but seldom.
func TestResume_otherRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRestarted(t)
		s.create(objects.ConfigMaps, "a")
		s.start("v1", nil)
		s.pass(time.Minute)
		others, before := store.NewBucket[int]("others", 1), s.db.Revision()
		const written = 900
		for i := range written {
			s.update(func(tx *store.Tx) error { return others.Put(tx, "row", &i) })
			s.pass(time.Second)
		}
		require.Less(t, s.db.Revision()-before, uint64(written+4), "recorded every five minutes")
		require.NoError(t, s.db.Compact(t.Context(), s.db.Revision()-written/2))
		s.crash()
		s.start("v1", nil)
		require.Empty(t, s.calls())
		s.end()
	})
}

func TestResume_unfinishedObjects(t *testing.T) {
	for name, stop := range map[string]func(*restarted){
		"after a stop":  func(s *restarted) { s.end() },
		"after a crash": func(s *restarted) { s.crash() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newRestarted(t)
				s.create(objects.ConfigMaps, "done", "fails", "later", "memory")
				s.start("v1", func(name string, _ int) (time.Duration, error) {
					switch name {
					case "fails":
						return 0, errors.New("the mirror does not answer")
					case "later":
						return time.Hour, nil
					case "memory":
						s.loop.RepeatAtStart(controller.Key{Kind: objects.ConfigMaps, Namespace: "site", Name: name})
					}
					return 0, nil
				})
				s.pass(20 * time.Minute)
				stop(s)
				s.start("v1", nil)
				require.Equal(t, map[string]int{"fails": 1, "memory": 1}, s.calls())
				s.pass(40*time.Minute - time.Second)
				require.Equal(t, 0, s.r.called("later"))
				s.pass(time.Second)
				require.Equal(t, map[string]int{"fails": 1, "memory": 1, "later": 1}, s.calls())
				stop(s)
				s.start("v1", nil)
				if name == "after a stop" {
					require.Empty(t, s.calls())
				}
				s.pass(2 * time.Hour)
				stop(s)
				s.start("v1", nil)
				require.Empty(t, s.calls(), "they are finished")
				s.end()
			})
		})
	}
}

// TestResume_clockSetBack holds that a delayed object waits no longer than its delay.
func TestResume_clockSetBack(t *testing.T) {
	s := newRestarted(t)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s.clock = clockwork.NewFakeClockAt(now)
	s.create(objects.ConfigMaps, "later")
	s.start("v1", func(string, int) (time.Duration, error) { return time.Minute, nil })
	s.end()
	back := clockwork.NewFakeClockAt(now.AddDate(-1, 0, 0))
	s.clock = back
	s.start("v1", nil)
	require.Empty(t, s.calls())
	require.NoError(t, back.BlockUntilContext(t.Context(), 1))
	back.Advance(time.Minute)
	require.Eventually(t, func() bool { return s.r.called("later") == 1 }, time.Minute, time.Millisecond)
	s.end()
}

func TestResume_interruptedReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRestarted(t)
		s.start("v1", nil)
		s.end()
		s.create(objects.ConfigMaps, "a")
		started := make(chan struct{})
		r := blocking{started: started}
		loop := controller.New(s.db, s.clock, slog.New(slog.DiscardHandler))
		loop.Add(r)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- loop.Resume(ctx, "v1") }()
		<-started
		cancel()
		require.NoError(t, <-done)
		s.start("v1", nil)
		require.Equal(t, map[string]int{"a": 1}, s.calls())
		s.end()
	})
}

// blocking reconciles ConfigMaps until the context ends, and reports no error.
type blocking struct{ started chan struct{} }

func (blocking) Kind() objects.Kind { return objects.ConfigMaps }

func (blocking) Watches() []controller.Watch { return nil }

func (b blocking) Reconcile(ctx context.Context, _, _ string) (time.Duration, error) {
	close(b.started)
	<-ctx.Done()
	return 0, nil
}

func TestResume_missedWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRestarted(t)
		watch := controller.Watch{Kind: objects.Secrets, Missed: true, Map: func(_ *store.Tx, namespace,
			name string) ([]controller.Key, error) {
			return []controller.Key{{Kind: objects.ConfigMaps, Namespace: namespace, Name: "of-" + name}}, nil
		}}
		s.start("v1", nil, watch)
		s.create(objects.Secrets, "seen")
		s.pass(0)
		require.Empty(t, s.calls())
		s.end()
		s.create(objects.Secrets, "missed")
		s.start("v1", nil, watch)
		require.Equal(t, map[string]int{"of-missed": 1}, s.calls())
		s.end()
	})
}

func TestWatch_otherRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRestarted(t)
		servers := store.NewBucket[int]("servers", 1)
		change := func(id string, value int) {
			s.update(func(tx *store.Tx) error { return servers.Put(tx, id, &value) })
		}
		watch := controller.Watch{Prefix: servers.Prefix(), Map: func(_ *store.Tx, namespace,
			name string) ([]controller.Key, error) {
			require.Empty(t, namespace)
			return []controller.Key{{Kind: objects.ConfigMaps, Namespace: "site", Name: name}}, nil
		}}
		s.start("v1", nil, watch)
		change("one", 1)
		s.pass(0)
		require.Equal(t, map[string]int{"one": 1}, s.calls())
		s.end()
		change("two", 1)
		s.start("v1", nil, watch)
		require.Equal(t, map[string]int{"two": 1}, s.calls())
		s.end()
	})
}

// results holds, for each ConfigMap, the text that copier derived from it.
var results = store.NewBucket[string]("results", 1)

// copier derives a text from each ConfigMap and the Secret that it names. Some reconciles fail, and
// some work only when they are repeated later.
type copier struct {
	o          *objects.Objects
	db         *store.DB
	references *controller.References

	mu     sync.Mutex
	chance *rand.Rand
}

func newCopier(s *restarted, chance *rand.Rand) *copier {
	return &copier{o: s.o, db: s.db, chance: chance, references: controller.NewReferences(func(tx *store.Tx,
		add func(controller.Key, []string)) error {
		return objects.EachStored(tx, objects.ConfigMaps, func(config *corev1.ConfigMap) error {
			add(controller.Key{Kind: objects.ConfigMaps, Namespace: "site", Name: config.Name}, namedBy(config))
			return nil
		})
	})}
}

func namedBy(config *corev1.ConfigMap) []string {
	if config == nil || config.Data["secret"] == "" {
		return nil
	}
	return []string{config.Data["secret"]}
}

func (c *copier) Kind() objects.Kind { return objects.ConfigMaps }

func (c *copier) Watches() []controller.Watch {
	return []controller.Watch{{Kind: objects.Secrets, Map: func(tx *store.Tx, _, name string) ([]controller.Key,
		error) {
		return c.references.To(tx, name)
	}}}
}

func (c *copier) Reconcile(ctx context.Context, namespace, name string) (time.Duration, error) {
	c.mu.Lock()
	luck := c.chance.IntN(10)
	c.mu.Unlock()
	switch luck {
	case 0:
		return 0, errors.New("no luck")
	case 1:
		return time.Minute, nil
	}
	for {
		var config *corev1.ConfigMap
		text := ""
		if err := c.db.View(func(tx *store.Tx) (err error) {
			config, text, err = c.derive(tx, name)
			return err
		}); err != nil {
			return 0, err
		}
		object := controller.Key{Kind: objects.ConfigMaps, Namespace: namespace, Name: name}
		if c.references.Set(object, namedBy(config)) {
			continue
		}
		return 0, c.db.Update(ctx, func(tx *store.Tx) error {
			if config == nil {
				return results.Delete(tx, name)
			}
			return results.Put(tx, name, &text)
		})
	}
}

func (c *copier) derive(tx *store.Tx, name string) (config *corev1.ConfigMap, text string, err error) {
	if config, err = objects.Find[corev1.ConfigMap](c.o, tx, objects.ConfigMaps, "site", name); err != nil ||
		config == nil {
		return nil, "", err
	}
	text = config.Data["value"]
	secret, err := objects.Find[corev1.Secret](c.o, tx, objects.Secrets, "site", config.Data["secret"])
	if err != nil || secret == nil {
		return config, text + " without a Secret", err
	}
	return config, text + " with " + string(secret.Data["value"]), nil
}

// change makes a random change: it writes or deletes one object.
func (s *restarted) change(chance *rand.Rand, serial int) {
	name, secret := fmt.Sprint("object-", chance.IntN(12)), fmt.Sprint("secret-", chance.IntN(4))
	value, gone := fmt.Sprint("value ", serial), chance.IntN(4) == 0
	s.update(func(tx *store.Tx) error {
		kind, meta := objects.ConfigMaps, metav1.ObjectMeta{Namespace: "site", Name: name}
		var object any = &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"value": value, "secret": secret}}
		if chance.IntN(3) == 0 {
			kind, meta.Name = objects.Secrets, secret
			object = &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"value": []byte(value)}}
		}
		if err := s.o.Delete(tx, kind, meta.Namespace, meta.Name, s.clock.Now()); err != nil || gone {
			return err
		}
		return s.o.Create(tx, kind, object, s.clock.Now())
	})
}

func (s *restarted) results() map[string]string {
	all := map[string]string{}
	require.NoError(s, s.db.View(func(tx *store.Tx) error {
		return results.Each(tx, "", func(name string, text *string) error {
			all[name] = *text
			return nil
		})
	}))
	return all
}

// TestResume_sameResult holds that loops which resume reach the state that a loop reaches which
// reconciles every object: after random changes, stops, crashes, and compactions of the change log.
func TestResume_sameResult(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				chance := rand.New(rand.NewPCG(seed, 18))
				s := newRestarted(t)
				inputs := "v1"
				s.startWith(inputs, newCopier(s, rand.New(rand.NewPCG(seed, 1))))
				for serial := range 150 {
					switch chance.IntN(12) {
					case 0:
						s.end()
						for range chance.IntN(3) {
							s.change(chance, 1000+serial)
						}
						s.startWith(inputs, newCopier(s, rand.New(rand.NewPCG(seed, uint64(serial)))))
					case 1:
						s.crash()
						s.startWith(inputs, newCopier(s, rand.New(rand.NewPCG(seed, uint64(serial)))))
					case 2:
						require.NoError(t, s.db.Compact(t.Context(), s.db.Revision()-uint64(chance.IntN(20))))
					case 3, 4, 5:
						s.pass(time.Duration(chance.IntN(30)) * time.Second)
					default:
						s.change(chance, serial)
					}
				}
				s.pass(2 * time.Hour)
				reached := s.results()
				s.end()
				for _, lucky := range []uint64{1, 2} {
					s.startWith("", newCopier(s, rand.New(rand.NewPCG(lucky, lucky))))
					s.pass(2 * time.Hour)
					require.Equal(t, s.results(), reached)
					s.end()
				}
				require.NotEmpty(t, slices.Collect(maps.Keys(reached)))
			})
		})
	}
}

// follower is the progress of a follower.
type follower struct {
	revision uint64
	settled  bool
}

func (f *follower) Followed() (uint64, bool) { return f.revision, f.settled }

func TestFollower_recordedWithTheLoop(t *testing.T) {
	for name, c := range map[string]struct {
		settled bool
		behind  uint64 // changes
		compact bool
		want    bool
	}{
		"settled":                {settled: true, want: true},
		"behind":                 {settled: true, behind: 1},
		"with something to do":   {},
		"settled, and compacted": {settled: true, compact: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newRestarted(t)
				_, ok, err := controller.New(s.db, s.clock, slog.New(slog.DiscardHandler)).FollowerRevision()
				require.NoError(t, err)
				require.False(t, ok, "nothing is recorded")
				s.create(objects.ConfigMaps, "a")
				stopped := s.db.Revision()
				s.follower = &follower{stopped - c.behind, c.settled}
				s.start("v1", nil)
				s.loop.FollowerChecked()
				s.end()
				s.label("a", "changed after the stop")
				if c.compact {
					require.NoError(t, s.db.Compact(t.Context(), s.db.Revision()))
				}
				from, ok, err := s.loop.FollowerRevision()
				require.NoError(t, err)
				require.Equal(t, c.want, ok)
				if ok {
					require.GreaterOrEqual(t, from, stopped)
					require.Less(t, from, s.db.Revision(), "the follower sees the change")
				}
			})
		})
	}
}
