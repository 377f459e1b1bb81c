package wal

import (
	"encoding/binary"
	"errors"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
)

// Repair changes the rows of Meta of a closed database, and computes all digests again. If derive
// is set, the numbers of this package are derived from the log first.
func Repair(path string, derive bool, fn func(meta *bolt.Bucket) error) (err error) {
	file, err := OpenFile(path, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return file.Update(func(b *bolt.Tx) error {
		meta := b.Bucket(BucketNames[Meta])
		digests, err := countDigests(b)
		if err != nil {
			return err
		}
		if derive {
			if err := deriveNumbers(filepath.Dir(path), meta); err != nil {
				return err
			}
		}
		if err := fn(meta); err != nil {
			return err
		}
		return putDigests(b, digests)
	})
}

// deriveNumbers derives the epoch and the newest commit of the bbolt file from the log. All records
// of the newest unbroken sequence are read again. That changes nothing in rows that the file
// already has: the last record of a row wins.
func deriveNumbers(dir string, meta *bolt.Bucket) error {
	commits := make(map[uint64]uint64) // epochs by commit
	newest := uint64(0)
	for _, name := range FileNames {
		records, _, err := readLog(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		for _, r := range records {
			commits[r.commit] = r.epoch
			newest = max(newest, r.commit)
		}
	}
	noted, ok, err := readAcknowledged(dir)
	if err != nil {
		return err
	}
	epoch, committed := noted.epoch, noted.commit
	switch {
	case newest > 0:
		epoch, committed = commits[newest], newest
		for of, whole := commits[committed]; whole && of == epoch; of, whole = commits[committed] {
			committed--
		}
	case !ok:
		return nil
	}
	return errors.Join(meta.Put(epochKey, binary.BigEndian.AppendUint64(nil, epoch)),
		meta.Put(committedKey, binary.BigEndian.AppendUint64(nil, committed)))
}
