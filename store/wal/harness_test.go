package wal

import (
	"errors"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"
)

// plainGroup is a commit group without additional state.
type plainGroup struct{ tx Tx }

func (*plainGroup) Begin() error                   { return nil }
func (*plainGroup) BeginUpdate()                   {}
func (*plainGroup) RollbackUpdate()                {}
func (*plainGroup) Seal() error                    { return nil }
func (*plainGroup) Committed(show func())          { show() }
func (*plainGroup) Applied(Bucket, []byte, []byte) {}
func (*plainGroup) Rollback()                      {}

// updateFunc is an update function that works on rows.
type updateFunc func(*Tx) error

func (updateFunc) Await() error { return nil }

func (fn updateFunc) Run(state GroupState) error { return fn(&state.(*plainGroup).tx) }

// openDB opens the database in a directory and creates it if it is missing. Its log files are
// small, so that checkpoints are frequent.
func openDB(t *testing.T, dir string) *DB {
	t.Helper()
	file, err := OpenFile(filepath.Join(dir, "test.db"), false)
	require.NoError(t, err)
	require.NoError(t, file.Update(func(tx *bolt.Tx) error {
		var errs []error
		for _, name := range BucketNames {
			_, err := tx.CreateBucketIfNotExists(name)
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}))
	disk := RealDisk()
	disk.CheckpointAt, disk.Growth, disk.Preallocate = 32<<10, 16<<10, 16<<10
	db, err := Open(file, Options{
		Logger: slog.New(slog.DiscardHandler), Clock: clockwork.NewRealClock(), Disk: disk, NoSync: true,
		NewGroup: func() (GroupState, *Tx) {
			g := &plainGroup{}
			return g, &g.tx
		},
	})
	require.NoError(t, err)
	return db
}

// view runs fn in a read transaction.
func view(t *testing.T, db *DB, fn func(*Tx)) {
	t.Helper()
	var tx Tx
	require.NoError(t, db.Begin(&tx))
	fn(&tx)
	require.NoError(t, tx.End())
}
