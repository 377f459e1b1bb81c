package wal

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

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
		number, _, _ := parseSequenceRow(meta.Get(sequenceKey))
		db.syncedSequence.Store(number)
		return nil
	})
	if err != nil {
		return err
	}
	var newer, broken []record
	for _, name := range FileNames {
		path := filepath.Join(db.dir, name)
		records, incomplete, err := readLog(path)
		if err != nil {
			return NewDirError(db.dir, path, err)
		}
		broken = append(broken, slices.DeleteFunc(incomplete, func(r record) bool { return r.epoch != epoch })...)
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
	if len(newer) > 0 && newer[0].firstCommit > db.committed.Load()+1 && !db.shares() {
		// The log belongs to this database, but starts after a commit that the bbolt file does not
		// have.
		return errors.Join(db.setAside(filepath.Join(db.dir, FileNames[0])),
			db.setAside(filepath.Join(db.dir, FileNames[1])), db.compareAcknowledged(epoch, nil))
	}
	if err := db.replay(newer); err != nil || db.shares() {
		return err // the shared log has what is missing
	}
	return db.compareAcknowledged(epoch, broken)
}

// compareAcknowledged finds acknowledged commits that neither the bbolt file nor the log has. It
// keeps a damaged log under another name, because the first update would overwrite it.
func (db *DB) compareAcknowledged(epoch uint64, broken []record) error {
	newest := db.committed.Load()
	noted, ok, err := readAcknowledged(db.dir)
	if err != nil {
		return &DirError{Dir: db.dir, Err: err}
	}
	if ok && noted.commit > newest {
		db.lost = append(db.lost, fmt.Sprintf("the changes of %d transactions, which were acknowledged, are missing: "+
			"the database ends with transaction %d, and transaction %d was acknowledged", noted.commit-newest, newest,
			noted.commit))
	}
	interrupted := slices.ContainsFunc(broken, func(r record) bool { return r.commit == newest+1 })
	switch {
	case len(db.lost) > 0:
		return db.keepLog(damagedSuffix)
	case interrupted && ok && noted.epoch == epoch && noted.boot != 0 && noted.boot == bootHash():
		db.logger.Info("The last record of the write-ahead log is incomplete. Its transaction was never acknowledged.",
			"path", db.dir, "transaction", newest+1)
	case interrupted:
		db.logger.Warn("The last record of the write-ahead log is incomplete or damaged, and its transaction is lost. "+
			"The machine stopped while the record was written, or the disk damaged it later.",
			"path", db.dir, "transaction", newest+1)
		return db.keepLog(incompleteSuffix)
	}
	return nil
}

const (
	// damagedSuffix begins the suffix of copies of a log without acknowledged changes. They stay.
	damagedSuffix = ".damaged-"
	// incompleteSuffix begins the suffix of copies of a log whose last record is incomplete, as
	// each power cut may leave it. The newest ones stay.
	incompleteSuffix = ".incomplete-"
	incompleteLimit  = 4
)

// keepLog copies the files of the log under other names.
func (db *DB) keepLog(suffix string) error {
	for _, name := range FileNames {
		if err := db.keepLogFile(name, suffix); err != nil {
			return NewDirError(db.dir, filepath.Join(db.dir, name), err)
		}
	}
	return SyncDirs(db.dir)
}

// keepLogFile copies a file, unless the newest copy is equal: until the first update, each start
// finds the same log.
func (db *DB) keepLogFile(name, suffix string) error {
	content, err := os.ReadFile(filepath.Join(db.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(db.dir)
	if err != nil {
		return err
	}
	var copies []string // the oldest first
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), name+suffix) {
			copies = append(copies, filepath.Join(db.dir, entry.Name()))
		}
	}
	if len(copies) > 0 {
		newest, err := os.ReadFile(copies[len(copies)-1])
		if err != nil || bytes.Equal(newest, content) {
			return err
		}
	}
	for suffix == incompleteSuffix && len(copies) >= incompleteLimit {
		if err := os.Remove(copies[0]); err != nil {
			return err
		}
		copies = copies[1:]
	}
	return writeSynced(filepath.Join(db.dir, name+suffix+db.clock.Now().UTC().Format("20060102T150405Z")), content)
}

func writeSynced(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Sync(), file.Close())
}

// Lost describes acknowledged changes that recovery did not find.
func (db *DB) Lost() []string { return db.lost }

// CheckLog reads the log of a closed database. row gets each row of the records; a nil value means
// that the row was deleted. It returns what is damaged, as sentences.
func CheckLog(dir string, row func(bucket Bucket, key, value []byte)) (problems []string, err error) {
	newest := uint64(0)
	for _, name := range FileNames {
		records, broken, err := readLog(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			newest = max(newest, r.commit)
		}
		for _, r := range broken {
			if r.commit == newest+1 {
				problems = append(problems,
					fmt.Sprintf("the record of transaction %d is incomplete or damaged", r.commit))
			}
		}
		for _, r := range records {
			for rest := r.operations; len(rest) > 0; {
				var o operation
				if o, rest, err = parseOperation(rest); err != nil {
					break // the checksum fits, so an older program wrote it
				}
				row(o.bucket, o.key, o.value)
			}
		}
	}
	return problems, nil
}

// parseNumber parses a number of the Meta bucket. It returns 0 if the number was never written.
func parseNumber(value []byte) uint64 {
	if len(value) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(value)
}

// replay reads records into the active memtable. An interrupted write affects only the last record,
// so a gap means that the log is damaged. The later records are read nevertheless: each contains
// complete rows.
func (db *DB) replay(records []record) error {
	active := db.memtables.Load().active
	for _, r := range records {
		switch next := db.committed.Load() + 1; {
		case r.commit < next:
			continue
		case r.commit > next && db.shares():
			db.logger.Info("The write-ahead log has a gap. The later changes are in the shared log.", "path", db.dir,
				"transaction", next)
			return nil
		case r.commit > next:
			db.lost = append(db.lost, fmt.Sprintf("the changes of the transactions %d to %d are missing: their "+
				"records in %s are damaged, and later records are whole", next, r.commit-1, r.path))
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
