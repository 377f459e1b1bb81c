// Package store keeps all persistent data of Landfall: a transactional key-value store with
// revisions, in the style of etcd, on a bbolt file.
//
//	Bucket, Versions   Index, Deadlines   Files          typed views of keys, in a Tx
//	      |                   |             |   \
//	   data, log (history)  index          data  blobs    rows and change log; large files
//	      |                   |             |
//	   store/wal: memtables, write-ahead log, group commit, checkpoints
//	      |
//	   landfall.db (bbolt), landfall-1.wal, landfall-2.wal
//
// There is one flat, ordered key space with keys such as "/clusters/<id>", and one revision
// counter. Each change raises the counter by one, except the first change after the database was
// opened (see Options.Floor) or after the disk failed. The change log records each change and can
// be watched (DB.Watch, Versions.Watch). Indexes and deadlines are written in the same
// transactions, but have no revision. The contents of large files lie beside the database
// (blobs.go). A history of values can be kept in the change log (history.go).
//
// The rows are stored in four buckets (wal.Bucket); all numbers are big-endian:
//
//	data   key -> create revision, mod revision, version, expiry (8 bytes each), value
//	log    revision (8 bytes) -> kind (1 byte), key (length as uvarint, then bytes), history (see
//	       history.go)
//	index  "/<index>/<key>" -> nothing
//	       "deadlines/<name>/at/<time><key>" -> nothing, "deadlines/<name>/of/<key>" -> time
//	       "blobs/<sha256>/<file's key>" -> nothing
//	meta   "revision", "compacted", "schema", "epoch", "committed" -> 8 bytes
//
// A value starts with the schema version of its bucket as uvarint; the JSON follows.
//
// Design: docs/design.md#group-commit, docs/design.md#the-data-model-of-etcd.
package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/store/wal"
)

// FileName is the name of the bbolt file in the data directory.
const FileName = "landfall.db"

// Options configures Open. The zero value is usable.
type Options struct {
	Logger *slog.Logger    // nil: silent
	Clock  clockwork.Clock // nil: the real clock
	// BlobGrace is how long staged content is kept without a file that refers to it. 0: one hour.
	BlobGrace time.Duration
	// History selects the changes that are kept for Tx.History.
	History History
	// Versioned is the name of the bucket whose row versions can all be read and watched, as far
	// back as the change log reaches (see Versions). "": there is none.
	Versioned string
	// Floor is the minimum revision of the first change. Give each opening a higher floor than all
	// before, such as the time. A database that was restored from an older copy then continues with
	// new revisions, and reads at a revision that it lost fail with ErrCompacted.
	Floor uint64
	// NoSync leaves it to the system when committed changes reach the disk. It is meant for
	// simulations, whose data need not survive a crash of the machine.
	NoSync bool

	disk wal.Disk // zero: the real one
}

// DB is an open database. Its methods may be called by many goroutines at once.
type DB struct {
	dir    string
	path   string // of the bbolt file
	logger *slog.Logger
	clock  clockwork.Clock
	grace  time.Duration

	dirLock *os.File // the lock on the data directory
	rows    *wal.DB
	feed    *feed

	close    sync.Once
	closeErr error

	blobs   blobs
	decoded *decodedCache
	history *history // nil: none is kept
	// versioned is the key prefix of the versioned bucket; "": there is none.
	versioned string

	// Used by updates only, which run one at a time:
	deltas deltaEncoder
	floor  uint64 // the minimum revision of the next change
}

// Open opens the database in the directory dir and creates both if they are missing. Its errors are
// *DirError, *HeldError, *CorruptError, *NewerSchemaError and *WriteError. The time that it takes
// does not depend on the size of the database.
func Open(ctx context.Context, dir string, options Options) (*DB, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	db := &DB{
		dir:     dir,
		path:    filepath.Join(dir, FileName),
		logger:  options.Logger,
		clock:   options.Clock,
		grace:   options.BlobGrace,
		decoded: newDecodedCache(),
		history: newHistory(options.History),
		floor:   options.Floor,
	}
	if options.disk.Sync == nil {
		options.disk = wal.RealDisk()
	}
	if options.Versioned != "" {
		db.versioned = "/" + options.Versioned + "/"
	}
	if db.logger == nil {
		db.logger = slog.New(slog.DiscardHandler)
	}
	if db.clock == nil {
		db.clock = clockwork.NewRealClock()
	}
	if db.grace == 0 {
		db.grace = time.Hour
	}
	db.blobs = blobs{dir: filepath.Join(dir, "blobs"), staging: map[string]bool{}}
	start := db.clock.Now()
	revision, err := db.open(options)
	if err != nil {
		return nil, err
	}
	db.feed = newFeed(revision)
	db.logger.Info("database opened", "path", db.path, "revision", revision, "took", db.clock.Since(start))
	return db, nil
}

// Close ends all watches, refuses waiting updates with ErrClosed, finishes the running ones, waits
// for open views and releases the data directory. Closing twice is harmless.
func (db *DB) Close() error {
	db.close.Do(func() { db.closeErr = errors.Join(db.rows.Close(), unlockDir(db.dirLock)) })
	return db.closeErr
}

// ReleaseMemory releases memory that an idle process does not need: it writes the rows in memory to
// the file and returns the file's pages that were read to the system.
func (db *DB) ReleaseMemory() error { return db.rows.ReleaseMemory() }

// Revision returns the revision of the newest committed change; 0 in a new database.
func (db *DB) Revision() uint64 {
	return db.feed.revision()
}

// View runs fn on a snapshot: it sees the database as of one revision, regardless of later commits.
// An open view keeps old pages of the file from being reused, so fn should be short. It must not
// call Update.
func (db *DB) View(fn func(*Tx) error) (err error) {
	defer wal.CatchCorruption(db.path, &err)
	tx := &Tx{db: db}
	if err := db.rows.Begin(&tx.rows); err != nil {
		return err
	}
	defer func() {
		if ended := tx.rows.End(); err == nil {
			err = ended
		}
	}()
	return fn(tx)
}

// Update runs fn in a transaction and returns when its writes are safe on the disk. If fn returns
// an error, nothing is written, and Update returns that error unchanged.
//
// fn runs once, after the updates that came before it, and sees their writes. It must not call
// Update itself. If fn panics, its writes are rolled back. If ctx ends before fn starts, nothing is
// written, and Update returns the error of ctx. A running fn is not interrupted. If the disk is
// full or fails, Update returns a *WriteError, even if fn wrote nothing but saw changes that are
// lost. It returns ErrClosed on a closed database.
func (db *DB) Update(ctx context.Context, fn func(*Tx) error) error {
	return db.rows.Update(ctx, update(fn))
}

// corruptRow returns the error for a damaged row.
func (db *DB) corruptRow(key string, err error) error {
	return &CorruptError{Path: db.path, Err: fmt.Errorf("key %s: %w", key, err)}
}
