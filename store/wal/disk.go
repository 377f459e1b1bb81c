package wal

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Disk holds the functions and sizes (in bytes) for writing files. Tests replace them to inject
// faults.
type Disk struct {
	Sync   func(*os.File) error                       // returns when written data is on the disk
	Update func(*bolt.DB, func(*bolt.Tx) error) error // commits a transaction to the bbolt file
	Begin  func(*bolt.DB) (*bolt.Tx, error)           // begins a read transaction of the bbolt file
	// CheckpointAt is the size of a log file at which a checkpoint starts.
	CheckpointAt int64
	// LogLimit is the size of a log file at which updates fail if no checkpoint succeeds.
	LogLimit int64
	// Growth is the step by which the bbolt file grows.
	Growth int
	// Preallocate is the number of zero bytes that are written to a log file ahead of its records.
	Preallocate int
}

// RealDisk returns the functions and sizes used in production.
func RealDisk() Disk {
	return Disk{
		Sync: datasync, Update: (*bolt.DB).Update, Begin: BeginBolt,
		CheckpointAt: 4 << 20, LogLimit: 64 << 20, Growth: 4 << 20, Preallocate: 1 << 20,
	}
}

// BeginBolt begins a read transaction of a bbolt file.
func BeginBolt(b *bolt.DB) (*bolt.Tx, error) { return b.Begin(false) }

// File is an open bbolt file.
type File struct {
	*bolt.DB
	file *os.File
}

// mapSize is the address space reserved for the file, in bytes. Reserved address space costs no
// memory. Within it, the file grows without a new mapping. A new mapping would have to wait for all
// open read transactions.
const mapSize = 8 << 30

// OpenFile opens a bbolt file. It returns bbolt's ErrTimeout if another process has locked the
// file.
//
// The file contains its list of free pages. Without the list (NoFreelistSync), opening the file and
// rolling back a failed commit would read every page. The list is bbolt's plain array. On files of
// the expected size, the hash map was not faster, and the array keeps the file denser.
func OpenFile(path string, readOnly bool) (f File, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		// bbolt panics on a damaged page, and access to the mapping of a damaged file can fault.
		if reason := recover(); reason != nil {
			f, err = File{}, errors.Join(fmt.Errorf("%v", reason), f.file.Close())
		}
	}()
	f.DB, err = bolt.Open(path, 0o600, &bolt.Options{
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			var err error
			f.file, err = os.OpenFile(name, flag, mode)
			return f.file, err
		},
		Timeout:         time.Millisecond,
		ReadOnly:        readOnly,
		InitialMmapSize: mapSize,
		NoStatistics:    true,
	})
	return f, err
}

// Close closes the file. bbolt leaves it to the system to unlock a file that it only reads, but a
// child process that is being started has a copy of the descriptor until it runs its program.
func (f File) Close() error {
	if f.IsReadOnly() {
		_ = syscall.Flock(int(f.file.Fd()), syscall.LOCK_UN) // the end of all descriptors unlocks it too
	}
	return f.DB.Close()
}

// SyncDirs syncs directories, so that new and renamed files in them survive a power cut. Its error
// is a *WriteError.
func SyncDirs(dirs ...string) error {
	for _, dir := range dirs {
		file, err := os.Open(dir)
		if err != nil {
			return &WriteError{Path: dir, Err: err}
		}
		if err := errors.Join(file.Sync(), file.Close()); err != nil {
			return &WriteError{Path: dir, Err: err}
		}
	}
	return nil
}
