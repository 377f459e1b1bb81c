// Package store keeps everything that Landfall knows in one bbolt file, landfall.db, with big file
// contents beside it and, while it is open, what was changed last in memory and in a write-ahead
// log, landfall-1.wal and landfall-2.wal: see checkpoint.go.
//
// It has etcd's shape: one flat, ordered space of keys such as "/clusters/<id>", one revision
// counter that every change raises (by one, but for the first one after the database was opened,
// see Options.Floor, or after the disk failed), and a log of the changes that can be watched. Rows
// that only help to find others (indexes, deadlines) are written in the same transactions but have
// no revision.
//
// The file holds four bbolt buckets; all numbers are big-endian:
//
//	data   key -> create revision, mod revision, version, expiry (8 bytes each), value
//	log    revision (8 bytes) -> kind (1 byte), key (length as uvarint, then bytes), what the history keeps (see history.go)
//	index  "/<index>/<key>" -> nothing
//	       "deadlines/<name>/at/<time><key>" -> nothing, "deadlines/<name>/of/<key>" -> time
//	       "blobs/<sha256>/<file's key>" -> nothing
//	meta   "revision", "compacted", "schema", "epoch", "committed" -> 8 bytes
//
// A value begins with the schema version of its bucket as uvarint; the JSON follows.
package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jonboulle/clockwork"
	bolt "go.etcd.io/bbolt"
)

// FileName is the database's name in the data directory.
const FileName = "landfall.db"

// Options are the surroundings of a database; the zero value is usable.
type Options struct {
	Logger *slog.Logger    // nil: silent
	Clock  clockwork.Clock // nil: the real one
	// BlobGrace is how long staged content may wait for the transaction that refers to it. 0: one
	// hour.
	BlobGrace time.Duration
	// History says which changes are kept for Tx.History.
	History History
	// Versioned is the name of the bucket of which every version of each row can be read and
	// watched, as far back as the log reaches (see Versions). "": there is none.
	Versioned string
	// Floor is the least revision that the first change gets. Give each opening a higher one than
	// all before (the time, say): what a file that was put back from an older copy goes on with
	// then has revisions that were never seen, and those that it lost are refused (ErrCompacted).
	Floor uint64
	// NoSync leaves it to the system when what is committed reaches the disk: for simulations,
	// whose data nobody needs after a crash of the machine.
	NoSync bool

	disk disk // zero: the real one
}

// DB is an open database. Its methods may be called by many goroutines at once.
type DB struct {
	dir    string
	path   string // of the bbolt file
	logger *slog.Logger
	clock  clockwork.Clock
	grace  time.Duration
	noSync bool

	lock *os.File
	bolt *bolt.DB
	file *os.File // bbolt's
	feed *feed

	// What is committed: see checkpoint.go.
	levels    atomic.Pointer[levels]
	committed atomic.Uint64 // the number of the newest commit

	// The groups of updates: see writer.go.
	// holds one item while somebody runs an update, or arranges something that no update may see
	turn       chan struct{}
	pen        chan struct{} // holds one item while somebody writes the log
	closeGroup chan struct{} // the way of the turn to who holds the pen
	closing    chan struct{} // closed by Close
	gathering  *group        // to which updates are added; nil: none was
	newest     *group        // whose record was written last, or is being written
	full       bool          // the log's file is, with that record: see ready

	// The log belongs to who holds the pen, or the turn while no record is being written. The
	// checkpoints belong to who holds the turn.
	disk     disk
	wal      *wal        // nil until the first update
	due      int64       // the size of the log's file at which the next checkpoint is begun, bytes
	running  *checkpoint // the newest that was begun; nil: its outcome was seen to
	unsynced bool        // what bbolt takes for its newest state may not be on the disk

	close    sync.Once
	closeErr error

	blobs   blobs
	decoded *decoded
	history *history // nil: none is kept
	// versioned is what keys begin with of which the log keeps every version; "": none do.
	versioned string
	past      packer // belongs to who holds the turn
	floor     uint64 // the least revision that the next change gets; belongs to who holds the turn
}

// Open opens the database in the directory dir and creates both if they are missing. Whatever is
// wrong with the directory or the file comes as *DirError, *HeldError, *CorruptError,
// *NewerSchemaError or *WriteError. The time it takes does not depend on how much is stored.
func Open(ctx context.Context, dir string, options Options) (*DB, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	db := &DB{
		dir:        dir,
		path:       filepath.Join(dir, FileName),
		logger:     options.Logger,
		clock:      options.Clock,
		grace:      options.BlobGrace,
		noSync:     options.NoSync,
		turn:       make(chan struct{}, 1),
		pen:        make(chan struct{}, 1),
		closeGroup: make(chan struct{}),
		closing:    make(chan struct{}),
		decoded:    newDecoded(),
		history:    newHistory(options.History),
		floor:      options.Floor,
		disk:       options.disk,
		unsynced:   true,
	}
	if db.disk.sync == nil {
		db.disk = realDisk()
	}
	if db.noSync {
		db.disk.sync, db.disk.ahead = func(*os.File) error { return nil }, 0
	}
	db.levels.Store(&levels{live: new(table)})
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
	revision, err := db.open()
	if err != nil {
		return nil, err
	}
	db.feed = newFeed(revision)
	db.logger.Info("database opened", "path", db.path, "revision", revision, "took", db.clock.Since(start))
	return db, nil
}

// Close ends the watches, answers ErrClosed to the updates that wait, finishes the one that runs,
// waits for open views and releases the data directory. Closing twice is harmless.
func (db *DB) Close() error {
	db.close.Do(func() {
		close(db.closing)
		db.rest() // whoever comes now sees that the database closes
		db.feed.close()
		db.closeErr = errors.Join(db.finish(), db.bolt.Close(), unlock(db.lock))
		db.resume()
	})
	return db.closeErr
}

// Revision is the revision of the newest committed change; 0 in a new database.
func (db *DB) Revision() uint64 {
	return db.feed.revision()
}

// View runs fn on a snapshot: it sees the database as of one revision, whatever is committed
// meanwhile. An open view keeps old pages of the file from being used again, so fn should be short.
// It must not call Update.
func (db *DB) View(fn func(*Tx) error) (err error) {
	defer db.catchCorruption(&err)
	tx, err := db.begin(false)
	if err != nil {
		return err
	}
	defer func() {
		if ended := tx.end(); err == nil {
			err = ended
		}
	}()
	return fn(tx)
}

// catchCorruption turns the panic by which bbolt reports a damaged page into a *CorruptError; other
// panics go on.
func (db *DB) catchCorruption(err *error) {
	if reason := recover(); reason != nil {
		if *err = db.corruption(reason); *err == nil {
			panic(reason)
		}
	}
}

// corruption is the *CorruptError for a recovered panic of bbolt, nil for any other panic.
func (db *DB) corruption(reason any) error {
	// The prefix is the one of bbolt's internal/common.Assert.
	if text, ok := reason.(string); ok && strings.HasPrefix(text, "assertion failed: ") {
		return &CorruptError{Path: db.path, Err: errors.New(strings.TrimPrefix(text, "assertion failed: "))}
	}
	return nil
}

// corruptRow says which row is damaged and how.
func (db *DB) corruptRow(key string, err error) error {
	return &CorruptError{Path: db.path, Err: fmt.Errorf("key %s: %w", key, err)}
}
