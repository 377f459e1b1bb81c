package wal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	bolt "go.etcd.io/bbolt"

	"landfall/store/pages"
)

// Verification is the result of reading all pages of a bbolt file.
type Verification struct {
	// Problems are damaged pages. Rows of other pages are whole in their keys and places.
	Problems []pages.Problem
	// Groups are the groups whose rows differ from their digests: rows are missing, changed, or
	// stored under another key.
	Groups []Group
	// Meta reports that the numbers of the database differ from their hash.
	Meta bool
	// Missing is the number of missing rows of groups.
	Missing map[Group]int
	// Digested reports that the file has digests. A file of an older program has none.
	Digested bool
	Found    Digests // of the rows that can be read
	Expected uint64  // number of rows by the digests
	Pages    uint64
	PageSize int // bytes
	Rows     uint64
}

// Whole reports whether nothing is damaged.
func (v *Verification) Whole() bool {
	return len(v.Problems) == 0 && len(v.Groups) == 0 && !v.Meta
}

// Verify reads all pages of a bbolt file without bbolt. row gets each row that can be read, in any
// order, but one at a time; it may be nil. The file must not change meanwhile. The error is about a
// file that can't be read at all.
func Verify(path string, row func(bucket Bucket, key, value []byte) error) (_ *Verification, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	source, err := pages.Open(file, info.Size())
	if err != nil {
		return nil, err
	}
	v := new(Verification)
	if reason := source.DamagedMeta(); reason != "" {
		v.Problems = append(v.Problems, pages.Problem{Reason: reason})
	}
	if err := v.read(source, row); err != nil {
		return nil, err
	}
	source.CheckFreelist(v.add)
	return v, nil
}

// Verify reads all pages of a snapshot of the database, as far as they are in the bbolt file.
func (db *DB) Verify(row func(bucket Bucket, key, value []byte) error) (_ *Verification, err error) {
	defer CatchCorruption(db.path, &err)
	var tx Tx
	if err := db.Begin(&tx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, tx.End()) }()
	v, size := new(Verification), int64(db.file.Info().PageSize)
	meta := pages.Meta{PageSize: int(size), Pages: uint64(tx.base.Size() / size),
		Root: uint64(tx.base.Cursor().Bucket().Root())}
	return v, v.read(pages.OpenAt(db.file.file, tx.base.Size(), meta), row)
}

func (v *Verification) add(problem pages.Problem) { v.Problems = append(v.Problems, problem) }

// read reads all buckets and compares them with their digests.
func (v *Verification) read(from *pages.File, row func(bucket Bucket, key, value []byte) error) error {
	found, stored, metaSum := make(Digests), []byte(nil), uint64(0)
	add := adder{digests: found}
	var mu sync.Mutex
	for id, name := range BucketNames {
		bucket := Bucket(id)
		err := from.Walk(string(name), func(key, value []byte) error {
			hash := rowHash(key, value)
			mu.Lock()
			defer mu.Unlock()
			v.Rows++
			switch {
			case bucket != Meta:
				add.row(bucket, key, hash)
			case bytes.Equal(key, digestKey):
				stored = bytes.Clone(value)
			default:
				metaSum += hash
			}
			if row == nil {
				return nil
			}
			return row(bucket, key, value)
		}, v.add)
		if err != nil {
			return err
		}
	}
	add.flush()
	v.Pages, v.PageSize, v.Found = from.Meta().Pages, from.Meta().PageSize, found
	if stored == nil {
		return nil // an older program wrote the file
	}
	v.Digested = true
	expected, meta, err := decodeDigests(stored)
	v.Meta = err != nil || meta != metaSum
	if err != nil {
		return nil
	}
	for group, digest := range expected {
		v.Expected += digest.Rows
		if found[group] != digest {
			v.Groups = append(v.Groups, group)
		}
	}
	for group := range found {
		if _, known := expected[group]; !known {
			v.Groups = append(v.Groups, group)
		}
	}
	slices.SortFunc(v.Groups, compareGroups)
	v.Missing = missing(expected, found)
	return nil
}

// missing returns the number of rows that the digests contain and the file does not.
func missing(expected, found Digests) map[Group]int {
	fewer := make(map[Group]int)
	for group, digest := range expected {
		if n := int(digest.Rows) - int(found[group].Rows); n > 0 {
			fewer[group] = n
		}
	}
	return fewer
}

// Rebuild writes a new bbolt file with the rows of a damaged one that can be read. The damaged file
// keeps its content under the name aside.
func Rebuild(path, aside string, growth int) (err error) {
	temporary := path + ".new"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	to, err := OpenFile(temporary, false)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, to.Close(), os.Remove(temporary))
		}
	}()
	to.AllocSize, to.NoSync = growth, true
	if err := copyRows(path, to); err != nil {
		return fmt.Errorf("copy the readable rows: %w", err)
	}
	if err := errors.Join(to.Sync(), to.Close()); err != nil {
		return err
	}
	if err := keepAside(path, aside); err != nil {
		return err
	}
	// The name always has a file: without one, the next start would make an empty database.
	if err := os.Rename(temporary, path); err != nil {
		return err
	}
	return SyncDirs(filepath.Dir(path))
}

// keepAside gives a file a second name. It copies the file where a file can't have two names.
func keepAside(path, aside string) (err error) {
	if os.Link(path, aside) == nil {
		return SyncDirs(filepath.Dir(path))
	}
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := os.OpenFile(aside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if err = errors.Join(err, to.Sync(), to.Close()); err != nil {
		return errors.Join(err, os.Remove(aside))
	}
	return SyncDirs(filepath.Dir(path))
}

// rebuildBatch is the number of rows that one transaction copies.
const rebuildBatch = 1000

type keptRow struct {
	bucket     Bucket
	key, value []byte
}

func copyRows(path string, to File) error {
	var batch []keptRow
	flush := func() error {
		err := to.Update(func(b *bolt.Tx) error {
			for _, row := range batch {
				if err := b.Bucket(BucketNames[row.bucket]).Put(row.key, row.value); err != nil {
					return err
				}
			}
			return nil
		})
		batch = batch[:0]
		return err
	}
	if err := to.Update(func(b *bolt.Tx) error {
		for _, name := range BucketNames {
			if _, err := b.CreateBucket(name); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	_, err := Verify(path, func(bucket Bucket, key, value []byte) error {
		if len(key) == 0 || len(key) > bolt.MaxKeySize || bucket == Meta && bytes.Equal(key, digestKey) {
			return nil
		}
		batch = append(batch, keptRow{bucket, bytes.Clone(key), bytes.Clone(value)})
		if len(batch) < rebuildBatch {
			return nil
		}
		return flush()
	})
	if err != nil {
		return err
	}
	if err := flush(); err != nil {
		return err
	}
	return to.Update(func(b *bolt.Tx) error {
		d, err := countDigests(b)
		if err != nil {
			return err
		}
		return putDigests(b, d)
	})
}
