package store

import "os"

// OnDisk returns the options with another way to wait for the disk, and with files that grow, and are made safe, in small steps.
func (o Options) OnDisk(sync func(*os.File) error) Options {
	o.disk = disk{sync: sync, checkpointAt: 32 << 10, growth: 16 << 10, ahead: 16 << 10}
	return o
}

// Datasync is the way that databases wait for the disk.
func Datasync(file *os.File) error { return datasync(file) }
