package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// recover reads into memory what the log has beyond bbolt's file. It writes nothing, but a log of
// another database is put aside.
func (db *DB) recover() error {
	var epoch uint64
	err := db.bolt.View(func(b *bolt.Tx) error {
		meta := b.Bucket(bucketNames[metaBucket])
		epoch = number(meta.Get(epochKey))
		db.committed.Store(number(meta.Get(committedKey)))
		return nil
	})
	if err != nil {
		return err
	}
	var newer []walRecord
	for _, name := range walNames {
		path := filepath.Join(db.dir, name)
		records, err := readWAL(path)
		if err != nil {
			return dirError(db.dir, path, err)
		}
		// Beside records of this epoch, what looks like one of another is a part of what a record
		// has held that was cut off.
		own := slices.DeleteFunc(slices.Clone(records), func(r walRecord) bool { return r.epoch != epoch })
		if len(own) == 0 && len(records) > 0 {
			if err := db.setAside(path); err != nil {
				return err
			}
		}
		newer = append(newer, slices.DeleteFunc(own,
			func(r walRecord) bool { return r.commit <= db.committed.Load() })...)
	}
	slices.SortFunc(newer, func(a, b walRecord) int { return cmp.Compare(a.commit, b.commit) })
	if len(newer) > 0 && newer[0].first > db.committed.Load()+1 {
		// The log is of this database, but goes on from a later state of it.
		return errors.Join(db.setAside(filepath.Join(db.dir, walNames[0])),
			db.setAside(filepath.Join(db.dir, walNames[1])))
	}
	return db.replay(newer)
}

// replay reads records, which have to go on from what is committed without a gap. An interrupted
// write leaves none; anything else that is missing before another record is an error.
func (db *DB) replay(records []walRecord) error {
	live := db.levels.Load().live
	for _, r := range records {
		if next := db.committed.Load() + 1; r.commit != next {
			return &CorruptError{Path: r.path, Err: fmt.Errorf("record %d is damaged, and more follow it", next)}
		}
		for rest := r.operations; len(rest) > 0; {
			var o operation
			var err error
			if o, rest, err = parseOperation(rest); err != nil {
				return &CorruptError{Path: r.path, Err: fmt.Errorf("record %d: %w", r.commit, err)}
			}
			live.lists[o.bucket].add(o.key).put(r.commit, o.value)
		}
		db.committed.Store(r.commit)
	}
	if len(records) > 0 {
		db.logger.Info("changes read from the write-ahead log", "path", db.dir, "transactions", len(records))
	}
	return nil
}

// setAside gives a file of the log another name that belongs to a database that is no longer here.
// What it holds may be all that is left of it.
func (db *DB) setAside(path string) error {
	aside := fmt.Sprintf("%s.%s", path, db.clock.Now().UTC().Format("20060102T150405Z"))
	if err := os.Rename(path, aside); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return &DirError{Dir: db.dir, Err: err}
	}
	db.logger.Warn("the write-ahead log does not belong to this database, which was put back from a copy; its "+
		"changes are not applied, and it is kept",
		"path", aside, "database", db.path)
	return nil
}
