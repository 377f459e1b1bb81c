package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	bolt "go.etcd.io/bbolt"
)

// How a change becomes safe. An update's rows are written to the log and synced (wal.go); then bbolt commits them without a sync of its own, and
// readers see them. What of bbolt's file reaches the disk, and in which order, is up to the system then, so a power cut may leave any mixture of old
// and new pages. What it can't touch is the newest checkpoint: a state of the file that was synced as a whole. bbolt never writes over a page in
// use; and a page that the checkpoint uses counts as used until the next one, because a view of it is kept open (DB.pin). Only its meta page is
// written over, so the log's header holds a copy. A start after anything but Close puts that meta page back and replays the log.
//
// bbolt's list of free pages is written at checkpoints only.

// boltLimit is the size in bytes from which on bbolt's file takes no updates: it must not outgrow its mapping (mapSize), since mapping it anew
// would wait for the view that is kept open.
const boltLimit = mapSize - 256<<20

// disk is how files are written.
type disk struct {
	sync         func(*os.File) error // waits until what was written is on the disk
	checkpointAt int64                // the size of the log at which a checkpoint is made, bytes
	growth       int                  // the step by which bbolt's file grows, bytes
	ahead        int                  // how much of the log is written with zeros ahead of the records, bytes
}

func realDisk() disk {
	return disk{sync: datasync, checkpointAt: 4 << 20, growth: 4 << 20, ahead: 1 << 20}
}

// recovery is what a start finds in the log.
type recovery struct {
	records [][]byte // to be replayed
	foreign bool     // they belong to another file
}

// recover reads the log before bbolt opens its file, and puts the file into the state that the log goes on from.
func (db *DB) recover() (found recovery, err error) {
	generation, from, err := db.wal.head()
	if err != nil || from == nil {
		return recovery{}, err
	}
	found.records, err = db.wal.records(generation)
	if err != nil {
		return recovery{}, &CorruptError{Path: db.wal.file.Name(), Err: err}
	}
	if len(found.records) == 0 {
		return recovery{}, nil
	}
	file, err := os.OpenFile(db.path, os.O_RDWR, 0)
	if err != nil {
		return recovery{}, db.openError(err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if found.foreign = !from.isIn(file); found.foreign {
		return found, nil
	}
	return found, from.restore(file)
}

// complete brings bbolt's file, now open, to where the log ends.
func (db *DB) complete(found recovery) error {
	switch {
	case found.foreign:
		return db.setAside()
	case len(found.records) == 0:
		return nil
	}
	var err error
	if db.pin, err = db.bolt.Begin(false); err != nil {
		return err
	}
	if err := db.replay(found.records); err != nil {
		return err
	}
	db.logger.Info("changes replayed from the write-ahead log", "path", db.wal.file.Name(), "transactions", len(found.records))
	return db.checkpoint()
}

// replay makes the changes of the log's records once more.
func (db *DB) replay(records [][]byte) error {
	return db.transact(func(b *bolt.Tx) error {
		tx := newTx(db, b)
		for i, operations := range records {
			for len(operations) > 0 {
				o, rest, err := parseOperation(operations)
				if err != nil {
					return &CorruptError{Path: db.wal.file.Name(), Err: fmt.Errorf("record %d: %w", i, err)}
				}
				if o.put {
					err = tx.bucket(o.bucket).Put(o.key, o.value)
				} else {
					err = tx.bucket(o.bucket).Delete(o.key)
				}
				if err != nil {
					return fmt.Errorf("replay record %d: %w", i, err)
				}
				operations = rest
			}
		}
		return nil
	})
}

// setAside gives a log another name that belongs to a file that is no longer here, and begins an empty one. What it holds may be all that is left of it.
func (db *DB) setAside() error {
	path := db.wal.file.Name()
	aside := fmt.Sprintf("%s.%s", path, db.clock.Now().UTC().Format("20060102T150405Z"))
	if err := errors.Join(db.wal.file.Close(), os.Rename(path, aside)); err != nil {
		return err
	}
	db.logger.Warn("the write-ahead log does not belong to this database, which was put back from a copy; its changes are not applied, and it is kept",
		"path", aside, "database", db.path)
	var err error
	db.wal, err = openWAL(path, db.disk)
	return err
}

// ahead writes what the transaction is about to commit to the log and waits until it is on the disk.
func (db *DB) ahead(tx *Tx) error {
	if db.broken != nil {
		return db.broken
	}
	if used := tx.bolt.Size(); used > boltLimit {
		return fmt.Errorf("the database has reached its limit of %d MiB", boltLimit>>20)
	}
	if db.pin == nil {
		// The first update since the start; the file may be a copy that nobody has synced.
		if err := errors.Join(db.disk.sync(db.file), syncDirs(db.dir)); err != nil {
			return db.fail(err)
		}
		if err := db.base(); err != nil {
			return err
		}
	}
	return db.wal.append(tx.appendOperations)
}

// appendOperations appends what the transaction has changed, each row once and as it is now.
func (tx *Tx) appendOperations(to []byte) []byte {
	type row struct {
		bucket bucketID
		key    string
	}
	written := make(map[row]bool, len(tx.undo))
	for _, p := range tx.undo {
		if written[row{p.bucket, p.key}] {
			continue
		}
		written[row{p.bucket, p.key}] = true
		key := tx.join(p.key, "")
		if value := tx.bucket(p.bucket).Get(key); value != nil {
			to = appendPut(to, p.bucket, key, value)
		} else {
			to = appendRemove(to, p.bucket, key)
		}
	}
	if tx.rev != tx.start {
		to = appendPut(to, metaBucket, revisionKey, binary.BigEndian.AppendUint64(nil, tx.rev))
	}
	return to
}

// base has the log begin a generation at the state that bbolt's file has, which must be on the disk, and keeps the pages of that state from being
// written over.
func (db *DB) base() error {
	pin, err := db.bolt.Begin(false)
	if err != nil {
		return err
	}
	from, err := readBase(db.file, db.bolt.Info().PageSize, pin.ID())
	if err == nil {
		err = db.wal.begin(db.wal.generation+1, from)
	}
	if err != nil {
		return errors.Join(err, pin.Rollback())
	}
	return db.swapPin(pin)
}

func (db *DB) swapPin(pin *bolt.Tx) error {
	old := db.pin
	db.pin = pin
	if old == nil {
		return nil
	}
	return old.Rollback()
}

// checkpoint makes bbolt's file safe as it is and has the log begin anew. The caller holds the turn. After a failure to
// sync the database takes no more updates: what is on the disk isn't known then, but for the checkpoint before and the log, from which the next start
// goes on.
func (db *DB) checkpoint() error {
	db.bolt.NoFreelistSync = false
	err := db.transact(func(*bolt.Tx) error { return nil })
	db.bolt.NoFreelistSync = true
	if err != nil {
		return fmt.Errorf("write the list of free pages: %w", err) // a full disk, perhaps: nothing has changed
	}
	if err = db.disk.sync(db.file); err == nil {
		err = db.base()
	}
	if err != nil {
		return db.fail(err)
	}
	return nil
}

// fail has the database take no more updates.
func (db *DB) fail(err error) error {
	db.broken = fmt.Errorf("the disk failed at a checkpoint; start Landfall again when it is in order: %w", err)
	return db.broken
}

// keep makes a checkpoint whenever the log has become long, until the database closes.
func (db *DB) keep() {
	defer close(db.kept)
	for {
		select {
		case <-db.closing:
			return
		case <-db.long:
		}
		// Most of the pages reach the disk while updates go on; those that wait for the turn then wait for the rest only.
		err := db.disk.sync(db.file)
		select {
		case <-db.closing:
			return
		case db.turn <- struct{}{}:
		}
		switch {
		case db.broken != nil:
			err = nil // it was said; that the next sync goes well doesn't bring back what the one that failed has lost
		case err == nil:
			err = db.checkpoint()
		default:
			err = db.fail(err)
		}
		if err != nil {
			db.logger.Error("checkpoint failed", "path", db.path, "error", err)
		}
		<-db.turn
	}
}

// grown is told after each commit.
func (db *DB) grown() {
	if db.wal.end < db.disk.checkpointAt {
		return
	}
	select {
	case db.long <- struct{}{}:
	default: // being seen to
	}
}

// finish makes the last checkpoint and removes the log, of which nothing is needed then.
func (db *DB) finish() error {
	if db.wal == nil {
		return nil
	}
	err := db.broken
	if err == nil && db.pin != nil && db.wal.sequence > 0 {
		err = db.checkpoint()
	}
	err = errors.Join(err, db.swapPin(nil), db.wal.file.Close())
	if err != nil {
		return err
	}
	return os.Remove(db.wal.file.Name())
}
