package store

import (
	"os"

	bolt "go.etcd.io/bbolt"
)

// LogNames are the names of the log's files.
var LogNames = walNames[:]

// OnDisk returns the options with another way to wait for the disk and to commit to bbolt's file, and with files that grow, and are made safe, in small steps.
func (o Options) OnDisk(sync func(*os.File) error, update func(*bolt.DB, func(*bolt.Tx) error) error) Options {
	o.disk = disk{sync: sync, update: update, checkpointAt: 32 << 10, logLimit: 128 << 10, growth: 16 << 10, ahead: 16 << 10}
	return o
}

// Datasync is the way that databases wait for the disk.
func Datasync(file *os.File) error { return datasync(file) }

// AlwaysCheckpoint returns the options with a checkpoint after each update.
func (o Options) AlwaysCheckpoint() Options {
	o.disk.checkpointAt = 1
	return o
}
