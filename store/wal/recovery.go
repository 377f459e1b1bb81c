package wal

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// recover reads the records that are newer than the bbolt file into the active memtable. It writes
// nothing, but renames a log of another database.
func (db *DB) recover() error {
	var epoch uint64
	err := db.file.View(func(b *bolt.Tx) error {
		meta := b.Bucket(BucketNames[Meta])
		epoch = parseNumber(meta.Get(epochKey))
		db.committed.Store(parseNumber(meta.Get(committedKey)))
		return nil
	})
	if err != nil {
		return err
	}
	var newer []record
	for _, name := range FileNames {
		path := filepath.Join(db.dir, name)
		records, err := readLog(path)
		if err != nil {
			return NewDirError(db.dir, path, err)
		}
		// If the log has records of this epoch, a record of another epoch is part of an older
		// record that was partly overwritten.
		own := slices.DeleteFunc(slices.Clone(records), func(r record) bool { return r.epoch != epoch })
		if len(own) == 0 && len(records) > 0 {
			if err := db.setAside(path); err != nil {
				return err
			}
		}
		newer = append(newer, slices.DeleteFunc(own,
			func(r record) bool { return r.commit <= db.committed.Load() })...)
	}
	slices.SortFunc(newer, func(a, b record) int { return cmp.Compare(a.commit, b.commit) })
	if len(newer) > 0 && newer[0].firstCommit > db.committed.Load()+1 {
		// The log belongs to this database, but starts after a commit that the bbolt file does not
		// have.
		return errors.Join(db.setAside(filepath.Join(db.dir, FileNames[0])),
			db.setAside(filepath.Join(db.dir, FileNames[1])))
	}
	return db.replay(newer)
}

// parseNumber parses a number of the Meta bucket. It returns 0 if the number was never written.
func parseNumber(value []byte) uint64 {
	if len(value) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(value)
}

// replay reads records into the active memtable. The records must continue the committed state
// without a gap. An interrupted write affects only the last record, so a gap means that the log is
// damaged.
func (db *DB) replay(records []record) error {
	active := db.memtables.Load().active
	for _, r := range records {
		if next := db.committed.Load() + 1; r.commit != next {
			return &CorruptError{Path: r.path, Err: fmt.Errorf("record %d is damaged, but later records exist", next)}
		}
		for rest := r.operations; len(rest) > 0; {
			var o operation
			var err error
			if o, rest, err = parseOperation(rest); err != nil {
				return &CorruptError{Path: r.path, Err: fmt.Errorf("record %d: %w", r.commit, err)}
			}
			active.lists[o.bucket].insert(o.key).put(r.commit, o.value)
		}
		db.committed.Store(r.commit)
	}
	if len(records) > 0 {
		db.logger.Info("Changes read from the write-ahead log.", "path", db.dir, "transactions", len(records))
	}
	return nil
}

// setAside renames a log file of another database. The log may contain the only copy of that
// database's changes.
func (db *DB) setAside(path string) error {
	aside := fmt.Sprintf("%s.%s", path, db.clock.Now().UTC().Format("20060102T150405Z"))
	if err := os.Rename(path, aside); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return &DirError{Dir: db.dir, Err: err}
	}
	db.logger.Warn("The write-ahead log does not belong to this database, which was restored from a copy; its "+
		"changes are not applied, and the log is kept under another name.",
		"path", aside, "database", db.path)
	return nil
}
