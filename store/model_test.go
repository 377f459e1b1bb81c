package store_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/randtest"
	"landfall/store"
	"landfall/store/storetest"
	"landfall/store/wal/waltest"
)

// model holds the expected content of the database in maps.
type model struct {
	rows      map[string]cluster // by "/<bucket>/<key>"
	index     map[string]bool
	deadlines map[string]time.Time
	revision  uint64
	least     uint64 // minimum revision of the next change
	changes   []store.Change
}

func newModel() *model {
	return &model{rows: map[string]cluster{}, index: map[string]bool{}, deadlines: map[string]time.Time{}}
}

func (m *model) clone() *model {
	return &model{maps.Clone(m.rows), maps.Clone(m.index), maps.Clone(m.deadlines), m.revision, m.least,
		slices.Clone(m.changes)}
}

func (m *model) changed(key string, deleted bool) {
	m.revision = max(m.revision+1, m.least)
	m.changes = append(m.changes, store.Change{Revision: m.revision, Key: key, Deleted: deleted})
}

var (
	modelBuckets   = []store.Bucket[cluster]{store.NewBucket[cluster]("one", 1), store.NewBucket[cluster]("two", 300)}
	modelIndex     = store.NewIndex("index")
	modelDeadlines = store.NewDeadlines("deadlines")
)

// step applies a random operation to the transaction and to the model.
func step(random *rand.Rand, tx *store.Tx, m *model) error {
	key := fmt.Sprintf("%d/%d", random.IntN(4), random.IntN(12))
	bucket := modelBuckets[random.IntN(len(modelBuckets))]
	row := bucket.Prefix() + key
	switch random.IntN(8) {
	case 0, 1, 2:
		value := cluster{Hosts: random.IntN(3), Name: strings.Repeat("n", random.IntN(2)*random.IntN(6000))}
		if old, ok := m.rows[row]; !ok || old.Hosts != value.Hosts || old.Name != value.Name {
			m.rows[row] = value
			m.changed(row, false)
		}
		return bucket.Put(tx, key, &value)
	case 3:
		if _, ok := m.rows[row]; ok {
			delete(m.rows, row)
			m.changed(row, true)
		}
		return bucket.Delete(tx, key)
	case 4:
		m.index[key] = true
		return modelIndex.Add(tx, key)
	case 5:
		delete(m.index, key)
		return modelIndex.Remove(tx, key)
	case 6:
		m.deadlines[key] = now.Add(time.Duration(random.IntN(50)))
		return modelDeadlines.Set(tx, key, m.deadlines[key])
	}
	delete(m.deadlines, key)
	return modelDeadlines.Clear(tx, key)
}

// compare requires that the transaction contains exactly the rows of the model.
func compare(t *testing.T, tx *store.Tx, m *model) {
	t.Helper()
	rows := map[string]cluster{}
	for _, bucket := range modelBuckets {
		last := ""
		require.NoError(t, bucket.Each(tx, "", func(key string, value *cluster) error {
			require.Less(t, last, key)
			last = key
			rows[bucket.Prefix()+key] = *value
			return nil
		}))
	}
	require.Equal(t, m.rows, rows)
	index := map[string]bool{}
	require.NoError(t, modelIndex.Keys(tx, "", func(key string) error {
		index[key] = true
		return nil
	}))
	require.Equal(t, m.index, index)
	due, err := modelDeadlines.Due(tx, later, 0)
	require.NoError(t, err)
	deadlines := map[string]time.Time{}
	for i, deadline := range due {
		require.False(t, i > 0 && deadline.At.Before(due[i-1].At))
		deadlines[deadline.Key] = deadline.At
	}
	require.Equal(t, m.deadlines, deadlines)
	require.Equal(t, m.revision, tx.Revision())
}

func TestModel_failuresAndReopening(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			eachHome(t, func(t *testing.T, h home) { runModel(t, h, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

// runModel runs random updates, some of which fail, and compares the database with a model. With a
// shared log, a follower has the same rows at the end.
func runModel(t *testing.T, h home, random *rand.Rand) {
	t.Helper()
	dir, copied := t.TempDir(), t.TempDir()
	db := h.open(t, dir, store.Options{})
	m := newModel()
	failure := errors.New("no")
	for round := range 250 {
		next, records, fault := m.clone(), h.records(), h.fault(random, 12)
		fails, checks := random.IntN(3) == 0, random.IntN(10) == 0
		steps := random.IntN(12)
		err := db.Update(t.Context(), func(tx *store.Tx) error {
			for range steps {
				if err := step(random, tx, next); err != nil {
					return err
				}
			}
			if checks {
				compare(t, tx, next) // a transaction reads its own writes
			}
			if fails {
				return failure
			}
			return nil
		})
		refused, isRefused := errors.AsType[*store.WriteError](err)
		switch {
		case fails:
			require.ErrorIs(t, err, failure)
		case isRefused:
			require.NotEqual(t, waltest.None, fault)
			require.Equal(t, fault != waltest.Refused, refused.Unknown)
			m.least = next.revision + 1 // no other change uses the revisions of this update
			if h.records() > records {
				m = next
			}
		default:
			require.NoError(t, err)
			m = next
		}
		if isRefused && refused.Unknown || random.IntN(25) == 0 {
			require.NoError(t, db.Close())
			db, m.least = h.open(t, dir, store.Options{}), 0
		}
		require.Equal(t, m.revision, db.Revision())
		view(t, db, func(tx *store.Tx) error { compare(t, tx, m); return nil })
		if round == 20 {
			storetest.CopyRows(t, db, copied)
		}
	}
	require.Equal(t, m.changes, follow(db.Watch(t.Context(), 0), m.revision))
	if h.log != nil {
		follower := openWith(t, copied, store.Options{Follow: true})
		require.NoError(t, follower.Apply(t.Context(), h.log.After(follower.Sequence())))
		requireEqualRows(t, db, follower)
	}
	require.NoError(t, db.Close())
}

func TestDeadlines_sortByTimeInAnyYear(t *testing.T) {
	db := open(t, t.TempDir())
	times := []time.Time{
		{}, time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC), time.Date(1969, 12, 31, 23, 59, 59, 999999999, time.UTC),
		time.Unix(0, 0).UTC(),
		time.Unix(0, 1).UTC(), now, now.Add(1), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC),
	}
	update(t, db, func(tx *store.Tx) error {
		for _, i := range randtest.New(t, 2).Perm(len(times)) {
			require.NoError(t, modelDeadlines.Set(tx, fmt.Sprint(len(times)-i), times[i]))
		}
		return nil
	})
	view(t, db, func(tx *store.Tx) error {
		due, err := modelDeadlines.Due(tx, times[len(times)-1], 0)
		require.NoError(t, err)
		for i, at := range times {
			require.Equal(t, at, due[i].At)
		}
		return nil
	})
}
