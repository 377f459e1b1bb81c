package store

import (
	"context"
	"os"

	bolt "go.etcd.io/bbolt"

	"landfall/store/wal"
)

// LogNames are the names of the files of the write-ahead log.
var LogNames = wal.FileNames[:]

// OnDisk returns the options with two replaced functions: sync syncs a file, update commits to the
// bbolt file. The files are small, grow in small steps and are checkpointed often.
func (o Options) OnDisk(sync func(*os.File) error, update func(*bolt.DB, func(*bolt.Tx) error) error) Options {
	o.disk = wal.Disk{Sync: sync, Update: update, Begin: wal.BeginBolt, CheckpointAt: 32 << 10, LogLimit: 128 << 10,
		Growth: 16 << 10, Preallocate: 16 << 10}
	return o
}

// Datasync syncs a file as in production.
func Datasync(file *os.File) error { return wal.RealDisk().Sync(file) }

// AlwaysCheckpoint returns the options with a checkpoint after each update.
func (o Options) AlwaysCheckpoint() Options {
	o.disk.CheckpointAt = 1
	return o
}

// BeforeViews returns the options with a function that is called while a transaction starts: after
// the transaction has read the list of memtables, and before it starts its view of the bbolt file.
func (o Options) BeforeViews(fn func()) Options {
	begin := o.disk.Begin
	o.disk.Begin = func(b *bolt.DB) (*bolt.Tx, error) {
		fn()
		return begin(b)
	}
	return o
}

// RemoveDamaged removes a row, if it is still damaged.
func (db *DB) RemoveDamaged(ctx context.Context, key string, removed func(*Tx, string) error) error {
	return db.removeDamaged(ctx, key, removed)
}

// RemoveFile removes a file, if it still has a content.
func (db *DB) RemoveFile(ctx context.Context, key, content string, removed func(*Tx, string) error) error {
	return db.removeFile(ctx, key, content, removed)
}

// MayPass reports whether the problem of a content that can't be read because of an error may pass.
func MayPass(err error) bool { return Problem{mayPass: mayPass(err)}.MayPass() }
