package wal

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/jonboulle/clockwork"
	bolt "go.etcd.io/bbolt"
)

// Options configures Open. All fields but NoSync, Upgrade and BeforeClose are required.
type Options struct {
	Logger *slog.Logger
	Clock  clockwork.Clock
	Disk   Disk
	// NoSync leaves it to the system when committed rows reach the disk.
	NoSync bool
	// Upgrade changes the layout of the bbolt file before recovery; nil if it needs no change.
	Upgrade func(*bolt.Tx) error
	// NewGroup returns the caller's state of a new commit group and the transaction of its updates.
	NewGroup func() (GroupState, *Tx)
	// BeforeClose is called by Close when no update runs, before the bbolt file is closed.
	BeforeClose func()
}

// GroupState is the state that the caller keeps for a commit group: the updates that share one
// record of the log. All methods but Committed are called with updateLock held.
type GroupState interface {
	// Begin reads the state in which the group starts.
	Begin() error
	// BeginUpdate is called before each update. The state may have to return to this point.
	BeginUpdate()
	// RollbackUpdate is called when an update failed. Its writes have been rolled back.
	RollbackUpdate()
	// Seal adds rows that describe the group as a whole, before its record is composed.
	Seal() error
	// Committed is called when the rows are committed, in the order of the commits.
	Committed()
	// Rollback is called when the record could not be written. All writes of the group are rolled
	// back.
	Rollback()
}

// Updater is an update function. It is an interface so that the caller can convert a function of a
// type of its own without an allocation.
type Updater interface {
	// Run runs the update in the transaction that belongs to the state.
	Run(GroupState) error
}

// DB is an open database: a bbolt file with newer rows in memory and in the log. Its methods may be
// called by many goroutines at once.
type DB struct {
	dir         string
	path        string // of the bbolt file
	logger      *slog.Logger
	clock       clockwork.Clock
	newGroup    func() (GroupState, *Tx)
	beforeClose func()
	file        File

	memtables atomic.Pointer[memtables]
	committed atomic.Uint64 // the number of the newest commit

	// updateLock holds one item while an update function runs, or while anything happens that must
	// not run beside an update. It guards the fields below it and all memtables against writes.
	updateLock chan struct{}
	handover   chan struct{} // passes updateLock to the holder of logLock
	closing    chan struct{} // closed by Close
	open       *group        // new updates join this group; nil: there is none
	newest     *group        // the group whose record was written last or is being written
	logFull    bool          // that record filled the log's file: see prepareLog

	running *checkpoint // the checkpoint started last; nil: its outcome was handled
	// unsynced reports that the state that bbolt takes for the newest may not be on the disk.
	unsynced bool

	// logLock holds one item while a record is written. It guards the log. The holder of updateLock
	// may use the log, too, while no record is being written.
	logLock      chan struct{}
	disk         Disk
	log          *log  // nil until the first update
	checkpointAt int64 // the size of the log's file at which the next checkpoint starts, bytes

	closeOnce sync.Once
	closeErr  error
}

// Open returns the database in an open bbolt file. The log lies in the file's directory. Open reads
// the log's newer rows and writes nothing, except that it renames a log of another database and
// applies Options.Upgrade. It closes the file if it fails. The time that it takes does not depend
// on the size of the file.
func Open(file File, options Options) (*DB, error) {
	db := &DB{
		dir:         filepath.Dir(file.Path()),
		path:        file.Path(),
		logger:      options.Logger,
		clock:       options.Clock,
		newGroup:    options.NewGroup,
		beforeClose: options.BeforeClose,
		file:        file,
		disk:        options.Disk,
		updateLock:  make(chan struct{}, 1),
		handover:    make(chan struct{}),
		closing:     make(chan struct{}),
		logLock:     make(chan struct{}, 1),
		unsynced:    true,
	}
	if options.NoSync {
		db.disk.Sync, db.disk.Preallocate = func(*os.File) error { return nil }, 0
	}
	file.AllocSize, file.NoSync, file.NoGrowSync = db.disk.Growth, options.NoSync, options.NoSync
	db.memtables.Store(&memtables{active: new(memtable)})
	if err := db.start(options.Upgrade); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return db, nil
}

func (db *DB) start(upgrade func(*bolt.Tx) error) error {
	if upgrade != nil {
		if err := db.updateFile(upgrade); err != nil {
			return err
		}
	}
	return db.recover()
}

// Close refuses waiting updates with ErrClosed, finishes the running ones, waits for open read
// transactions, checkpoints all rows and removes the log. Closing twice is harmless.
func (db *DB) Close() error {
	db.closeOnce.Do(func() {
		close(db.closing)
		db.quiesce() // updates that come later see that the database is closing
		if db.beforeClose != nil {
			db.beforeClose()
		}
		db.closeErr = errors.Join(db.finish(), db.file.Close())
		db.resume()
	})
	return db.closeErr
}

// finish checkpoints all rows and removes the log.
func (db *DB) finish() error {
	err := db.checkpointAll()
	if db.log != nil {
		err = errors.Join(err, db.log.close())
	}
	if err != nil {
		return err
	}
	return removeLog(db.dir)
}

func (db *DB) isClosing() bool { return isClosed(db.closing) }

// ReleaseMemory releases memory that an idle process does not need: it checkpoints the rows in
// memory and returns the file's pages that were read to the system.
func (db *DB) ReleaseMemory() error {
	db.quiesce()
	defer db.resume()
	if db.isClosing() {
		return ErrClosed
	}
	if db.log != nil && !db.log.overwriteNext {
		if err := db.checkpointAll(); err != nil {
			return notReady(db.path, err)
		}
		db.switchLogFile()
	}
	return db.releasePages()
}

// Update runs an update and returns when its writes are on the disk. If the update returns an
// error, its writes are rolled back, and Update returns that error unchanged.
//
// The update runs once, after those that came before it, and sees their writes. It must not call
// Update itself. If it panics, its writes are rolled back. If ctx ends before the update starts,
// nothing is written, and Update returns the error of ctx. A running update is not interrupted. If
// the disk is full or fails, Update returns a *WriteError, even if the update wrote nothing but saw
// rows that are lost. It returns ErrClosed on a closed database.
func (db *DB) Update(ctx context.Context, update Updater) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := db.lockUpdates(ctx); err != nil {
		return err
	}
	g, err := db.run(update)
	if g == nil {
		db.unlockUpdates()
		return err
	}
	db.await(g)
	if g.err != nil {
		return g.err
	}
	return err
}
