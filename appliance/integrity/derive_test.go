package integrity_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"landfall/appliance/ams/outbox"
	"landfall/appliance/hosted/maestro"
	"landfall/appliance/integrity"
	"landfall/appliance/keyring"
	"landfall/store"
)

// TestDerive_contents starts with a lost index of the contents. All files keep theirs.
func TestDerive_contents(t *testing.T) {
	s := newScrubbed(t)
	require.NoError(t, s.db.Close())
	file, err := bolt.Open(filepath.Join(s.dir, store.FileName), 0o600, &bolt.Options{Timeout: time.Second})
	require.NoError(t, err)
	require.NoError(t, file.Update(func(tx *bolt.Tx) error {
		return errors.Join(tx.DeleteBucket([]byte("index")), func() error {
			_, err := tx.CreateBucket([]byte("index"))
			return err
		}())
	}))
	require.NoError(t, file.Close())
	s.clock.Advance(2 * time.Hour)
	db, err := store.Open(t.Context(), s.dir, store.Options{Keys: keyring.New(s.dir, keyring.Options{}).Open,
		NoSync: true, Clock: s.clock})
	require.NoError(t, err)
	require.NoError(t, integrity.Derive(t.Context(), db, s.clock.Now()))
	require.NoError(t, db.CollectBlobs(t.Context()))
	report, err := db.Check(t.Context())
	require.NoError(t, err)
	require.Empty(t, report.Problems)
	require.Equal(t, 3, report.Files)
	require.NoError(t, db.Close())
}

// newLostReplies returns a store with clusters whose replies of AMS are damaged, except the one
// named whole. The cluster gone has no desired state.
func newLostReplies(t *testing.T) *scrubbed {
	t.Helper()
	s := newScrubbed(t)
	clusters := []string{"damaged", "whole", "gone"}
	require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error {
		for _, id := range clusters {
			desired := &outbox.Desired{Generation: 1, Phase: outbox.Reserved}
			told := &outbox.Recorded{SubscriptionID: "s-" + id, Generation: 1}
			if err := errors.Join(outbox.PutDesired(tx, id, desired), outbox.PutRecorded(tx, id, desired,
				told)); err != nil {
				return err
			}
		}
		return outbox.DesiredRows.Delete(tx, "gone")
	}))
	s.damage(outbox.RecordedRows.Prefix()+"damaged", outbox.RecordedRows.Prefix()+"gone")
	return s
}

// damage closes the store, damages rows, and opens it again.
func (s *scrubbed) damage(keys ...string) {
	s.t.Helper()
	require.NoError(s.t, s.db.Close())
	file, err := bolt.Open(filepath.Join(s.dir, store.FileName), 0o600, &bolt.Options{Timeout: time.Second})
	require.NoError(s.t, err)
	require.NoError(s.t, file.Update(func(tx *bolt.Tx) error {
		rows := tx.Bucket([]byte("data"))
		for _, key := range keys {
			row := bytes.Clone(rows.Get([]byte(key)))
			row[len(row)-1] ^= 1
			if err := rows.Put([]byte(key), row); err != nil {
				return err
			}
		}
		return nil
	}))
	require.NoError(s.t, file.Close())
	s.db, err = store.Open(s.t.Context(), s.dir, store.Options{Keys: keyring.New(s.dir, keyring.Options{}).Open,
		NoSync: true, Clock: s.clock})
	require.NoError(s.t, err)
}

// requireLost requires that the reply about the cluster damaged is noted as unknown.
func (s *scrubbed) requireLost() {
	s.t.Helper()
	require.NoError(s.t, s.db.View(func(tx *store.Tx) error {
		told, err := outbox.RecordedRows.Get(tx, "damaged")
		require.NoError(s.t, err)
		require.Equal(s.t, &outbox.Recorded{Mark: &outbox.Mark{At: s.clock.Now().UTC(), Tries: 1}}, told)
		return nil
	}))
}

// After the repair of a row, nobody knows whether AMS has the cluster. A missing row would mean
// that AMS does not have it.
func TestRepair_lostReplies(t *testing.T) {
	s := newLostReplies(t)
	require.NoError(t, integrity.Repair(t.Context(), s.db, s.clock))
	s.requireLost()
	require.NoError(t, s.db.View(func(tx *store.Tx) error {
		told, err := outbox.RecordedRows.Get(tx, "whole")
		require.NoError(t, err)
		require.Equal(t, "s-whole", told.SubscriptionID)
		require.False(t, outbox.RecordedRows.Exists(tx, "gone"))
		waiting, err := outbox.AllWaiting(tx)
		require.Len(t, waiting, 1)
		require.Equal(t, "damaged", waiting[0].ClusterID, "its subscription is searched for")
		return err
	}))
}

// The repair ends with an error, because the list of known damage can't be renamed.
func TestRepair_lostRepliesBeforeAFailure(t *testing.T) {
	s := newLostReplies(t)
	s.db.NoteDamage("/clusters/other", "it was damaged at an earlier start")
	kept := filepath.Join(s.dir, store.DamageFileName+"."+s.clock.Now().UTC().Format("20060102T150405Z"))
	require.NoError(t, os.Mkdir(kept, 0o700))
	require.Error(t, integrity.Repair(t.Context(), s.db, s.clock))
	s.requireLost()
}

// Without the row, everything would be sent to the management cluster again.
func TestRepair_keepsHold(t *testing.T) {
	s := newScrubbed(t)
	require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error {
		return store.NewBucket[maestro.Hold]("hosted-holds", 1).Put(tx, "mc1", &maestro.Hold{Consumer: "mc1",
			Cause: maestro.HoldFindings})
	}))
	s.damage(maestro.HoldPrefix() + "mc1")
	require.NoError(t, integrity.Repair(t.Context(), s.db, s.clock))
	require.NoError(t, s.db.View(func(tx *store.Tx) error {
		hold, err := maestro.GetHold(tx, "mc1")
		require.NotNil(t, hold)
		require.Equal(t, maestro.HoldPerson, hold.Cause)
		require.Equal(t, s.clock.Now().UTC(), hold.Since)
		return err
	}))
}
