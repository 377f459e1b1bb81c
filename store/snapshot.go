package store

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"

	bolt "go.etcd.io/bbolt"

	"landfall/store/wal"
)

// Snapshot is the state of the database at one revision, for a backup. Updates go on meanwhile, and
// the contents of files stay on the disk until the snapshot is closed.
type Snapshot struct {
	db    *DB
	tx    *Tx
	close sync.Once
	err   error
}

// StoredRow is a row of any bucket: sealed if the database is sealed.
type StoredRow struct {
	Bucket     byte
	Key, Value []byte
}

// Snapshot takes a snapshot. The caller must close it.
func (db *DB) Snapshot() (*Snapshot, error) {
	db.snapshots.Add(1)
	s := &Snapshot{db: db, tx: &Tx{db: db}}
	if err := db.rows.Begin(&s.tx.rows); err != nil {
		db.snapshots.Add(-1)
		return nil, err
	}
	return s, nil
}

// Close ends the snapshot. Repeated calls have no effect.
func (s *Snapshot) Close() error {
	s.close.Do(func() {
		s.db.snapshots.Add(-1)
		s.err = s.tx.rows.End()
	})
	return s.err
}

// Revision returns the revision of the snapshot.
func (s *Snapshot) Revision() uint64 { return s.tx.Revision() }

// Commit returns the number of the newest commit in the snapshot; see wal.Follower.
func (s *Snapshot) Commit() uint64 { return s.tx.rows.Number() }

// Rows calls fn with each row, in the order of buckets and keys. The rows are valid during the call
// only.
func (s *Snapshot) Rows(ctx context.Context, fn func(StoredRow) error) (err error) {
	defer wal.CatchCorruption(s.db.path, &err)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	for id := range wal.BucketNames {
		bucket := wal.Bucket(id)
		cursor := s.tx.rows.Cursor(bucket)
		for key, value := cursor.Seek(nil); key != nil; key, value = cursor.Next() {
			if err := ctx.Err(); err != nil {
				return err
			}
			if bucket == wal.Meta && wal.IsOfFile(key) {
				continue
			}
			if err := fn(StoredRow{byte(id), key, value}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Contents calls fn with the name below the data directory and the content of each file that a row
// refers to. It notes missing contents as damage, and leaves them out. With a shared log, it
// fetches a missing content from another machine; if none has it, its error is a
// *MissingContentError.
func (s *Snapshot) Contents(ctx context.Context,
	fn func(name string, size int64, content io.Reader) error) (err error) {
	defer wal.CatchCorruption(s.db.path, &err)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	last := ""
	return s.tx.walk(wal.Index, "blobs/", func(key string, _ []byte) error {
		sum, _, _ := strings.Cut(strings.TrimPrefix(key, "blobs/"), "/")
		if sum == last {
			return ctx.Err()
		}
		last = sum
		path := s.db.blobs.Path(sum)
		file, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) && s.db.fetch(ctx, sum) {
			file, err = os.Open(path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = s.db.unreadable(key[len("blobs/")+len(sum):], sum, err)
			return errors.Join(ctx.Err(), SkipDamaged(err))
		}
		if err != nil {
			return err
		}
		info, err := file.Stat()
		if err == nil {
			var name string
			if name, err = filepath.Rel(s.db.dir, path); err == nil {
				err = fn(filepath.ToSlash(name), info.Size(), file)
			}
		}
		return errors.Join(err, file.Close())
	})
}

// CreateFrom writes a new database file from the rows of a snapshot.
func CreateFrom(dir string, next func() (StoredRow, error)) (err error) {
	to, err := wal.OpenFile(filepath.Join(dir, FileName), false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	to.NoSync, to.AllocSize = true, wal.RealDisk().Growth
	for more := true; more; {
		if err := to.Update(func(b *bolt.Tx) error {
			for _, name := range wal.BucketNames {
				bucket, err := b.CreateBucketIfNotExists(name)
				if err != nil {
					return err
				}
				bucket.FillPercent = 1 // the rows come in the order of their keys
			}
			for range copyBatch {
				row, err := next()
				if errors.Is(err, io.EOF) {
					more = false
					return nil
				}
				if err != nil {
					return err
				}
				if int(row.Bucket) >= len(wal.BucketNames) {
					return fmt.Errorf("there is no bucket %d", row.Bucket)
				}
				if err := b.Bucket(wal.BucketNames[row.Bucket]).Put(row.Key, row.Value); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return to.Sync()
}

// Follow returns a follower of the commits from now on; see wal.DB.Follow.
func (db *DB) Follow(limit int) *wal.Follower { return db.rows.Follow(limit) }

// applyBatch is the size of the operations that Apply writes in one transaction, in bytes.
const applyBatch = 4 << 20

// Apply applies the operations of commits to a database file that CreateFrom wrote. next returns
// the operations of one commit after the other, and io.EOF at the end.
func Apply(dir string, next func() ([]byte, error)) (err error) {
	to, err := wal.OpenFile(filepath.Join(dir, FileName), false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	to.NoSync, to.AllocSize = true, wal.RealDisk().Growth
	for more := true; more; {
		if err := to.Update(func(b *bolt.Tx) error {
			for size := 0; size < applyBatch; {
				operations, err := next()
				if errors.Is(err, io.EOF) {
					more = false
					return nil
				}
				if err != nil {
					return err
				}
				size += len(operations)
				if err := wal.EachOperation(operations, applyTo(b)); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return to.Sync()
}

func applyTo(b *bolt.Tx) func(wal.Bucket, []byte, []byte) error {
	return func(bucket wal.Bucket, key, value []byte) error {
		rows := b.Bucket(wal.BucketNames[bucket])
		if value == nil {
			return rows.Delete(key)
		}
		return rows.Put(key, value)
	}
}

// ContentNames calls fn with the name below the data directory of each file with contents to which
// the operations of a commit begin to refer.
func (db *DB) ContentNames(operations []byte, fn func(name string) error) error {
	return wal.EachOperation(operations, func(bucket wal.Bucket, key, value []byte) error {
		rest, ok := strings.CutPrefix(string(key), "blobs/")
		if bucket != wal.Index || value == nil || !ok {
			return nil
		}
		sum, _, _ := strings.Cut(rest, "/")
		if len(sum) < 2 {
			return nil
		}
		name, err := filepath.Rel(db.dir, db.blobs.Path(sum))
		if err != nil {
			return err
		}
		return fn(filepath.ToSlash(name))
	})
}

// CommittedRevision returns the revision that the operations of a commit establish, or 0 if they
// contain no change.
func CommittedRevision(operations []byte) (revision uint64) {
	_ = wal.EachOperation(operations, func(bucket wal.Bucket, key, value []byte) error {
		if bucket == wal.Meta && bytes.Equal(key, revisionKey) {
			revision = parseNumber(value)
		}
		return nil
	})
	return revision
}

// AppendRow appends a row to a file of rows.
func AppendRow(to []byte, row StoredRow) []byte {
	to = binary.AppendUvarint(append(to, row.Bucket), uint64(len(row.Key)))
	to = binary.AppendUvarint(append(to, row.Key...), uint64(len(row.Value)))
	return append(to, row.Value...)
}

// errRow reports that a file of rows is damaged.
var errRow = errors.New("a row of the backup is truncated")

// rowPartLimit is the largest size of a key or a value, in bytes. It is bbolt's.
const rowPartLimit = bolt.MaxValueSize

// ReadRow reads the next row of a file of rows. Its error is io.EOF at the end.
func ReadRow(from *bufio.Reader) (row StoredRow, err error) {
	if row.Bucket, err = from.ReadByte(); err != nil {
		return row, err
	}
	for _, part := range []*[]byte{&row.Key, &row.Value} {
		size, err := binary.ReadUvarint(from)
		if err != nil || size > rowPartLimit {
			return row, errRow
		}
		*part = make([]byte, size)
		if _, err := io.ReadFull(from, *part); err != nil {
			return row, errRow
		}
	}
	return row, nil
}
