package bundle

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/fault"
	"landfall/store"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// site is a store with the consumer mc1.
func site(t *testing.T) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	update(t, db, func(tx *store.Tx) error { return CreateConsumer(tx, &Consumer{Name: "mc1"}, start) })
	return db
}

func update(t *testing.T, db *store.DB, fn func(*store.Tx) error) {
	t.Helper()
	require.NoError(t, db.Update(t.Context(), fn))
}

func manifest(name string) json.RawMessage {
	return json.RawMessage(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"` + name + `"}}`)
}

func create(t *testing.T, db *store.DB) *Bundle {
	t.Helper()
	b := &Bundle{Name: "c1-00-namespaces", Consumer: "mc1", Labels: map[string]string{LabelCluster: "c1"},
		Manifests: []json.RawMessage{manifest("ocm-c1")}}
	update(t, db, func(tx *store.Tx) error { return Create(tx, b, start) })
	return b
}

func TestBundle_versionsCountChangesOfContent(t *testing.T) {
	db := site(t)
	b := create(t, db)
	require.EqualValues(t, 1, b.Version)
	update(t, db, func(tx *store.Tx) error {
		same, err := Update(tx, b.ID, 1, start, func(*Bundle) error { return nil })
		require.EqualValues(t, 1, same.Version)
		return err
	})
	update(t, db, func(tx *store.Tx) error {
		changed, err := Update(tx, b.ID, 0, start.Add(time.Hour), func(b *Bundle) error {
			b.Manifests = append(b.Manifests, manifest("ocm-c1-name"))
			return nil
		})
		require.EqualValues(t, 2, changed.Version)
		require.Equal(t, start.Add(time.Hour), changed.Updated)
		return err
	})
	err := db.Update(t.Context(), func(tx *store.Tx) error {
		_, err := Update(tx, b.ID, 1, start, func(*Bundle) error { return nil })
		return err
	})
	require.Equal(t, fault.Conflict, fault.KindOf(err))
	update(t, db, func(tx *store.Tx) error { return RaiseVersion(tx, b.ID, 7) })
	update(t, db, func(tx *store.Tx) error {
		raised, err := Get(tx, b.ID)
		require.EqualValues(t, 8, raised.Version)
		return err
	})
}

func TestBundle_deletionLeavesTombstone(t *testing.T) {
	db := site(t)
	b := create(t, db)
	err := db.Update(t.Context(), func(tx *store.Tx) error { return Remove(tx, b.ID) })
	require.Equal(t, fault.Conflict, fault.KindOf(err), "nobody deleted it")
	update(t, db, func(tx *store.Tx) error { return Delete(tx, b.ID, "anna", start) })
	update(t, db, func(tx *store.Tx) error { return Delete(tx, b.ID, "bert", start.Add(time.Hour)) })
	err = db.Update(t.Context(), func(tx *store.Tx) error {
		_, err := Update(tx, b.ID, 0, start, func(*Bundle) error { return nil })
		return err
	})
	require.Equal(t, fault.Conflict, fault.KindOf(err), "it is being deleted")
	update(t, db, func(tx *store.Tx) error { return Remove(tx, b.ID) })
	update(t, db, func(tx *store.Tx) error {
		_, err := Get(tx, b.ID)
		require.ErrorIs(t, err, ErrNotFound)
		tombstone, ok, err := GetTombstone(tx, b.ID)
		require.True(t, ok)
		require.Equal(t, &Tombstone{ID: b.ID, Name: b.Name, Consumer: "mc1", At: start, By: "anna"}, tombstone)
		return errors.Join(err, EachOfCluster(tx, "c1", func(*Bundle) error { return errors.New("in the index") }))
	})
	err = db.Update(t.Context(), func(tx *store.Tx) error { return Create(tx, b, start) })
	require.Equal(t, fault.Conflict, fault.KindOf(err), "an ID is never used again")
}

func TestBundle_badContentIsRejected(t *testing.T) {
	db := site(t)
	for name, manifests := range map[string][]json.RawMessage{
		"none":        nil,
		"no JSON":     {json.RawMessage(`{`)},
		"no name":     {json.RawMessage(`{"apiVersion":"v1","kind":"Namespace","metadata":{"generateName":"x-"}}`)},
		"twice":       {manifest("a"), manifest("a")},
		"too large":   {manifest(strings.Repeat("a", MaxBytes))},
		"not objects": {json.RawMessage(`[]`)},
	} {
		err := db.Update(t.Context(), func(tx *store.Tx) error {
			return Create(tx, &Bundle{Name: name, Consumer: "mc1", Manifests: manifests}, start)
		})
		require.NotZero(t, fault.KindOf(err), name)
	}
	err := db.Update(t.Context(), func(tx *store.Tx) error {
		return Create(tx, &Bundle{Consumer: "mc2", Manifests: []json.RawMessage{manifest("a")}}, start)
	})
	require.ErrorIs(t, err, ErrNotFound, "no such consumer")
}

func TestConsumer_namesAndUse(t *testing.T) {
	db := site(t)
	for _, name := range []string{"MC1", "-a", "a/b", "a.b", "a_b", strings.Repeat("a", 64)} {
		err := db.Update(t.Context(), func(tx *store.Tx) error {
			return CreateConsumer(tx, &Consumer{Name: name}, start)
		})
		require.Equal(t, fault.Invalid, fault.KindOf(err), name)
	}
	err := db.Update(t.Context(), func(tx *store.Tx) error { return CreateConsumer(tx, &Consumer{Name: "mc1"}, start) })
	require.Equal(t, fault.Conflict, fault.KindOf(err))
	b := create(t, db)
	err = db.Update(t.Context(), func(tx *store.Tx) error { return DeleteConsumer(tx, "mc1") })
	require.ErrorIs(t, err, ErrInUse)
	update(t, db, func(tx *store.Tx) error {
		return errors.Join(Delete(tx, b.ID, "anna", start), Remove(tx, b.ID), DeleteConsumer(tx, "mc1"))
	})
}
