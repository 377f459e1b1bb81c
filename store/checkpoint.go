package store

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	bolt "go.etcd.io/bbolt"
)

// How a change becomes safe, and where it is found. What is committed lies in up to three levels:
//
//	live    rows in memory that were changed since the newest freeze
//	frozen  rows in memory that are being put into bbolt's file: a checkpoint is under way
//	base    bbolt's file, always whole and synced, as bbolt leaves it
//
// An update's rows go to live, and its record to the log (wal.go); when that is on the disk they
// are committed, and readers see them. When the log's file is full, live is frozen. An empty one
// and the log's other file take over, while one transaction of bbolt's takes up the frozen rows in
// the background, and notes the newest commit among them. So a start knows which of the log's
// records are newer, and reads those into live.
//
// An upper level counts before those below it, so it does no harm if the base has the frozen rows
// already. What it must not have is later rows than a reader's live: see begin.
//
// A checkpoint that fails leaves the frozen rows and the log as they are, and is made again when
// the log has grown by as much once more.

// disk is how files are written. Sizes are in bytes.
type disk struct {
	sync         func(*os.File) error                       // waits until what was written is on the disk
	update       func(*bolt.DB, func(*bolt.Tx) error) error // makes a transaction of bbolt's
	begin        func(*bolt.DB) (*bolt.Tx, error)           // begins a view of bbolt's
	checkpointAt int64                                      // the size of the log's file at which a checkpoint is made
	// the size from which on updates are refused if none can be made
	logLimit int64
	growth   int // the step by which bbolt's file grows
	// how much of the log is written with zeros ahead of the records
	ahead int
}

func realDisk() disk {
	return disk{
		sync: datasync, update: (*bolt.DB).Update, begin: beginView,
		checkpointAt: 4 << 20, logLimit: 64 << 20, growth: 4 << 20, ahead: 1 << 20,
	}
}

func beginView(b *bolt.DB) (*bolt.Tx, error) { return b.Begin(false) }

// levels are where readers begin: see above.
type levels struct {
	live, frozen *table // frozen is nil if there is none
}

// checkpoint is one under way, or ended.
type checkpoint struct {
	done chan struct{}
	err  error // when it is done
}

// ready prepares for an update: begins the log, or sees that there is room in it.
func (db *DB) ready() error {
	if db.wal == nil {
		return db.beginLog()
	}
	if db.wal.end < db.due { // as it is where a record failed and remains, so that the next takes its place
		return nil
	}
	if db.levels.Load().frozen != nil {
		if db.running == nil {
			db.running = db.checkpoint()
		}
		<-db.running.done
		if err := db.running.err; err != nil {
			db.running = nil
			if db.wal.end >= db.disk.logLimit {
				return fmt.Errorf("%d MiB of changes wait in the log, and can't be put into the database: %w",
					db.wal.end>>20, err)
			}
			db.due = db.wal.end + db.disk.checkpointAt
			return nil
		}
	}
	db.freeze()
	db.alternate()
	db.running = db.checkpoint()
	return nil
}

// alternate has the log go on in its other file.
func (db *DB) alternate() {
	db.wal.alternate(db.committed.Load() + 1)
	db.due = db.disk.checkpointAt
}

// freeze has an empty table take the place of live.
func (db *DB) freeze() {
	live := db.levels.Load().live
	live.last = db.committed.Load()
	db.levels.Store(&levels{live: new(table), frozen: live})
}

// checkpoint begins to put the frozen rows into bbolt's file.
func (db *DB) checkpoint() *checkpoint {
	c := &checkpoint{done: make(chan struct{})}
	go func() {
		defer close(c.done)
		if c.err = db.putFrozen(); c.err != nil {
			db.logger.Error("checkpoint failed", "path", db.path, "error", c.err)
		}
	}()
	return c
}

// putFrozen puts the frozen rows into bbolt's file and drops them.
func (db *DB) putFrozen() error {
	now := db.levels.Load()
	err := db.updateFile(func(b *bolt.Tx) error {
		for id := range now.frozen.lists {
			if err := now.frozen.putInto(b, bucketID(id)); err != nil {
				return err
			}
		}
		return b.Bucket(bucketNames[metaBucket]).Put(committedKey, binary.BigEndian.AppendUint64(nil, now.frozen.last))
	})
	if err == nil {
		db.levels.Store(&levels{live: now.live})
	}
	return err
}

// putInto puts a bucket's rows into bbolt's.
func (t *table) putInto(b *bolt.Tx, id bucketID) error {
	bucket := b.Bucket(bucketNames[id])
	if id == logBucket {
		bucket.FillPercent = 1 // it is only appended to
	}
	for n := t.lists[id].first[0].Load(); n != nil; n = n.next[0].Load() {
		var err error
		switch v := n.newest.Load(); {
		case v == nil:
		case v.value == nil:
			err = bucket.Delete(n.key)
		default:
			err = bucket.Put(n.key, v.value)
		}
		if err != nil {
			return fmt.Errorf("row %q of %s: %w", n.key, bucketNames[id], err)
		}
	}
	return nil
}

// updateFile commits to bbolt's file, one caller at a time.
//
// A sync that fails may leave bbolt's newest meta page in the system's memory and never on the
// disk, as far as the system remembers. bbolt would then use pages anew that the one on the disk
// needs. So before the first commit, and after one that failed, the meta pages are written again,
// as they are, and synced.
func (db *DB) updateFile(fn func(*bolt.Tx) error) (err error) {
	defer db.catchCorruption(&err)
	if db.unsynced {
		metas := make([]byte, 2*db.bolt.Info().PageSize)
		if _, err := db.file.ReadAt(metas, 0); err != nil {
			return err
		}
		if _, err := db.file.WriteAt(metas, 0); err != nil {
			return err
		}
		if err := db.disk.sync(db.file); err != nil {
			return err
		}
	}
	db.unsynced = true
	if err := db.disk.update(db.bolt, fn); err != nil {
		return err
	}
	db.unsynced = false
	return nil
}

// settle puts all that is committed into bbolt's file, and returns when it is there.
func (db *DB) settle() error {
	if db.running != nil {
		<-db.running.done
		db.running = nil
	}
	if db.levels.Load().frozen != nil {
		if err := db.putFrozen(); err != nil {
			return err
		}
	}
	if db.levels.Load().live.empty() {
		return nil
	}
	db.freeze()
	return db.putFrozen()
}

// ReleaseMemory gives back the memory that the database does not need, for a process that has rest:
// the rows in memory go to the file, and the system takes back the file's pages that were read.
func (db *DB) ReleaseMemory() error {
	db.rest()
	defer db.resume()
	if db.isClosing() {
		return ErrClosed
	}
	if db.wal != nil && !db.wal.remains {
		if err := db.settle(); err != nil {
			return unready(db.path, err)
		}
		db.alternate()
	}
	return db.releasePages()
}

func (t *table) empty() bool {
	for id := range t.lists {
		if t.lists[id].first[0].Load() != nil {
			return false
		}
	}
	return true
}

// beginLog begins an epoch, before the first update of the process. What the last one left in its
// log is put into bbolt's file and removed before.
func (db *DB) beginLog() error {
	if err := db.settle(); err != nil {
		return err
	}
	if err := errors.Join(removeWAL(db.dir), syncDirs(db.dir)); err != nil {
		return err
	}
	var epoch [8]byte
	if _, err := rand.Read(epoch[:]); err != nil {
		return err
	}
	err := db.updateFile(func(b *bolt.Tx) error { return b.Bucket(bucketNames[metaBucket]).Put(epochKey, epoch[:]) })
	if err != nil {
		return err
	}
	db.wal, err = newWAL(db.dir, db.disk, binary.BigEndian.Uint64(epoch[:]), db.committed.Load()+1)
	db.due = db.disk.checkpointAt
	return err
}

// finish makes bbolt's file all that there is.
func (db *DB) finish() error {
	err := db.settle()
	if db.wal != nil {
		err = errors.Join(err, db.wal.close())
	}
	if err != nil {
		return err
	}
	return removeWAL(db.dir)
}
