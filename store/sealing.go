package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	bolt "go.etcd.io/bbolt"

	"landfall/store/seal"
	"landfall/store/wal"
)

// A sealed database contains no value in clear: the values of the data bucket, the history in the
// change log and the blobs are encrypted with the data keys of Options.Keys. Because they are
// encrypted before they are passed to package wal, this is also true of the write-ahead log, of old
// versions and of free pages. Keys, revisions and indexes are not encrypted: they contain
// identifiers, names and times.
//
// The context of a sealed row is its key and header, so a value can't be moved to another row or
// replaced by an older one without its header. The context of a history is its revision and the
// beginning of its log entry.

// sealedKey is the key in the meta bucket of the proof that a ring fits: the sealed sealedProof. A
// database without the proof is not sealed.
var sealedKey = []byte("sealed")

const sealedProof = "landfall"

// SealError reports that the database cannot be read with the given data keys.
type SealError struct {
	Path string
	Err  error
}

// Error implements error.
func (e *SealError) Error() string {
	return fmt.Sprintf("the data key does not fit the database %s; restore data.key from the same backup as the "+
		"database; nothing was changed", e.Path)
}

// Unwrap returns the cause.
func (e *SealError) Unwrap() error { return e.Err }

// proof returns the content of sealedKey.
func proof(ring *seal.Ring) ([]byte, error) { return ring.Seal(nil, []byte(sealedProof), sealedKey) }

// checkProof returns a *SealError if a ring does not fit the database.
func (db *DB) checkProof(ring *seal.Ring, stored []byte) error {
	if ring == nil {
		return &SealError{Path: db.path, Err: errors.New("the database is sealed, but there is no data key")}
	}
	if _, err := ring.Open(stored, sealedKey); err != nil {
		return &SealError{Path: db.path, Err: err}
	}
	return nil
}

// rowContext returns the context of a sealed row: its key and header.
func rowContext(to []byte, key string, row []byte) []byte {
	return append(append(to, key...), row[:recordHeader]...)
}

// sealRow returns a complete row with a sealed value. The row itself stays unchanged.
func sealRow(ring *seal.Ring, key string, row []byte) ([]byte, error) {
	if ring == nil {
		return row, nil
	}
	var space [256]byte
	sealed := append(make([]byte, 0, len(row)+seal.Overhead), row[:recordHeader]...)
	return ring.Seal(sealed, row[recordHeader:], rowContext(space[:0], key, row))
}

// open returns the record with its clear value.
func (tx *Tx) open(key string, row []byte, r record) (record, error) {
	if tx.db.ring == nil {
		return r, nil
	}
	var space [256]byte
	var err error
	if r.value, err = tx.db.ring.OpenTo(tx.opened, r.value, rowContext(space[:0], key, row)); err != nil {
		return record{}, tx.db.damaged(key, err)
	}
	if tx.opened != nil {
		tx.opened = r.value
	}
	return r, nil
}

// historyContext returns the context of the history in a log entry: the entry's key, and the entry
// up to the history.
func historyContext(to []byte, key string, head []byte) []byte {
	return append(append(to, key...), head...)
}

// sealHistory seals the history that begins at an offset of a log entry.
func sealHistory(ring *seal.Ring, key string, entry []byte, at int) ([]byte, error) {
	if ring == nil || at == len(entry) {
		return entry, nil
	}
	var space [256]byte
	sealed := append(make([]byte, 0, len(entry)+seal.Overhead), entry[:at]...)
	return ring.Seal(sealed, entry[at:], historyContext(space[:0], key, entry[:at]))
}

// openHistory returns a log entry with its history in clear.
func openHistory(ring *seal.Ring, key, entry []byte) ([]byte, error) {
	at, err := historyOffset(entry)
	if ring == nil || err != nil || at == len(entry) {
		return entry, err
	}
	var space [256]byte
	clear, err := ring.Open(entry[at:], historyContext(space[:0], string(key), entry[:at]))
	if err != nil {
		return nil, err
	}
	return append(entry[:at:at], clear...), nil
}

// historyOffset returns the offset of the history in a log entry.
func historyOffset(entry []byte) (int, error) {
	if len(entry) < 2 {
		return 0, errors.New("the log entry is too short")
	}
	length, n := binary.Uvarint(entry[1:])
	if n <= 0 || length > uint64(len(entry)-1-n) {
		return 0, errors.New("the log entry's key is truncated")
	}
	return 1 + n + int(length), nil
}

// sealFile replaces an unsealed database by a sealed copy, so that no clear value remains in the
// file. An interrupted call leaves the old database. The directory is locked, and the database is
// closed.
func (db *DB) sealFile(options Options) error {
	db.logger.Info("The database is being sealed with the data key.", "path", db.path)
	if err := db.checkpointLog(options); err != nil {
		return err
	}
	if err := db.blobs.SealAll(); err != nil {
		return &WriteError{Path: db.blobs.Root(), Err: err}
	}
	from, err := wal.OpenFile(db.path, true)
	if err != nil {
		return db.openError(err)
	}
	temporary := db.path + ".new"
	if err := errors.Join(copySealed(db.ring, from, temporary, options.disk.Growth), from.Close()); err != nil {
		return &WriteError{Path: temporary, Err: errors.Join(err, os.Remove(temporary))}
	}
	if err := os.Rename(temporary, db.path); err != nil {
		return &WriteError{Path: db.path, Err: err}
	}
	if err := wal.SyncDirs(db.dir); err != nil {
		return err
	}
	return db.blobs.RemoveClear()
}

// checkpointLog writes the rows of the write-ahead log to the bbolt file and removes the log.
func (db *DB) checkpointLog(options Options) error {
	file, err := wal.OpenFile(db.path, false)
	if err != nil {
		return db.openError(err)
	}
	rows, err := wal.Open(file, wal.Options{Logger: db.logger, Clock: db.clock, Disk: options.disk})
	if err != nil {
		return err
	}
	return rows.Close()
}

// copyBatch is the number of rows that one transaction copies or seals again.
const copyBatch = 1000

// copySealed writes a sealed copy of a bbolt file.
func copySealed(ring *seal.Ring, from wal.File, path string, growth int) (err error) {
	to, err := wal.OpenFile(path, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	to.AllocSize, to.NoSync = growth, true
	err = from.View(func(source *bolt.Tx) error {
		for id, name := range wal.BucketNames {
			if err := copyBucket(ring, wal.Bucket(id), source.Bucket(name), to); err != nil {
				return fmt.Errorf("seal the bucket %s: %w", name, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = to.Update(func(tx *bolt.Tx) error {
		value, err := proof(ring)
		if err != nil {
			return err
		}
		meta := tx.Bucket(wal.BucketNames[wal.Meta])
		return errors.Join(meta.Put(sealedKey, value),
			meta.Put(schemaKey, binary.BigEndian.AppendUint64(nil, schema)))
	})
	return errors.Join(err, to.Sync())
}

func copyBucket(ring *seal.Ring, id wal.Bucket, from *bolt.Bucket, to wal.File) error {
	cursor := from.Cursor()
	key, value := cursor.First()
	for first := true; first || key != nil; first = false {
		err := to.Update(func(tx *bolt.Tx) error {
			bucket, err := tx.CreateBucketIfNotExists(wal.BucketNames[id])
			if err != nil {
				return err
			}
			bucket.FillPercent = 1 // the rows come in the order of their keys
			for n := 0; key != nil && n < copyBatch; n++ {
				if id == wal.Meta && wal.IsDigest(key) { // the first commit computes them again
					key, value = cursor.Next()
					continue
				}
				if value, err = sealStored(ring, nil, id, key, value); err != nil {
					return fmt.Errorf("row %q: %w", key, err)
				}
				if err := bucket.Put(key, value); err != nil {
					return fmt.Errorf("row %q: %w", key, err)
				}
				key, value = cursor.Next()
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// sealStored seals a stored row of any bucket with the newest key of a ring. before is the ring
// that sealed it until now; nil means that the row is in clear.
func sealStored(ring, before *seal.Ring, id wal.Bucket, key, value []byte) ([]byte, error) {
	switch id {
	case wal.Data:
		if len(value) < recordHeader {
			return nil, fmt.Errorf("the row has %d bytes", len(value))
		}
		if before != nil {
			plain, err := before.Open(value[recordHeader:], rowContext(nil, string(key), value))
			if err != nil {
				return nil, err
			}
			value = append(value[:recordHeader:recordHeader], plain...)
		}
		return sealRow(ring, string(key), value)
	case wal.Log:
		value, err := openHistory(before, key, value)
		if err != nil {
			return nil, err
		}
		at, err := historyOffset(value)
		if err != nil {
			return nil, err
		}
		return sealHistory(ring, string(key), value, at)
	}
	return value, nil
}

// rowName names a row of any bucket in errors.
func rowName(id wal.Bucket, key string) string {
	if id == wal.Log {
		return logName([]byte(key))
	}
	return key
}

// sealedPart returns the sealed part of a stored row, or nil if it has none.
func sealedPart(id wal.Bucket, value []byte) []byte {
	at := recordHeader
	if id == wal.Log {
		var err error
		if at, err = historyOffset(value); err != nil {
			return nil
		}
	}
	if at >= len(value) {
		return nil
	}
	return value[at:]
}

// Reseal seals all values again that were not sealed with the newest data key. It uses small
// transactions, so that other updates can run in between. If it is interrupted, the next call
// continues. Afterwards, a new start of the database needs no older key. A follower seals the
// contents of files only.
func (db *DB) Reseal(ctx context.Context) error {
	if db.ring == nil {
		return nil
	}
	if db.follows { // the leader's records contain the rows
		return db.resealBlobs(ctx)
	}
	// The updates that run now may use the previous key. They are committed before this one.
	if err := db.Update(ctx, func(tx *Tx) error {
		value, err := proof(db.ring)
		if err != nil {
			return err
		}
		return tx.set(wal.Meta, string(sealedKey), value)
	}); err != nil {
		return fmt.Errorf("seal the database with the new data key: %w", err)
	}
	for _, id := range []wal.Bucket{wal.Data, wal.Log} {
		var after []byte
		for more := true; more; {
			var err error
			if after, more, err = db.resealBatch(ctx, id, after); err != nil {
				return fmt.Errorf("seal the database with the new data key: %w", err)
			}
		}
	}
	if err := db.resealBlobs(ctx); err != nil {
		return err
	}
	// Open reads the proof from the bbolt file.
	if err := db.rows.Checkpoint(); err != nil {
		return fmt.Errorf("seal the database with the new data key: %w", err)
	}
	return nil
}

func (db *DB) resealBlobs(ctx context.Context) error {
	if err := db.blobs.Reseal(ctx); err != nil {
		return fmt.Errorf("seal the files with the new data key: %w", err)
	}
	return nil
}

// resealBatch seals rows after a key again. It returns the key to continue after.
func (db *DB) resealBatch(ctx context.Context, id wal.Bucket, after []byte) (last []byte, more bool, err error) {
	current := db.ring.Current()
	stale := func(value []byte) bool {
		sealed := sealedPart(id, value)
		number, err := seal.Number(sealed)
		return sealed != nil && (err != nil || number != current)
	}
	var found []string
	err = db.View(func(tx *Tx) error {
		cursor := tx.rows.Cursor(id)
		key, value := cursor.Seek(append(append([]byte{}, after...), 0))
		for ; key != nil && len(found) < copyBatch; key, value = cursor.Next() {
			if last = append(last[:0], key...); stale(value) {
				found = append(found, string(key))
			}
		}
		more = key != nil
		return nil
	})
	if err != nil || len(found) == 0 {
		return last, more, err
	}
	return last, more, db.Update(ctx, func(tx *Tx) error {
		for _, key := range found {
			value := tx.rows.Get(id, []byte(key))
			if value == nil || !stale(value) {
				continue
			}
			sealed, err := sealStored(db.ring, db.ring, id, []byte(key), value)
			if err != nil {
				// No key opens the row, so the older key is not needed for it.
				_ = tx.db.damaged(rowName(id, key), err)
				continue
			}
			if err := tx.set(id, key, sealed); err != nil {
				return err
			}
		}
		return nil
	})
}
