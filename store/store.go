// Package store keeps all persistent data of Landfall. It is a transactional key-value store with
// revisions, modelled on etcd, on top of a bbolt file.
//
//	+---------------------------------------------------------------------------------+
//	| typed views of keys, used within a transaction                                  |
//	|                                                                                 |
//	|  Bucket      Versions     Index    Deadlines    Files                           |
//	|  JSON        old values   keys     times        descriptions, small contents    |
//	+---------------------------------------------------------------------------------+
//	| DB.View, DB.Update -> Tx: rows, revisions, change log   | DB.Stage: blobs,      |
//	|     |                                                   | contents above 64 KiB |
//	|     | changes of each commit                            |                       |
//	|     v                                                   |                       |
//	| DB.Watch, Versions.Watch: feeds    Tx.History: old JSON |                       |
//	+---------------------------------------------------------+                       |
//	| store/wal: commit groups, write-ahead log, memtables,   |                       |
//	| checkpoints, recovery                                   |                       |
//	+---------------------------------------------------------+-----------------------+
//	| landfall.db (bbolt)    landfall-1.wal, landfall-2.wal   | blobs/                |
//	+---------------------------------------------------------+-----------------------+
//
// # Data model
//
// The database has one flat, ordered key space with keys such as "/clusters/<id>", and one
// revision counter. Each change increments the counter. The change log contains each change and
// can be watched. Indexes and deadlines are written in the same transactions, but have no
// revision. The change log can also contain previous values (History, Versions).
//
// The rows are stored in four buckets (wal.Bucket). All numbers are big-endian:
//
//	data   key -> create revision, mod revision, version, expiry (8 bytes each), value
//	log    revision (8 bytes) -> kind (1 byte), key (length as uvarint, then bytes), history (see
//	       history.go)
//	index  "/<index>/<key>" -> nothing
//	       "deadlines/<name>/at/<time><key>" -> nothing, "deadlines/<name>/of/<key>" -> time
//	       "blobs/<sha256>/<file's key>" -> nothing
//	meta   "revision", "compacted", "schema", "epoch", "committed" -> 8 bytes
//	       "digest", "sequence", "record" (see wal)
//
// A value starts with the schema version of its bucket as uvarint. The JSON follows.
//
// # Transactions
//
// Updates run one at a time (package wal). Each change of an update gets the next revision, and all
// changes are durable when DB.Update returns. A view reads the committed rows at one revision and
// takes no lock.
//
// Lock order: history.sizesLock, then the locks of package wal, then feed.mu, then the mutex of a
// watcher. No other lock is acquired while the lock of a blob.Dir or decodedCache.mu is held.
//
// # Files
//
//	open.go       locks the data directory, checks the bbolt file, creates and upgrades it
//	verify.go     damage of the bbolt file that the start finds and leaves behind
//	store.go      DB: open, close, view, update
//	tx.go         Tx: rows, revisions, entries of the change log
//	bucket.go     Bucket: JSON values of one type
//	decoded.go    the cache of decoded values of a Bucket
//	versions.go   Versions: rows with older versions, reads at an older revision
//	index.go      Index: keys that refer to other keys
//	deadlines.go  Deadlines: one time per key, found by time
//	files.go      Files: file descriptions and small contents
//	sealing.go    encryption of values: see package seal
//	contents.go   contents above 64 KiB, staged before a transaction refers to them
//	feed.go       Watcher: changes without values; compaction of the change log
//	valuefeed.go  ValueWatcher: changes of a Versions with values
//	shared.go     the part of the database in a shared log
//	snapshot.go   Snapshot: all stored rows and contents at one revision, for backups
//	history.go    History: previous values and notes in the change log
//	damage.go     damaged rows: noticed, skipped, kept
//	errors.go     typed errors
//	blob/         the directory of large contents
//	wal/          durable commits and snapshots of rows
//	delta/        encodes a value as the difference from a similar value
//	fastjson/     encoding/json's results in less time
//
// # Several machines
//
// Several machines can have the same rows by a shared log: one leads (Options.Shared), the others
// follow (Options.Follow). Package wal explains the log; shared.go has what its users need.
//
// Design: docs/design.md#group-commit, docs/design.md#the-data-model-of-etcd,
// docs/design.md#a-log-that-several-machines-share.
package store

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jonboulle/clockwork"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/singleflight"

	"landfall/store/blob"
	"landfall/store/seal"
	"landfall/store/wal"
)

// FileName is the name of the bbolt file in the data directory.
const FileName = "landfall.db"

// blobsDir is the name of the directory of large contents in the data directory.
const blobsDir = "blobs"

// Options configures Open. The zero value is valid.
type Options struct {
	Logger *slog.Logger    // nil: silent
	Clock  clockwork.Clock // nil: the real clock
	// BlobGrace is how long staged content is kept before a file refers to it. 0: one hour.
	BlobGrace time.Duration
	// History selects the changes that are kept for Tx.History.
	History History
	// Versioned names the bucket of which older row versions can be read and watched, as far back
	// as the change log reaches (see Versions). "": no bucket.
	Versioned string
	// Floor is the minimum revision of the first change. Use a higher floor for each opening, such
	// as the time. If the database is restored from an older copy, new changes then get new
	// revisions, and reads at a lost revision return ErrCompacted.
	Floor uint64
	// NoSync returns from commits without a sync of the disk. It is meant for simulations, whose
	// data may be lost in a crash of the machine.
	NoSync bool
	// Keys returns the data keys that seal the values. It is called while the data directory is
	// locked. sealed reports whether the database is sealed already; if not, it is sealed with the
	// newest key. nil: values are stored in clear, and a sealed database can't be opened.
	Keys func(sealed bool) (*seal.Ring, error)

	// Salvage opens a database of which most rows are lost. It is meant for a copy.
	Salvage bool

	// Shared is a log that gets each commit before it is acknowledged, so that other machines can
	// have the same rows; nil: none. See package wal.
	Shared wal.SharedLog
	// Follow opens a follower of a shared log: Apply changes it, and Update returns ErrFollower.
	Follow bool
	// Elsewhere has contents on other machines with the same shared log; nil: none.
	Elsewhere Elsewhere

	disk wal.Disk // zero: the real disk
}

// DB is an open database. Its methods are safe for concurrent use.
type DB struct {
	dir    string
	path   string // of the bbolt file
	logger *slog.Logger
	clock  clockwork.Clock
	grace  time.Duration

	dirLock *os.File // the lock on the data directory
	rows    *wal.DB
	feed    *feed
	ring    *seal.Ring // nil: values are stored in clear

	references chan struct{} // see NewReferences
	elsewhere  Elsewhere     // nil: no other machine has contents
	fetching   singleflight.Group

	close    sync.Once
	closeErr error

	blobs     *blob.Dir
	snapshots atomic.Int32 // open snapshots, whose blobs are not collected
	decoded   *decodedCache
	damages   *damages
	salvage   bool
	shared    bool        // the database has a part in a shared log
	follows   bool        // it is a follower of that log
	stale     []string    // indexes that were damaged at the start
	unlinked  atomic.Bool // one of them protects contents, see CollectBlobs
	history   *history    // nil: no history
	// versioned is the key prefix of the versioned bucket; "": no bucket.
	versioned string

	// The fields below are used by updates only, which run one at a time.
	deltas deltaEncoder
	floor  uint64 // the minimum revision of the next change
}

// Open opens the database in the directory dir. It creates both if they are missing. Its errors are
// *DirError, *HeldError, *CorruptError (*DamagedCopyError with a shared log), *NewerSchemaError,
// *SealError, *WriteError and the errors of Options.Keys. It reads the whole file of the database,
// to find damage before it is served.
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
		damages: newDamages(),
		history: newHistory(options.History),
		floor:   options.Floor,
		salvage: options.Salvage,
		shared:  options.Shared != nil || options.Follow,
		follows: options.Follow,

		elsewhere:  options.Elsewhere,
		references: make(chan struct{}, 1),
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
	start := db.clock.Now()
	revision, was, err := db.open(options)
	if corrupt, ok := errors.AsType[*CorruptError](err); ok && db.shared {
		return nil, &DamagedCopyError{Path: corrupt.Path, Reason: corrupt.Err.Error()}
	}
	if err != nil {
		return nil, err
	}
	db.feed = newFeed(revision)
	if db.stale, err = db.noteFound(ctx, was); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	db.unlinked.Store(slices.Contains(db.stale, blobReferences))
	db.logger.Info("Database opened.", "path", db.path, "revision", revision, "took", db.clock.Since(start))
	return db, nil
}

// Close ends all watches, rejects waiting updates with ErrClosed, completes the running updates,
// waits for open views and unlocks the data directory. Repeated calls have no effect.
func (db *DB) Close() error {
	db.close.Do(func() { db.closeErr = errors.Join(db.rows.Close(), unlockDir(db.dirLock)) })
	return db.closeErr
}

// ReleaseMemory releases memory of an idle process: it writes the rows in memory to the file, and
// returns the file's mapped pages to the system.
func (db *DB) ReleaseMemory() error { return db.rows.ReleaseMemory() }

// ReleasePages returns the file's mapped pages to the system, after a read of many rows.
func (db *DB) ReleasePages() error { return db.rows.ReleasePages() }

// Revision returns the revision of the newest committed change, or 0 in a new database. It is not
// older than that of a view that was opened before.
func (db *DB) Revision() uint64 {
	return db.feed.revision()
}

// Activity describes the updates since the database was opened.
func (db *DB) Activity() wal.Activity { return db.rows.Activity() }

// StalledSince returns the time since which no update has ended although some run or wait, or the
// zero time.
func (db *DB) StalledSince() time.Time { return db.rows.Activity().StalledSince }

// View runs fn on a snapshot: fn reads the database at one revision, regardless of later commits.
// An open view prevents the reuse of old pages of the file, so fn should be short. fn must not call
// Update.
func (db *DB) View(fn func(*Tx) error) (err error) {
	defer wal.CatchCorruption(db.path, &err)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
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

// Update runs fn in a transaction and returns when its writes are synced to the disk. If fn returns
// an error, Update rolls back and returns that error unchanged.
//
// fn runs once, after the previous updates, and reads their writes. fn must not call Update. If fn
// panics, its writes are rolled back. If ctx ends before fn starts, fn does not run, and Update
// returns the error of ctx. A running fn is not interrupted. If the disk is full or fails, Update
// returns a *WriteError. It does so even if fn wrote nothing but read changes that were lost.
// Update returns ErrClosed on a closed database. With a context of [DryRun] it rolls back, too.
func (db *DB) Update(ctx context.Context, fn func(*Tx) error) error {
	if parent := trace.SpanFromContext(ctx); parent.IsRecording() {
		_, span := parent.TracerProvider().Tracer("landfall/store").Start(ctx, "store update")
		defer span.End()
	}
	if IsDryRun(ctx) {
		fn = rolledBack(fn)
	}
	if await, ok := ctx.Value(afterKey{}).(func() error); ok {
		return db.rows.Update(ctx, &lateUpdate{fn, await})
	}
	return db.rows.Update(ctx, update(fn))
}

type afterKey struct{}

// After returns a context whose updates become durable only after ready has returned nil. Other
// updates run meanwhile. If ready returns an error, the update is rolled back, and so are others
// that would be committed together with it; Update returns that error. ready may be called several
// times, and must return in bounded time, because no update becomes durable meanwhile.
func After(ctx context.Context, ready func() error) context.Context {
	return context.WithValue(ctx, afterKey{}, ready)
}
