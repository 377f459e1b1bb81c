package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/store"
)

// branch has every kind of field that JSON fills and that a shallow copy would share.
type branch struct {
	Name     string             `json:"name"`
	Label    *string            `json:"label"`
	At       time.Time          `json:"at"`
	Twigs    []*branch          `json:"twigs,omitempty"`
	Parent   *branch            `json:"parent,omitempty"`
	ByName   map[string]*branch `json:"by_name,omitempty"`
	Lists    map[string][]int   `json:"lists,omitempty"`
	Pair     [2]*int            `json:"pair"`
	Anything any                `json:"anything,omitempty"`
	private  int
}

var (
	plainBranches  = store.NewBucket[branch]("branches", 1)
	cachedBranches = plainBranches.Cached()
)

func newBranch(depth int) *branch {
	label, one, two := "label", 1, 2
	b := &branch{Name: "branch", Label: &label, At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Lists: map[string][]int{"a": {1, 2}}, Pair: [2]*int{&one, &two},
		Anything: map[string]any{"list": []any{"x", 1.5}}, private: 7}
	if depth > 0 {
		b.Parent, b.Twigs = newBranch(depth-1), []*branch{newBranch(depth - 1), nil}
		b.ByName = map[string]*branch{"other": newBranch(depth - 1)}
	}
	return b
}

func TestCachedBucket_valueBelongsToCaller(t *testing.T) {
	db := open(t, t.TempDir())
	update(t, db, func(tx *store.Tx) error { return cachedBranches.Put(tx, "a", newBranch(2)) })
	get := func(bucket store.Bucket[branch]) (value *branch) {
		view(t, db, func(tx *store.Tx) (err error) {
			value, err = bucket.Get(tx, "a")
			return err
		})
		return value
	}
	for range 3 {
		value := get(cachedBranches)
		require.Equal(t, get(plainBranches), value)
		*value.Label, value.Lists["a"][0], value.Lists["b"], *value.Pair[1] = "altered", 9, nil, 9
		*value.Twigs[0].Parent.Label, value.Parent.Twigs[0].ByName, value.Twigs[1] = "altered", nil, value
		value.ByName["other"].Name = "altered"
		delete(value.ByName["other"].ByName, "other")
		value.Anything.(map[string]any)["list"].([]any)[0] = "altered"
	}
}

func TestCachedBucket_readsLikePlainBucket(t *testing.T) {
	t.Run("decoded", func(t *testing.T) {
		readsLikePlain(t, store.NewBucket[cluster]("rows", 1), store.NewBucket[cluster]("rows", 1).Cached(),
			func(text string) *cluster { return &cluster{Name: text} })
	})
	t.Run("raw", func(t *testing.T) {
		readsLikePlain(t, store.NewBucket[rawText]("rows", 1), store.NewBucket[rawText]("rows", 1).CachedWeight(4),
			func(text string) *rawText { return &rawText{strconv.Quote(text)} })
	})
}

// rawText is a store.Raw.
type rawText struct{ text string }

func (r *rawText) JSON() []byte        { return []byte(r.text) }
func (r *rawText) SetJSON(text []byte) { r.text = string(text) }

// readsLikePlain lets several writers change a few rows, and compares each read of a cached bucket
// with that of a plain one. Some updates fail, so that later ones use their revisions again.
func readsLikePlain[T any](t *testing.T, plain, cached store.Bucket[T], value func(text string) *T) {
	db := open(t, t.TempDir())
	refused := errors.New("refused")
	same := func(tx *store.Tx, key string) error {
		want, wantErr := plain.Get(tx, key)
		got, err := cached.Get(tx, key)
		if fmt.Sprint(want, wantErr) != fmt.Sprint(got, err) {
			return fmt.Errorf("%s is %v (%v), but the cache returns %v (%v)", key, want, wantErr, got, err)
		}
		return nil
	}
	var running sync.WaitGroup
	for worker := range 4 {
		running.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(worker)))
			for round := range 200 {
				fails := random.IntN(3) == 0
				keys := []string{fmt.Sprint(random.IntN(6)), fmt.Sprint(random.IntN(6))}
				err := db.Update(t.Context(), func(tx *store.Tx) error {
					for _, key := range keys {
						change := cached.Put(tx, key, value(fmt.Sprint(worker, round, fails)))
						if round%7 == 0 {
							change = cached.Delete(tx, key)
						}
						if err := errors.Join(change, same(tx, key)); err != nil {
							return err
						}
					}
					if fails {
						return refused
					}
					return nil
				})
				if !fails && err != nil || fails && !errors.Is(err, refused) {
					t.Error(err)
				}
				if err := db.View(func(tx *store.Tx) error { return same(tx, keys[0]) }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
}

func TestBucket_rawJSONIsStoredUnchanged(t *testing.T) {
	db := open(t, t.TempDir())
	raw := store.NewBucket[json.RawMessage]("raw", 1)
	text := json.RawMessage(`{ "a" : "<&>" }`)
	update(t, db, func(tx *store.Tx) error { return raw.Put(tx, "a", &text) })
	view(t, db, func(tx *store.Tx) error {
		got, err := raw.Get(tx, "a")
		require.NoError(t, err)
		require.Equal(t, string(text), string(*got))
		return nil
	})
}
