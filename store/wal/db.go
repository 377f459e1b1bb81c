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

// Options configures Open. Logger, Clock, Disk and NewGroup are required.
type Options struct {
	Logger *slog.Logger
	Clock  clockwork.Clock
	Disk   Disk
	// NoSync returns from commits without a sync of the disk.
	NoSync bool
	// Shared gets each record before it is committed; nil: the log file alone has the records.
	Shared SharedLog
	// Follow opens a follower: its changes come from Apply only.
	Follow bool
	// Upgrade changes the layout of the bbolt file before recovery. nil: no upgrade.
	Upgrade func(*bolt.Tx) error
	// NewGroup returns the caller's state of a new commit group, and the transaction of the group's
	// updates.
	NewGroup func() (GroupState, *Tx)
	// BeforeClose is called by Close before the bbolt file is closed. No update runs then.
	BeforeClose func()
}

// GroupState is the caller's state of a commit group, the updates that share one log record. All
// methods except Committed are called with updateLock held.
type GroupState interface {
	// Begin reads the state at the start of the group.
	Begin() error
	// BeginUpdate saves the state before an update.
	BeginUpdate()
	// RollbackUpdate restores the state saved by BeginUpdate after an update failed and its writes
	// were rolled back.
	RollbackUpdate()
	// Seal adds rows that describe the whole group, before its record is composed.
	Seal() error
	// Applied is called after an update wrote a row of a record of the shared log. A nil value
	// means that the row was deleted.
	Applied(bucket Bucket, key, value []byte)
	// Committed is called when the record is durable, in the order of the commits. It calls show,
	// which lets readers see the rows. The caller can thus let readers see something else at once
	// with the rows.
	Committed(show func())
	// Rollback is called after the record failed and all writes of the group were rolled back.
	Rollback()
}

// Updater is an update function. It is an interface so that the caller can convert its own function
// type without an allocation.
type Updater interface {
	// Run runs the update in the transaction of the given group.
	Run(GroupState) error
	// Await returns when the writes of the update may become durable. It is called after Run,
	// without a lock of the updates. After an error, the whole group is rolled back.
	Await() error
}

// DB is an open database: a bbolt file, with newer rows in memory and in the log. Its methods are
// safe for concurrent use.
type DB struct {
	dir         string
	path        string // of the bbolt file
	logger      *slog.Logger
	clock       clockwork.Clock
	newGroup    func() (GroupState, *Tx)
	beforeClose func()
	file        File

	memtables atomic.Pointer[memtables]
	committed atomic.Uint64 // number of the newest commit

	// updateLock holds one item while an update function runs, or while an operation runs that
	// excludes updates. It guards the fields below and all writes to memtables.
	updateLock chan struct{}
	handover   chan struct{} // passes updateLock to the holder of logLock
	closing    chan struct{} // closed by Close
	open       *group        // group that new updates join, or nil
	newest     *group        // group whose record is being written or was written last
	logFull    bool          // that record filled the log's file: see prepareLog

	running *checkpoint // checkpoint that was started last; nil after its result was handled
	lost    []string    // acknowledged changes that recovery did not find
	// unsynced reports that the state that bbolt considers the newest may not be on the disk.
	unsynced bool

	// logLock holds one item while a record is written. It guards the log. The holder of updateLock
	// may also use the log while no record is being written.
	logLock      chan struct{}
	disk         Disk
	log          *log  // nil before the first update
	checkpointAt int64 // size of a log file at which the next checkpoint starts, in bytes

	activity activity

	followersLock sync.Mutex
	followers     []*Follower

	// The shared log; see shared.go.
	shared    SharedLog
	follow    bool
	applyLock chan struct{}            // holds one item while Apply runs
	broken    chan struct{}            // closed when the outcome of a record became unknown
	position  atomic.Pointer[Position] // newest record that is committed; never nil
	// syncedSequence is the number of the newest record that is in the bbolt file, which is synced.
	syncedSequence atomic.Uint64

	closeOnce sync.Once
	closeErr  error
}

// Open opens a database from an open bbolt file. The log is in the file's directory. Open reads
// newer rows from the log. It writes nothing, except that it renames a log of another database and
// applies Options.Upgrade. If it fails, it closes the file. Its duration does not depend on the
// size of the file.
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
		shared:      options.Shared,
		follow:      options.Follow,
		applyLock:   make(chan struct{}, 1),
		broken:      make(chan struct{}),
	}
	if options.NoSync {
		db.disk.Sync, db.disk.Preallocate = func(*os.File) error { return nil }, 0
	}
	file.AllocSize, file.NoSync, file.NoGrowSync = db.disk.Growth, options.NoSync, options.NoSync
	db.memtables.Store(&memtables{active: new(memtable)})
	db.setPosition(Position{})
	if err := db.start(options.Upgrade); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return db, nil
}

func (db *DB) start(upgrade func(*bolt.Tx) error) error {
	if upgrade != nil {
		if err := db.updateFile(func(b *bolt.Tx, _ Digests) error { return upgrade(b) }); err != nil {
			return err
		}
	}
	if err := db.recover(); err != nil {
		return err
	}
	return db.readPosition()
}

// Close rejects waiting updates with ErrClosed, completes the running updates, waits for open read
// transactions, checkpoints all rows and removes the log. Repeated calls have no effect.
func (db *DB) Close() error {
	db.closeOnce.Do(func() {
		close(db.closing)
		db.quiesce() // later updates find the database closing
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

// ReleaseMemory releases memory of an idle process: it checkpoints the rows in memory and returns
// the file's mapped pages to the system.
func (db *DB) ReleaseMemory() error {
	db.quiesce()
	defer db.resume()
	if err := db.checkpointNow(); err != nil && !errors.Is(err, errUnfinishedRecord) {
		return err
	}
	return db.releasePages()
}

// ReleasePages returns the mapped pages of the bbolt file to the system. A read of all rows would
// otherwise occupy as much memory as the file has.
func (db *DB) ReleasePages() error { return db.releasePages() }

// Checkpoint writes all committed rows to the bbolt file.
func (db *DB) Checkpoint() error {
	db.quiesce()
	defer db.resume()
	return db.checkpointNow()
}

var errUnfinishedRecord = errors.New("the last update failed, and the log still contains it")

// checkpointNow writes all committed rows to the bbolt file. No update runs meanwhile.
func (db *DB) checkpointNow() error {
	switch {
	case db.isClosing():
		return ErrClosed
	case db.log == nil: // no update yet
		return nil
	case db.log.overwriteNext:
		return errUnfinishedRecord
	}
	if err := db.checkpointAll(); err != nil {
		return notReady(db.path, err)
	}
	db.switchLogFile()
	return nil
}

// Update runs an update and returns when its writes are on the disk. If the update returns an
// error, its writes are rolled back, and Update returns that error unchanged.
//
// The update runs once, after the previous updates, and reads their writes. It must not call
// Update. If it panics, its writes are rolled back. If ctx ends before the update starts, it does
// not run, and Update returns the error of ctx. A running update is not interrupted. If the disk is
// full or fails, Update returns a *WriteError. It does so even if the update wrote nothing but read
// rows that were lost. Update returns ErrClosed on a closed database and ErrFollower on a
// follower. After the outcome of a record became unknown, its error contains ErrBroken.
func (db *DB) Update(ctx context.Context, update Updater) error {
	if db.follow {
		return ErrFollower
	}
	return db.update(ctx, update)
}

func (db *DB) update(ctx context.Context, update Updater) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	db.activity.begin(db.clock)
	defer db.activity.end(db.clock)
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
