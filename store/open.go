package store

import (
	"bytes"
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

	"landfall/store/blob"
	"landfall/store/seal"
	"landfall/store/wal"
)

// schema is the newest layout of the database as a whole that this program supports. Since version
// 2, newer rows can be in a write-ahead log beside the file (see package wal). Since version 3,
// values can be sealed (see sealing.go). Since version 4, the file contains digests of its rows,
// which an older program would not update (see wal/digest.go).
const schema = 4

// Keys of the meta bucket that belong to this package.
var (
	revisionKey  = []byte("revision")
	compactedKey = []byte("compacted")
	schemaKey    = []byte("schema")
)

// open locks the data directory and opens the database in it. It returns the newest revision, and
// the damage that it found. If it fails, it closes everything.
func (db *DB) open(options Options) (revision uint64, was *found, err error) {
	if err := makeDir(db.dir); err != nil {
		return 0, nil, err
	}
	db.dirLock, err = lockDir(db.dir)
	if err != nil {
		return 0, nil, err
	}
	if err := writeHolder(db.dirLock, db.clock.Now()); err != nil {
		// Opening continues even if the disk is full, so that stored data can be read.
		db.logger.Warn("The process ID could not be written to the lock file of the data directory.", "path",
			db.dirLock.Name(),
			"error", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, unlockDir(db.dirLock))
		}
	}()
	if err := db.loadRecorded(); err != nil {
		return 0, nil, err
	}
	was, err = db.prepare(options)
	if err != nil {
		return 0, nil, err
	}
	file, err := wal.OpenFile(db.path, false)
	if err != nil {
		return 0, nil, db.openError(err)
	}
	upgrade, err := neededUpgrade(file)
	if err != nil {
		return 0, nil, errors.Join(err, file.Close())
	}
	db.rows, err = wal.Open(file, wal.Options{
		Logger: db.logger, Clock: db.clock, Disk: options.disk, NoSync: options.NoSync, Upgrade: upgrade,
		Shared: options.Shared, Follow: options.Follow,
		NewGroup:    db.newGroup,
		BeforeClose: func() { db.feed.close() },
	})
	if err != nil {
		return 0, nil, err
	}
	err = db.View(func(tx *Tx) error {
		revision = tx.Revision()
		return nil
	})
	if err != nil {
		return 0, nil, errors.Join(err, file.Close())
	}
	return revision, was, nil
}

// prepare creates, checks, repairs and seals the database file.
func (db *DB) prepare(options Options) (was *found, err error) {
	_, err = os.Lstat(db.path)
	exists := !errors.Is(err, fs.ErrNotExist)
	var sealed []byte
	if exists {
		if was, err = db.recoverFile(options.disk.Growth); err != nil {
			return nil, err
		}
		if sealed, err = db.probe(); err != nil {
			return nil, err
		}
	} else if err := db.lostFile(); err != nil {
		return nil, err
	}
	if options.Keys != nil {
		if db.ring, err = options.Keys(sealed != nil); err != nil {
			return nil, err
		}
	}
	db.blobs = blob.NewDir(filepath.Join(db.dir, blobsDir), db.ring)
	if sealed == nil || db.checkProof(db.ring, sealed) != nil {
		fits, err := db.repairProof(was)
		if err != nil {
			return nil, err
		}
		if fits {
			return was, nil
		}
	}
	if sealed != nil {
		if err := db.checkProof(db.ring, sealed); err != nil {
			return nil, err
		}
	}
	if err := db.create(exists, options.disk.Growth); err != nil {
		return nil, err
	}
	if exists && sealed == nil && db.ring != nil {
		return was, db.sealFile(options)
	}
	return was, nil
}

// neededUpgrade returns the function that upgrades a file of an older schema, or nil if the file
// has the newest schema.
func neededUpgrade(file wal.File) (upgrade func(*bolt.Tx) error, err error) {
	err = file.View(func(tx *bolt.Tx) error {
		if parseNumber(tx.Bucket(wal.BucketNames[wal.Meta]).Get(schemaKey)) < schema {
			upgrade = func(tx *bolt.Tx) error {
				return tx.Bucket(wal.BucketNames[wal.Meta]).Put(schemaKey, binary.BigEndian.AppendUint64(nil, schema))
			}
		}
		return nil
	})
	return upgrade, err
}

// openError returns the typed error for a failure to open the file.
func (db *DB) openError(err error) error {
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return &HeldError{Dir: db.dir}
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return &DirError{Dir: db.dir, Err: err}
	case errors.Is(err, syscall.ENOSPC):
		return &WriteError{Path: db.path, Err: err}
	case wal.IsLimit(err):
		return &DirError{Dir: db.dir, Err: err}
	}
	return &CorruptError{Path: db.path, Err: err}
}

// probe checks the file before bbolt writes to it: the file must be complete, written by Landfall,
// and of a supported schema. probe reads only a few pages. It returns the proof of a sealed
// database (see sealing.go), otherwise nil.
func (db *DB) probe() (sealed []byte, err error) {
	info, err := os.Stat(db.path)
	if err != nil {
		return nil, &DirError{Dir: db.dir, Err: err}
	}
	if info.Size() == 0 {
		// bbolt would create a new database in an empty file.
		return nil, &CorruptError{Path: db.path, Err: errors.New("the file is empty")}
	}
	file, err := wal.OpenFile(db.path, true)
	if err != nil {
		return nil, db.openError(err)
	}
	defer func() {
		err = errors.Join(err, file.Close())
	}()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if reason := recover(); reason != nil {
			err = &CorruptError{Path: db.path, Err: fmt.Errorf("%v", reason)}
		}
	}()
	err = file.View(func(tx *bolt.Tx) error {
		if info.Size() < tx.Size() {
			return &CorruptError{Path: db.path, Err: fmt.Errorf("the file ends after %d of %d bytes", info.Size(),
				tx.Size())}
		}
		if err := db.probeBuckets(tx); err != nil {
			return err
		}
		sealed = bytes.Clone(tx.Bucket(wal.BucketNames[wal.Meta]).Get(sealedKey))
		return nil
	})
	return sealed, err
}

// probeBuckets checks the schema, the presence of all buckets and the end of the change log.
func (db *DB) probeBuckets(tx *bolt.Tx) error {
	meta := tx.Bucket(wal.BucketNames[wal.Meta])
	if meta == nil {
		return &CorruptError{Path: db.path, Err: errors.New("the bbolt file was not written by Landfall")}
	}
	version := parseNumber(meta.Get(schemaKey))
	if version > schema {
		return &NewerSchemaError{Path: db.path, Version: int(version), Supported: schema}
	}
	for _, name := range wal.BucketNames {
		b := tx.Bucket(name)
		if b == nil {
			return &CorruptError{Path: db.path, Err: fmt.Errorf("the bucket %s is missing", name)}
		}
		b.Cursor().First()
	}
	newest, _ := tx.Bucket(wal.BucketNames[wal.Log]).Cursor().Last()
	revision := parseNumber(meta.Get(revisionKey))
	if newest != nil && binary.BigEndian.Uint64(newest) > revision {
		return &CorruptError{Path: db.path,
			Err: fmt.Errorf("the change log ends at revision %d, but the data ends at revision %d",
				binary.BigEndian.Uint64(newest), revision)}
	}
	return nil
}

// create creates an empty database if none exists. It writes the file under a temporary name, syncs
// it and renames it. So a power cut leaves a complete database or none. create removes a temporary
// file that an interrupted attempt left.
func (db *DB) create(exists bool, growth int) (err error) {
	temporary := db.path + ".new"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &DirError{Dir: db.dir, Err: err}
	}
	if exists {
		return nil
	}
	if err := initialise(db.ring, temporary, growth); err != nil {
		return &WriteError{Path: temporary, Err: errors.Join(err, os.Remove(temporary))}
	}
	if err := os.Rename(temporary, db.path); err != nil {
		return &WriteError{Path: db.path, Err: err}
	}
	return wal.SyncDirs(db.dir, filepath.Dir(db.dir))
}

// initialise creates a bbolt file with empty buckets.
func initialise(ring *seal.Ring, path string, growth int) error {
	file, err := wal.OpenFile(path, false)
	if err != nil {
		return err
	}
	file.AllocSize = growth
	err = file.Update(func(tx *bolt.Tx) error {
		for _, name := range wal.BucketNames {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		meta := tx.Bucket(wal.BucketNames[wal.Meta])
		if ring != nil {
			value, err := proof(ring)
			if err != nil {
				return err
			}
			if err := meta.Put(sealedKey, value); err != nil {
				return err
			}
		}
		return meta.Put(schemaKey, binary.BigEndian.AppendUint64(nil, schema))
	})
	return errors.Join(err, file.Close())
}

// makeDir creates the data directory. Only its owner may access it, because it contains pull
// secrets and kubeconfigs.
func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return wal.NewDirError(dir, dir, err)
	}
	return nil
}

// lockDir locks the data directory for this process. The lock file names the holder. It is not
// removed when the lock is released: otherwise two processes could lock two files of the same name.
func lockDir(dir string) (*os.File, error) {
	path := filepath.Join(dir, "landfall.lock")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, wal.NewDirError(dir, path, err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errors.Join(readHolder(dir, file), file.Close())
	}
	if err != nil {
		return nil, errors.Join(&DirError{Dir: dir, Err: fmt.Errorf("lock %s: %w", file.Name(), err)}, file.Close())
	}
	return file, nil
}

// writeHolder writes the holder of the lock into the lock file, for other processes to read.
func writeHolder(file *os.File, now time.Time) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	note := fmt.Sprintf("pid %d since %s\n", os.Getpid(), now.UTC().Format(time.RFC3339))
	_, err := file.WriteAt([]byte(note), 0)
	return err
}

// readHolder returns a *HeldError that names the holder of the lock. The holder remains unknown if
// the lock file cannot be read or is still empty.
func readHolder(dir string, file *os.File) error {
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

// CheckFree returns a *HeldError if another process holds a data directory.
func CheckFree(dir string) error {
	lock, err := lockDir(dir)
	if err != nil {
		return err
	}
	return unlockDir(lock)
}

// unlockDir unlocks the data directory. Closing the file is not enough: a child process that is
// being started has a copy of its descriptor, until it runs its program.
func unlockDir(file *os.File) error {
	return errors.Join(file.Truncate(0), syscall.Flock(int(file.Fd()), syscall.LOCK_UN), file.Close())
}
