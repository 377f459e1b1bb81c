package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// Tx is what a function given to View or Update reads and writes by. It is valid until that function returns and belongs to one goroutine.
type Tx struct {
	db      *DB
	bolt    *bolt.Tx
	buckets [4]*bolt.Bucket // by bucketID, opened when first used

	key []byte // scratch space for the key at hand

	// Of an update only:
	start   uint64 // the revision before the transaction
	rev     uint64
	changes []Change
	values  []ValueChange // those of versioned rows
	undo    []previous
	writes  int // raised by each write, undone ones included; tells a walk that its cursor is stale

	// Of an update with a history only: see Note.
	first     uint64 // the revision that the first change of the update gets
	note      func() []byte
	describes bool // the row at hand is a file's
}

type bucketID int

const (
	dataBucket bucketID = iota
	logBucket
	indexBucket
	metaBucket
)

// previous is what a row was before a write.
type previous struct {
	bucket bucketID
	key    string
	value  []byte // nil: there was none
}

// mark is a point within a transaction to which it can return.
type mark struct {
	rev                   uint64
	changes, values, undo int
}

func newTx(db *DB, b *bolt.Tx) *Tx {
	tx := &Tx{db: db, bolt: b}
	if b.Writable() {
		tx.start = number(tx.bucket(metaBucket), revisionKey)
		tx.rev = tx.start
	}
	return tx
}

// Revision is the revision of the newest change the transaction sees, its own included.
func (tx *Tx) Revision() uint64 {
	if tx.bolt.Writable() {
		return tx.rev
	}
	return number(tx.bucket(metaBucket), revisionKey)
}

// next is the revision that the next change gets.
func (tx *Tx) next() uint64 { return max(tx.rev+1, tx.db.floor) }

// reaches tells whether what was at a revision, and has happened since, can be told: ErrFutureRevision if it is yet to come, ErrCompacted if the log
// was cut behind it, or does not know it: it was of a file that an older one has taken the place of.
func (tx *Tx) reaches(revision uint64) error {
	now, compacted := tx.Revision(), tx.Compacted()
	switch {
	case revision > now:
		return fmt.Errorf("revision %d of %d: %w", revision, now, ErrFutureRevision)
	case revision < compacted:
		return fmt.Errorf("revision %d, the log begins behind %d: %w", revision, compacted, ErrCompacted)
	case revision == compacted || revision == now:
		return nil
	}
	if tx.bucket(logBucket).Get([]byte(logKey(revision))) == nil {
		return fmt.Errorf("revision %d, which this database never had: %w", revision, ErrCompacted)
	}
	return nil
}

func (tx *Tx) bucket(id bucketID) *bolt.Bucket {
	if tx.buckets[id] == nil {
		name := [...][]byte{dataBucket: dataName, logBucket: logName, indexBucket: indexName, metaBucket: metaName}[id]
		tx.buckets[id] = tx.bolt.Bucket(name)
		if id == logBucket {
			tx.buckets[id].FillPercent = 1 // it is only appended to
		}
	}
	return tx.buckets[id]
}

// number reads one of the meta bucket's numbers; 0 if it was never written.
func number(meta *bolt.Bucket, key []byte) uint64 {
	value := meta.Get(key)
	if len(value) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(value)
}

// join puts a key together in the transaction's scratch space; it holds until the next join.
func (tx *Tx) join(prefix, key string) []byte {
	tx.key = append(append(tx.key[:0], prefix...), key...)
	return tx.key
}

// set writes a row and remembers what it was. bbolt copies the key; the value must stay as it is until the transaction ends.
func (tx *Tx) set(id bucketID, key string, value []byte) error {
	return tx.replace(id, key, tx.bucket(id).Get(tx.join(key, "")), value)
}

// replace is set for a caller that knows what the row is.
func (tx *Tx) replace(id bucketID, key string, old, value []byte) error {
	if err := tx.bucket(id).Put(tx.join(key, ""), value); err != nil {
		return tx.writeError(key, err)
	}
	tx.wrote(id, key, old)
	return nil
}

// remove removes a row if there is one and remembers it.
func (tx *Tx) remove(id bucketID, key string) error {
	k := tx.join(key, "")
	old := tx.bucket(id).Get(k)
	if old == nil {
		return nil
	}
	if err := tx.bucket(id).Delete(k); err != nil {
		return tx.writeError(key, err)
	}
	tx.wrote(id, key, old)
	return nil
}

func (tx *Tx) wrote(id bucketID, key string, old []byte) {
	tx.undo = append(tx.undo, previous{id, key, old})
	tx.writes++
}

func (tx *Tx) writeError(key string, err error) error {
	if !tx.bolt.Writable() {
		err = ErrReadOnly
	}
	return fmt.Errorf("write %s: %w", key, err)
}

// dirty reports whether there is anything to commit.
func (tx *Tx) dirty() bool { return len(tx.undo) > 0 }

func (tx *Tx) mark() mark { return mark{tx.rev, len(tx.changes), len(tx.values), len(tx.undo)} }

// rollback takes back, newest first, what was written since the mark. Values of bbolt stay readable until the transaction ends, so none was copied.
func (tx *Tx) rollback(m mark) error {
	for i := len(tx.undo) - 1; i >= m.undo; i-- {
		p := tx.undo[i]
		var err error
		if p.value == nil {
			err = tx.bucket(p.bucket).Delete([]byte(p.key))
		} else {
			err = tx.bucket(p.bucket).Put([]byte(p.key), p.value)
		}
		if err != nil {
			return fmt.Errorf("take back the write of %s: %w", p.key, err)
		}
		tx.writes++
	}
	clear(tx.undo[m.undo:])
	clear(tx.values[m.values:])
	tx.rev, tx.changes, tx.values, tx.undo = m.rev, tx.changes[:m.changes], tx.values[:m.values], tx.undo[:m.undo]
	return nil
}

// seal writes the revision that the transaction has reached.
func (tx *Tx) seal() error {
	if tx.rev == tx.start {
		return nil
	}
	return tx.bucket(metaBucket).Put(revisionKey, binary.BigEndian.AppendUint64(nil, tx.rev))
}

// recordHeader is the size of what stands before each value in data: create revision, mod revision, version (how many times the key was written since it
// was created) and expiry (unused, 0), 8 bytes each.
const recordHeader = 32

// record is a row of data. Its value is bbolt's memory: it must not be changed nor kept after the transaction.
type record struct {
	created, modified, version uint64
	value                      []byte
}

// record reads a row of data; ok is false if there is none.
func (tx *Tx) record(prefix, key string) (r record, ok bool, err error) {
	row := tx.bucket(dataBucket).Get(tx.join(prefix, key))
	if row == nil {
		return record{}, false, nil
	}
	r, err = tx.parse(prefix+key, row)
	return r, err == nil, err
}

func (tx *Tx) parse(key string, row []byte) (record, error) {
	if len(row) < recordHeader {
		return record{}, tx.db.corruptRow(key, fmt.Errorf("the row has %d bytes", len(row)))
	}
	return record{
		created:  binary.BigEndian.Uint64(row),
		modified: binary.BigEndian.Uint64(row[8:]),
		version:  binary.BigEndian.Uint64(row[16:]),
		value:    row[recordHeader:],
	}, nil
}

// newRow begins a row of data for a value of so many bytes: room for the header, then the value's schema version.
func newRow(schemaVersion, size int) []byte {
	row := make([]byte, recordHeader, recordHeader+binary.MaxVarintLen64+size)
	return binary.AppendUvarint(row, uint64(schemaVersion))
}

// payload is the part of a value behind its schema version, which must not be newer than known.
func (tx *Tx) payload(key string, known int, value []byte) ([]byte, error) {
	version, n := binary.Uvarint(value)
	if n <= 0 {
		return nil, tx.db.corruptRow(key, errors.New("the value has no schema version"))
	}
	if version > uint64(known) {
		return nil, &NewerSchemaError{Path: tx.db.path, Key: key, Version: int(version), Known: known}
	}
	return value[n:], nil
}

// put makes a row of data hold what newRow began and writes the change to the log. The row belongs to the transaction from then on.
// The same bytes again are no change; a value of a schema newer than known is not replaced.
func (tx *Tx) put(key string, known int, row []byte) error {
	return tx.write(key, known, row, false)
}

// write is put for which the same bytes again are a change if again is set.
func (tx *Tx) write(key string, known int, row []byte, again bool) error {
	if !tx.bolt.Writable() {
		return tx.writeError(key, ErrReadOnly)
	}
	oldRow := tx.bucket(dataBucket).Get(tx.join(key, ""))
	next := tx.next()
	old := record{created: next}
	if oldRow != nil {
		var err error
		if old, err = tx.parse(key, oldRow); err != nil {
			return err
		}
		if _, err := tx.payload(key, known, old.value); err != nil {
			return err
		}
		if !again && bytes.Equal(old.value, row[recordHeader:]) {
			return nil
		}
	}
	binary.BigEndian.PutUint64(row, old.created)
	binary.BigEndian.PutUint64(row[8:], next)
	binary.BigEndian.PutUint64(row[16:], old.version+1)
	if err := tx.replace(dataBucket, key, oldRow, row); err != nil {
		return err
	}
	return tx.logChange(key, kindPut, old, record{old.created, next, old.version + 1, row[recordHeader:]})
}

// delete removes a row of data and writes the change to the log. A key without a value is no error and no change.
func (tx *Tx) delete(key string) error {
	if !tx.bolt.Writable() {
		return tx.writeError(key, ErrReadOnly)
	}
	old, ok, err := tx.record("", key)
	if err != nil || !ok {
		return err
	}
	if err := tx.remove(dataBucket, key); err != nil {
		return err
	}
	return tx.logChange(key, kindDelete, old, record{})
}

// The kinds of change in the log.
const (
	kindPut    = 1
	kindDelete = 2
)

// logChange raises the revision and writes what happened at it; the records are those before and after, without a value for none.
func (tx *Tx) logChange(key string, kind byte, before, after record) error {
	entry := make([]byte, 0, 1+binary.MaxVarintLen32+len(key))
	entry = binary.AppendUvarint(append(entry, kind), uint64(len(key)))
	entry = tx.past(append(entry, key...), key, before, after)
	tx.rev = tx.next()
	if err := tx.replace(logBucket, logKey(tx.rev), nil, entry); err != nil {
		return err
	}
	tx.changes = append(tx.changes, Change{Revision: tx.rev, Key: key, Deleted: kind == kindDelete})
	if tx.db.isVersioned(key) {
		tx.values = append(tx.values, tx.valueChange(key, before, after))
	}
	return nil
}

func logKey(revision uint64) string {
	var key [8]byte
	binary.BigEndian.PutUint64(key[:], revision)
	return string(key[:])
}

// parseChange reads a log entry. What follows the key is the history's: see parseEntry.
func parseChange(key, entry []byte) (Change, error) {
	if len(key) != 8 || len(entry) < 2 {
		return Change{}, errors.New("the log entry is too short")
	}
	length, n := binary.Uvarint(entry[1:])
	if n <= 0 || length > uint64(len(entry)-1-n) {
		return Change{}, errors.New("the log entry's key is cut off")
	}
	return Change{
		Revision: binary.BigEndian.Uint64(key),
		Key:      string(entry[1+n : 1+n+int(length)]),
		Deleted:  entry[0] == kindDelete,
	}, nil
}

// walk calls fn in key order with each row whose key begins with prefix. fn may write: the walk goes on behind the key it was at.
func (tx *Tx) walk(id bucketID, prefix string, fn func(key string, value []byte) error) error {
	return tx.walkFrom(id, prefix, prefix, fn)
}

// walkFrom is walk from the first key that is not smaller than start.
func (tx *Tx) walkFrom(id bucketID, start, prefix string, fn func(key string, value []byte) error) error {
	p := []byte(prefix)
	c := tx.bucket(id).Cursor()
	k, v := c.Seek([]byte(start))
	for k != nil && bytes.HasPrefix(k, p) {
		key, writes := string(k), tx.writes
		if err := fn(key, v); err != nil {
			return stop(err)
		}
		if tx.writes != writes {
			if k, v = c.Seek([]byte(key)); string(k) != key {
				continue
			}
		}
		k, v = c.Next()
	}
	return nil
}

// walkBack is walk in the opposite order.
func (tx *Tx) walkBack(id bucketID, prefix string, fn func(key string, value []byte) error) error {
	p := []byte(prefix)
	c := tx.bucket(id).Cursor()
	k, v := before(c, prefixEnd(prefix))
	for k != nil && bytes.HasPrefix(k, p) {
		key, writes := string(k), tx.writes
		if err := fn(key, v); err != nil {
			return stop(err)
		}
		if tx.writes != writes {
			k, v = before(c, []byte(key))
		} else {
			k, v = c.Prev()
		}
	}
	return nil
}

// before moves the cursor to the last key that is smaller than key; nil stands for the end.
func before(c *bolt.Cursor, key []byte) (k, v []byte) {
	if key == nil {
		return c.Last()
	}
	if k, _ := c.Seek(key); k == nil {
		return c.Last()
	}
	return c.Prev()
}

// prefixEnd is the first key behind all that begin with prefix; nil if there is none.
func prefixEnd(prefix string) []byte {
	end := []byte(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return nil
}

// stop hides ErrStop, which is a walk's orderly end.
func stop(err error) error {
	if errors.Is(err, ErrStop) {
		return nil
	}
	return err
}
