package store

import (
	"os"
	"runtime"
	"weak"

	bolt "go.etcd.io/bbolt"
)

// LogNames are the names of the log's files.
var LogNames = walNames[:]

// OnDisk returns the options with another way to wait for the disk and to commit to bbolt's file,
// and with files that grow, and are made safe, in small steps.
func (o Options) OnDisk(sync func(*os.File) error, update func(*bolt.DB, func(*bolt.Tx) error) error) Options {
	o.disk = disk{sync: sync, update: update, begin: beginView, checkpointAt: 32 << 10, logLimit: 128 << 10,
		growth: 16 << 10, ahead: 16 << 10}
	return o
}

// Datasync is the way that databases wait for the disk.
func Datasync(file *os.File) error { return datasync(file) }

// AlwaysCheckpoint returns the options with a checkpoint after each update.
func (o Options) AlwaysCheckpoint() Options {
	o.disk.checkpointAt = 1
	return o
}

// BeforeViews returns the options with something to be done when a transaction has seen which rows
// are in memory, and not yet those in bbolt's file.
func (o Options) BeforeViews(fn func()) Options {
	begin := o.disk.begin
	o.disk.begin = func(b *bolt.DB) (*bolt.Tx, error) {
		fn()
		return begin(b)
	}
	return o
}

// RowsInMemory returns what tells whether the rows that are in memory now still are.
func (db *DB) RowsInMemory() (still func() bool) {
	rows := weak.Make(db.levels.Load().live)
	return func() bool {
		runtime.GC()
		return rows.Value() != nil
	}
}
