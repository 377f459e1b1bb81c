package store

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	bolt "go.etcd.io/bbolt"

	"landfall/store/wal"
)

// The start reads all pages of the bbolt file and compares the rows with their digests, before
// bbolt opens the file. Damaged pages are left behind: a new file gets all rows that can be read,
// and the damaged file is kept under another name. What was found is also written to the file
// DamageFileName, so that later starts show it until a person has repaired the data.

// DamageFileName is the name of the file with the damage that starts found, as JSON lines.
const DamageFileName = "damage.jsonl"

// found is what the start found in the bbolt file.
type found struct {
	*wal.Verification
	schema   uint64 // in the meta bucket
	revision uint64 // in the meta bucket
	newest   uint64 // revision of the newest change in the change log or in a row
	rows     bool   // the buckets belong to a database of Landfall
	sample   sample
}

// sample is one row of the data bucket.
type sample struct{ key, row []byte }

// verifyFile reads the bbolt file. It writes nothing.
func (db *DB) verifyFile() (*found, error) {
	f := new(found)
	v, err := wal.Verify(db.path, func(bucket wal.Bucket, key, value []byte) error {
		switch {
		case bucket == wal.Meta:
			f.rows = true
			switch {
			case bytes.Equal(key, schemaKey):
				f.schema = parseNumber(value)
			case bytes.Equal(key, revisionKey):
				f.revision = parseNumber(value)
			}
		case bucket == wal.Log && len(key) == 8:
			f.newest = max(f.newest, binary.BigEndian.Uint64(key))
		case bucket == wal.Data && f.sample.key == nil && len(value) > recordHeader:
			f.sample = sample{bytes.Clone(key), bytes.Clone(value)}
		}
		return nil
	})
	f.Verification = v
	return f, err
}

// damagedSuffix and the time follow the name of the database in the name of a damaged file.
const damagedSuffix = ".damaged-"

// lostFile returns an error if the database is missing, although the directory had one: an empty
// database would cost the files of the former one. An earlier program could be killed between the
// two renames of a repair.
func (db *DB) lostFile() error {
	entries, err := os.ReadDir(filepath.Dir(db.path))
	if err != nil {
		return &DirError{Dir: filepath.Dir(db.path), Err: err}
	}
	kept := ""
	for _, entry := range entries { // ordered by name
		if strings.HasPrefix(entry.Name(), filepath.Base(db.path)+damagedSuffix) {
			kept = entry.Name()
		}
	}
	if kept == "" {
		return nil
	}
	reason := "it is missing, and " + kept + " is a former one"
	if _, err := os.Lstat(db.path + ".new"); err == nil {
		reason += fmt.Sprintf("; if a repair was interrupted, %s.new has its readable rows: rename it to %s", FileName,
			FileName)
	}
	return &CorruptError{Path: db.path, Err: errors.New(reason)}
}

// impossibleSchema is a number that no version of Landfall will write.
const impossibleSchema = 1 << 16

// newer reports whether a newer program wrote the file.
func (f *found) newer() bool { return f.schema > schema && f.schema < impossibleSchema }

// mostLost reports whether so many rows can't be read that an appliance should not start with the
// rest: it would take everything that is missing for deleted.
func (f *found) mostLost() bool {
	const toleratedPages = 4
	if !f.Digested {
		return len(f.Problems) > toleratedPages
	}
	return len(f.Problems) > 0 && f.Rows < f.Expected-f.Expected/10
}

// recoverFile makes a database usable whose pages or numbers are damaged. A file that was cut off,
// or that is not a database of Landfall, stays as it is: its start ends with an error.
func (db *DB) recoverFile(growth int) (*found, error) {
	f, err := db.verifyFile()
	if err != nil || f.Whole() || !f.rows || f.newer() || !db.salvage && db.cutOff(f) {
		return f, nil // probe returns the error
	}
	if db.shared {
		return nil, &DamagedCopyError{Path: db.path, Reason: shorten(f.describe())}
	}
	if f.mostLost() && !db.salvage {
		return nil, &CorruptError{Path: db.path, Err: fmt.Errorf("%d of %d rows can be read, and %s: landfall check "+
			"describes the damage, and landfall check --salvage copies what can be read", f.Rows, f.Expected,
			shorten(f.Problems[0].String()))}
	}
	if len(f.Problems) > 0 {
		aside := db.path + damagedSuffix + db.clock.Now().UTC().Format("20060102T150405Z")
		if err := wal.Rebuild(db.path, aside, growth); err != nil {
			return nil, &WriteError{Path: db.path, Err: err}
		}
		reasons := make([]string, 0, len(f.Problems))
		for _, problem := range f.Problems {
			reasons = append(reasons, problem.String())
		}
		db.record(Damage{Key: filepath.Base(aside), Reason: "pages of the database were damaged; it was written anew " +
			"with all rows that could be read, and the damaged file is kept under this name: " +
			shorten(strings.Join(reasons, "; "))})
	}
	return f, db.repairNumbers(f)
}

const reasonLimit = 2000

func shorten(text string) string {
	if len(text) > reasonLimit {
		return text[:reasonLimit] + " ..."
	}
	return text
}

// describe names the first damage.
func (f *found) describe() string {
	switch {
	case len(f.Problems) > 0:
		return f.Problems[0].String()
	case f.Meta:
		return "its numbers differ from their checksum"
	}
	return fmt.Sprintf("the rows %q differ from those that were written last", f.Groups[0].Name)
}

func (db *DB) cutOff(f *found) bool {
	info, err := os.Stat(db.path)
	return err != nil || info.Size() < int64(f.Pages)*int64(f.PageSize)
}

// repairNumbers corrects the numbers of the meta bucket by the rows and the log, and the digests by
// the rows that are left.
func (db *DB) repairNumbers(f *found) error {
	if f.Meta {
		db.record(Damage{Key: FileName + " (numbers)", Reason: "the numbers of the database were damaged and were " +
			"derived from its rows and its log"})
	}
	err := wal.Repair(db.path, f.Meta, func(meta *bolt.Bucket) error {
		if !f.Meta && f.newest <= f.revision {
			return nil
		}
		revision := f.newest
		if !f.Meta {
			revision = max(revision, f.revision)
		}
		if err := meta.Put(schemaKey, binary.BigEndian.AppendUint64(nil, schemaAfter(f))); err != nil {
			return err
		}
		if compacted := parseNumber(meta.Get(compactedKey)); compacted > revision {
			if err := meta.Put(compactedKey, binary.BigEndian.AppendUint64(nil, revision)); err != nil {
				return err
			}
		}
		return meta.Put(revisionKey, binary.BigEndian.AppendUint64(nil, revision))
	})
	if err != nil {
		return &WriteError{Path: db.path, Err: err}
	}
	return nil
}

// schemaAfter returns the schema of a file with repaired numbers.
func schemaAfter(f *found) uint64 {
	if f.schema == 0 || f.schema > schema {
		return schema
	}
	return f.schema
}

// repairProof writes the proof of a ring that opens a row, if the proof itself is damaged. It
// reports whether the ring fits.
func (db *DB) repairProof(f *found) (fits bool, err error) {
	if db.ring == nil || f == nil || !f.Meta || f.sample.key == nil {
		return false, nil
	}
	row := f.sample.row
	if _, err := db.ring.Open(row[recordHeader:], rowContext(nil, string(f.sample.key), row)); err != nil {
		return false, nil
	}
	value, err := proof(db.ring)
	if err != nil {
		return false, err
	}
	err = wal.Repair(db.path, false, func(meta *bolt.Bucket) error { return meta.Put(sealedKey, value) })
	if err != nil {
		return false, &WriteError{Path: db.path, Err: err}
	}
	return true, nil
}

// noteFound notes the rows and the changes that the verification or the recovery found missing or
// changed, and returns the indexes that must be derived again.
func (db *DB) noteFound(ctx context.Context, f *found) (stale []string, err error) {
	for _, lost := range db.rows.Lost() {
		db.record(Damage{Key: "write-ahead log", Reason: lost})
	}
	if f == nil || f.Verification == nil || !f.Digested {
		return nil, nil
	}
	for _, group := range f.Groups {
		switch group.Bucket {
		case wal.Index:
			stale = append(stale, group.Name)
			db.logger.Warn("An index was damaged.", "index", group.Name, "database", db.path)
		case wal.Log:
			db.record(Damage{Key: "change log", Reason: "entries are missing or changed, so older states may be wrong"})
			err = errors.Join(err, db.dropLog(ctx))
		case wal.Data:
			before := len(db.Damage())
			err = errors.Join(err, db.View(func(tx *Tx) error {
				return tx.walk(wal.Data, group.Name, func(key string, row []byte) error {
					_, err := tx.parse(key, row)
					return SkipDamaged(err)
				})
			}))
			missing := f.Missing[group]
			switch {
			case missing > 0:
				db.record(Damage{Key: group.Name, Reason: fmt.Sprintf("%d rows are missing", missing)})
			case len(db.Damage()) == before:
				db.record(Damage{Key: group.Name,
					Reason: "rows differ from those that were written last, and may have an older state"})
			}
		}
	}
	return stale, err
}

// dropLog compacts the change log completely, because a damaged one may say that the wrong rows
// changed. Its readers read the present rows.
func (db *DB) dropLog(ctx context.Context) error {
	kept := db.history
	db.history = nil
	defer func() { db.history = kept }()
	return db.Compact(ctx, db.feed.revision())
}

// NoteDamage notes damage that the owner of rows found. Later starts show it until it is repaired.
func (db *DB) NoteDamage(key, reason string) { db.record(Damage{Key: key, Reason: reason}) }

// record notes damage that a later start can't notice again, and writes it to DamageFileName.
func (db *DB) record(found Damage) {
	found.At = db.clock.Now().UTC()
	if !db.damages.replace(found) {
		return
	}
	db.logger.Error("Stored data is damaged.", "what", found.Key, "damage", found.Reason, "database", db.path)
	line, err := json.Marshal(found)
	if err == nil {
		err = appendLine(filepath.Join(db.dir, DamageFileName), line)
	}
	if err != nil {
		db.logger.Warn("The damage could not be written to "+DamageFileName+".", "error", err)
	}
}

func appendLine(path string, line []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Sync(), file.Close())
}

// loadRecorded reads the damage that earlier starts found.
func (db *DB) loadRecorded() error {
	file, err := os.Open(filepath.Join(db.dir, DamageFileName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &DirError{Dir: db.dir, Err: err}
	}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var found Damage
		if json.Unmarshal(lines.Bytes(), &found) == nil {
			db.damages.replace(found)
		}
	}
	return file.Close()
}

// Stale returns the names of the indexes that were damaged when the database was opened. Their
// owners derive them again.
func (db *DB) Stale() []string { return db.stale }
