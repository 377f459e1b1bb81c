package wal

import (
	"errors"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Bucket identifies a bucket of the bbolt file, a map of keys to values ordered by key.
type Bucket int

// The buckets. This package itself uses the keys "epoch" and "committed" of Meta.
const (
	Data        Bucket = iota // the rows of the store
	Log                       // the change log; rows are only appended, in key order
	Index                     // keys that refer to rows of Data
	Meta                      // numbers of the database
	bucketCount = iota
)

// BucketNames are the names of the buckets in the bbolt file.
var BucketNames = [bucketCount][]byte{Data: []byte("data"), Log: []byte("log"), Index: []byte("index"),
	Meta: []byte("meta")}

// Tx is a transaction: a snapshot of the rows, and in an update the writes to them. It must be used
// by one goroutine only. The zero value is ready for Begin.
type Tx struct {
	writable bool
	writes   uint32 // incremented by each write, including rolled back writes
	commit   uint64 // commit of the snapshot; in an update, the commit that it will become

	// The levels that hold the rows, the uppermost first.
	memtables [2]*memtable // active and immutable; nil: does not exist
	base      *bolt.Tx
	buckets   [bucketCount]*bolt.Bucket // buckets of base, opened at their first use

	// The field below is used in an update only.
	undo []undoEntry
}

// undoEntry is the state of a row before a write.
type undoEntry struct {
	bucket Bucket
	row    *node
	newest *version
}

// Begin starts a read transaction on the committed rows. The caller must call End. Until then, old
// pages of the bbolt file are not reused. Begin returns ErrClosed if the database is closed.
func (db *DB) Begin(tx *Tx) error { return db.begin(tx, false) }

// begin starts a transaction on the committed rows. The caller of a writable transaction holds
// updateLock.
func (db *DB) begin(tx *Tx, writable bool) error {
	for {
		now, commit := db.memtables.Load(), db.committed.Load()
		base, err := db.disk.Begin(db.file.DB)
		if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
			return ErrClosed
		}
		if err != nil {
			return err
		}
		tx.writable, tx.commit, tx.base = writable, commit, base
		tx.memtables = [2]*memtable{now.active, now.immutable}
		if db.memtables.Load().active == now.active {
			return nil
		}
		// The active memtable became immutable in the meantime, so the file may have newer rows
		// than this memtable.
		if err := tx.End(); err != nil {
			return err
		}
	}
}

// End ends the transaction, so that old pages of the file can be reused.
func (tx *Tx) End() error { return tx.base.Rollback() }

// Writable reports whether the transaction is that of an update.
func (tx *Tx) Writable() bool { return tx.writable }

// Writes returns a number that each write increments, including rolled back writes. If the number
// has changed, open cursors are stale.
func (tx *Tx) Writes() uint32 { return tx.writes }

// Get returns the value of a key, or nil. The value is valid until the transaction ends and must
// not be changed.
func (tx *Tx) Get(bucket Bucket, key []byte) []byte {
	for _, m := range tx.memtables {
		if m == nil {
			break
		}
		if v := m.lists[bucket].get(key, tx.commit); v != nil {
			return v.value
		}
	}
	defer guardPage()
	return tx.boltBucket(bucket).Get(key)
}

// boltBucket returns the bucket of the bbolt file.
func (tx *Tx) boltBucket(bucket Bucket) *bolt.Bucket {
	if tx.buckets[bucket] == nil {
		tx.buckets[bucket] = tx.base.Bucket(BucketNames[bucket])
	}
	return tx.buckets[bucket]
}

// Put writes a row. The value must not be nil and must not be changed afterwards. Put copies the
// key. It rejects a row that bbolt would reject at the checkpoint.
func (tx *Tx) Put(bucket Bucket, key, value []byte) error {
	if !tx.writable {
		return ErrReadOnly
	}
	if err := checkSize(key, value); err != nil {
		return err
	}
	tx.write(bucket, key, value)
	return nil
}

// checkSize rejects a row that is too large for bbolt.
func checkSize(key, value []byte) error {
	switch {
	case len(key) > bolt.MaxKeySize:
		return bolterrors.ErrKeyTooLarge
	case len(value) > bolt.MaxValueSize:
		return bolterrors.ErrValueTooLarge
	}
	return nil
}

// Delete deletes a row. A missing row is not an error.
func (tx *Tx) Delete(bucket Bucket, key []byte) error {
	switch {
	case tx.Get(bucket, key) == nil:
		return nil
	case !tx.writable:
		return ErrReadOnly
	}
	tx.write(bucket, key, nil)
	return nil
}

func (tx *Tx) write(bucket Bucket, key, value []byte) {
	row := tx.memtables[0].lists[bucket].insert(key)
	tx.undo = append(tx.undo, undoEntry{bucket, row, row.newest.Load()})
	row.put(tx.commit, value)
	tx.writes++
}

// dirty reports whether the transaction has writes to commit.
func (tx *Tx) dirty() bool { return len(tx.undo) > 0 }

// rollback undoes all writes except the first kept ones, the newest first.
func (tx *Tx) rollback(kept int) {
	for i := len(tx.undo) - 1; i >= kept; i-- {
		u := tx.undo[i]
		u.row.newest.Store(u.newest)
		if u.newest == nil {
			tx.memtables[0].lists[u.bucket].remove(u.row)
		}
		tx.writes++
	}
	clear(tx.undo[kept:])
	tx.undo = tx.undo[:kept]
}

// appendOperations appends the operations of the transaction to a log record, one per changed row.
func (tx *Tx) appendOperations(to []byte) []byte {
	for _, u := range tx.undo {
		v := u.row.newest.Load()
		if v.logged {
			continue
		}
		v.logged = true
		to = appendOperation(to, u.bucket, u.row.key, v.value)
	}
	return to
}
