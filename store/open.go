package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// schema is the newest layout of the database as a whole that this program knows.
// From 2 on there may be a log beside the file, with what is newer (see wal.go).
const schema = 2

// mapSize is the address space reserved for the file, in bytes. Within it the file grows without
// being mapped anew, which has to wait for every open view. It costs no memory.
const mapSize = 8 << 30

var (
	revisionKey  = []byte("revision")
	compactedKey = []byte("compacted")
	schemaKey    = []byte("schema")

	// Of the log (see wal.go): whose it is, and the newest of its commits that bbolt's file has.
	epochKey     = []byte("epoch")
	committedKey = []byte("committed")
)

// open takes the data directory and opens the file; it returns the newest revision and leaves
// nothing open if it fails.
func (db *DB) open() (revision uint64, err error) {
	if err := makeDir(db.dir); err != nil {
		return 0, err
	}
	db.lock, err = lock(db.dir)
	if err != nil {
		return 0, err
	}
	if err := leaveNote(db.lock, db.clock.Now()); err != nil {
		// A full disk is no reason not to start: what is stored can be read.
		db.logger.Warn("others will not be told who holds the data directory", "path", db.lock.Name(), "error", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, unlock(db.lock))
		}
	}()
	if err := db.create(); err != nil {
		return 0, err
	}
	if err := db.probe(); err != nil {
		return 0, err
	}
	db.bolt, db.file, err = openBolt(db.path, false)
	if err != nil {
		return 0, db.openError(err)
	}
	db.bolt.AllocSize, db.bolt.NoSync, db.bolt.NoGrowSync = db.disk.growth, db.noSync, db.noSync
	if revision, err = db.start(); err != nil {
		return 0, errors.Join(err, db.bolt.Close())
	}
	return revision, nil
}

// start brings what is stored up to date, the file now being open, and returns the newest revision.
func (db *DB) start() (revision uint64, err error) {
	if err := db.upgrade(); err != nil {
		return 0, err
	}
	if err := db.recover(); err != nil {
		return 0, err
	}
	err = db.View(func(tx *Tx) error {
		revision = tx.Revision()
		return nil
	})
	return revision, err
}

// upgrade writes the schema into a file of an older one.
func (db *DB) upgrade() error {
	older := false
	err := db.bolt.View(func(tx *bolt.Tx) error {
		older = number(tx.Bucket(bucketNames[metaBucket]).Get(schemaKey)) < schema
		return nil
	})
	if err != nil || !older {
		return err
	}
	return db.updateFile(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketNames[metaBucket]).Put(schemaKey, binary.BigEndian.AppendUint64(nil, schema))
	})
}

// openBolt opens a bbolt file without waiting for a lock on it.
//
// The free list is kept in the file: with NoFreelistSync, opening would have to walk every page to
// find the free ones, and so would the roll back of a commit that failed. Its kind is bbolt's plain
// array: on files of the size expected here the hash map was not faster, and the array keeps the
// file denser.
func openBolt(path string, readOnly bool) (b *bolt.DB, file *os.File, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		// bbolt panics on a damaged page, and reading the map of a damaged file can fault.
		if reason := recover(); reason != nil {
			b, file, err = nil, nil, errors.Join(fmt.Errorf("%v", reason), file.Close())
		}
	}()
	b, err = bolt.Open(path, 0o600, &bolt.Options{
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			var err error
			file, err = os.OpenFile(name, flag, mode)
			return file, err
		},
		Timeout:         time.Millisecond,
		ReadOnly:        readOnly,
		InitialMmapSize: mapSize,
		NoStatistics:    true,
	})
	return b, file, err
}

// openError finds the typed error for a failure to open the file.
func (db *DB) openError(err error) error {
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return &HeldError{Dir: db.dir}
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return &DirError{Dir: db.dir, Err: err}
	case errors.Is(err, syscall.ENOSPC):
		return &WriteError{Path: db.path, Err: err}
	}
	return &CorruptError{Path: db.path, Err: err}
}

// probe looks at the file before bbolt writes to it: whether it is whole, one of ours and not too
// new. It reads a few pages only.
func (db *DB) probe() (err error) {
	info, err := os.Stat(db.path)
	if err != nil {
		return &DirError{Dir: db.dir, Err: err}
	}
	if info.Size() == 0 {
		// bbolt would take it for a new database.
		return &CorruptError{Path: db.path, Err: errors.New("the file is empty")}
	}
	b, _, err := openBolt(db.path, true)
	if err != nil {
		return db.openError(err)
	}
	defer func() {
		err = errors.Join(err, b.Close())
	}()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if reason := recover(); reason != nil {
			err = &CorruptError{Path: db.path, Err: fmt.Errorf("%v", reason)}
		}
	}()
	return b.View(func(tx *bolt.Tx) error {
		if info.Size() < tx.Size() {
			return &CorruptError{Path: db.path, Err: fmt.Errorf("the file ends after %d of %d bytes", info.Size(),
				tx.Size())}
		}
		return db.probeBuckets(tx)
	})
}

func (db *DB) probeBuckets(tx *bolt.Tx) error {
	meta := tx.Bucket(bucketNames[metaBucket])
	if meta == nil {
		return &CorruptError{Path: db.path, Err: errors.New("it is a bbolt file but not one of Landfall's")}
	}
	version := number(meta.Get(schemaKey))
	if version > schema {
		return &NewerSchemaError{Path: db.path, Version: int(version), Known: schema}
	}
	for _, name := range bucketNames {
		b := tx.Bucket(name)
		if b == nil {
			return &CorruptError{Path: db.path, Err: fmt.Errorf("the bucket %s is missing", name)}
		}
		b.Cursor().First()
	}
	newest, _ := tx.Bucket(bucketNames[logBucket]).Cursor().Last()
	revision := number(meta.Get(revisionKey))
	if newest != nil && binary.BigEndian.Uint64(newest) != revision {
		return &CorruptError{Path: db.path, Err: fmt.Errorf("the change log ends at revision %d, the data at %d",
			binary.BigEndian.Uint64(newest), revision)}
	}
	return nil
}

// create makes an empty database under another name and moves it into place when it is safe on the
// disk, so that a power cut leaves a whole database or none. What an interrupted attempt left is
// removed.
func (db *DB) create() (err error) {
	temporary := db.path + ".new"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &DirError{Dir: db.dir, Err: err}
	}
	if _, err := os.Lstat(db.path); !errors.Is(err, fs.ErrNotExist) {
		return nil // probe tells what is wrong with it, if anything
	}
	if err := initialise(temporary, db.disk.growth); err != nil {
		return &WriteError{Path: temporary, Err: errors.Join(err, os.Remove(temporary))}
	}
	if err := os.Rename(temporary, db.path); err != nil {
		return &WriteError{Path: db.path, Err: err}
	}
	return syncDirs(db.dir, filepath.Dir(db.dir))
}

func initialise(path string, growth int) error {
	b, _, err := openBolt(path, false)
	if err != nil {
		return err
	}
	b.AllocSize = growth
	err = b.Update(func(tx *bolt.Tx) error {
		for _, name := range bucketNames {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		return tx.Bucket(bucketNames[metaBucket]).Put(schemaKey, binary.BigEndian.AppendUint64(nil, schema))
	})
	return errors.Join(err, b.Close())
}

// makeDir makes the data directory, for its owner only: it will hold pull secrets and kubeconfigs.
func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return dirError(dir, dir, err)
	}
	return nil
}

// dirError is the typed error for a failure to make path in the data directory.
func dirError(dir, path string, err error) error {
	if full := (&WriteError{Path: path, Err: err}); full.NoSpace() {
		return full
	}
	return &DirError{Dir: dir, Err: err}
}

// lock takes the data directory for this process. The lock file says who holds it; it stays when
// the lock is gone, because removing it would let two processes hold two files of the same name.
func lock(dir string) (*os.File, error) {
	path := filepath.Join(dir, "landfall.lock")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, dirError(dir, path, err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errors.Join(holder(dir, file), file.Close())
	}
	if err != nil {
		return nil, errors.Join(&DirError{Dir: dir, Err: fmt.Errorf("lock %s: %w", file.Name(), err)}, file.Close())
	}
	return file, nil
}

// leaveNote writes who holds the lock for others to read.
func leaveNote(file *os.File, now time.Time) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	note := fmt.Sprintf("pid %d since %s\n", os.Getpid(), now.UTC().Format(time.RFC3339))
	_, err := file.WriteAt([]byte(note), 0)
	return err
}

// holder reads who holds the lock. A note that cannot be read (its writer may be just about to
// write it) leaves the process unknown.
func holder(dir string, file *os.File) error {
	held := &HeldError{Dir: dir}
	note, err := io.ReadAll(io.LimitReader(file, 128))
	if err != nil {
		return held
	}
	var pid int
	var since string
	if _, err := fmt.Sscanf(string(note), "pid %d since %s\n", &pid, &since); err != nil {
		return held
	}
	if at, err := time.Parse(time.RFC3339, since); err == nil {
		held.PID, held.Since = pid, at
	}
	return held
}

// unlock gives the data directory free; closing the file ends its flock.
func unlock(file *os.File) error {
	return errors.Join(file.Truncate(0), file.Close())
}

// syncDirs makes the names in the directories safe against a power cut.
func syncDirs(dirs ...string) error {
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
