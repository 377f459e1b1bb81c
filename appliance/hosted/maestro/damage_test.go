package maestro

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/cloudevent"
	"landfall/store"
)

// damage stops the appliance, damages a row in its database, and starts it again.
func (s *site) damage(key string) {
	s.t.Helper()
	s.cut()
	require.NoError(s.t, s.db.Close())
	db, err := bolt.Open(filepath.Join(s.dir, store.FileName), 0o600, &bolt.Options{Timeout: time.Second})
	require.NoError(s.t, err)
	require.NoError(s.t, db.Update(func(tx *bolt.Tx) error {
		rows := tx.Bucket([]byte("data"))
		value := bytes.Clone(rows.Get([]byte(key)))
		require.NotEmpty(s.t, value, key)
		value[len(value)-1] = 0
		return rows.Put([]byte(key), value)
	}))
	require.NoError(s.t, db.Close())
	s.clock.Advance(time.Second)
	s.open()
}

// A damaged row of a bundle stops neither the delivery of the others nor deletes anything.
func TestDamage_ofBundle(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		s := newSite(t)
		damaged, other := s.create("c1"), s.create("c2")
		s.connect()
		if deleted {
			s.cut()
			s.remove(damaged)
		}
		s.damage(bundle.Prefix() + damaged)
		require.Nil(t, s.row(damaged))
		event, err := s.service.spec("mc1", damaged)
		require.NoError(t, err)
		require.Nil(t, event)
		s.connect()
		s.edit(other, "2")
		s.settle()
		require.Equal(t, "2", s.release("c2"))
		require.EqualValues(t, 2, s.status(other).ResourceVersion)
		s.restartAgent(0)
		s.connect()
		s.send(statusOf(damaged, 1, func(*cloudevent.Event) {}))
		s.settle()
		require.Equal(t, "1", s.release("c1"))
		hold, open := s.held()
		require.Nil(t, hold)
		require.Empty(t, open)
		s.requireDeleted()
	}
}

// The agent reports a damaged status again.
func TestDamage_ofStatus(t *testing.T) {
	s := newSite(t)
	damaged, other := s.create("c1"), s.create("c2")
	s.connect()
	s.damage(bundle.StatusPrefix() + damaged)
	require.Nil(t, s.status(damaged))
	s.connect()
	require.EqualValues(t, 1, s.status(damaged).ResourceVersion)
	s.edit(other, "2")
	s.settle()
	require.EqualValues(t, 2, s.status(other).ResourceVersion)
	hold, _ := s.held()
	require.Nil(t, hold)
}

// A damaged row of a hold counts as a hold until a person ends it.
func TestDamage_ofHold(t *testing.T) {
	s := newSite(t)
	id := s.create("c1")
	s.connect()
	require.NoError(t, s.service.HoldConsumer(t.Context(), "mc1", "ana"))
	s.damage(HoldPrefix() + "mc1")
	s.connect()
	s.edit(id, "2")
	s.settle()
	require.Equal(t, "1", s.release("c1"), "nothing is sent")
	hold, _ := s.held()
	require.Equal(t, HoldDamaged, hold.Cause)
	s.view(func(tx *store.Tx) error {
		var named []string
		err := EachHold(tx, func(h *Hold) error {
			named = append(named, h.Consumer)
			return nil
		})
		require.Equal(t, []string{"mc1"}, named)
		return err
	})
	require.NoError(t, s.service.Release(t.Context(), "mc1", "ana"))
	s.connect()
	s.settle()
	require.Equal(t, "2", s.release("c1"))
	hold, _ = s.held()
	require.Nil(t, hold)
}

// A person who holds the consumer again ends the damage. The start of a copy does not, because the
// agent's statuses would end that hold.
func TestDamage_ofHoldIsReplaced(t *testing.T) {
	s := newSite(t)
	require.NoError(t, s.service.HoldConsumer(t.Context(), "mc1", "ana"))
	s.damage(HoldPrefix() + "mc1")
	for cause, wanted := range map[Cause]Cause{HoldCopied: HoldDamaged, HoldPerson: HoldPerson,
		HoldFindings: HoldFindings} {
		require.ErrorIs(t, s.db.Update(t.Context(), func(tx *store.Tx) error {
			require.NoError(t, s.service.hold(tx, "mc1", cause, "A reason.", s.clock.Now()))
			hold, err := GetHold(tx, "mc1")
			require.NoError(t, err)
			require.Equal(t, wanted, hold.Cause)
			return context.Canceled
		}), context.Canceled)
	}
}

// Nobody knows which stamp the agent has for a damaged row.
func TestDamage_keepsAllRuns(t *testing.T) {
	for _, prefix := range []string{bundle.Prefix(), bundle.StatusPrefix()} {
		s := newSite(t)
		id := s.create("c1")
		s.connect()
		s.startRuns(2 * keptRuns)
		s.edit(id, "2")
		s.settle()
		s.damage(prefix + id)
		require.Equal(t, 2*keptRuns+3, s.startRuns(1))
	}
}
