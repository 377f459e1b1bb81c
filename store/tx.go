package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Tx is what a function given to View or Update reads and writes by. It is valid until that
// function returns and belongs to one goroutine.
type Tx struct {
	db       *DB
	writable bool
	commit   uint64 // what it sees is as of this one; of an update that is its own, which is yet to come

	// The levels that hold the rows, of which the upper ones count before the lower: see
	// checkpoint.go.
	above   [2]*table // nil: not there
	base    *bolt.Tx
	buckets [buckets]*bolt.Bucket // of base, opened when first used

	key []byte // scratch space for the key at hand

	// Of an update only:
	start   uint64 // the revision before the transaction
	rev     uint64
	changes []Change
	values  []ValueChange // those of versioned rows
	undo    []previous
	writes  int    // raised by each write, undone ones included; tells a walk that its cursor is stale
	first   uint64 // the revision that the first change of the update at hand gets

	// Of an update with a history only: see Note.
	note      func() []byte
	describes bool // the row at hand is a file's
}

type bucketID int

const (
	dataBucket bucketID = iota
	logBucket
	indexBucket
	metaBucket
	buckets = iota
)

// bucketNames are those of bbolt's file.
var bucketNames = [buckets][]byte{dataBucket: []byte("data"), logBucket: []byte("log"), indexBucket: []byte("index"),
	metaBucket: []byte("meta")}

// previous is what a row was before a write.
type previous struct {
	bucket bucketID
	row    *node
	newest *version
}

// mark is a point within a transaction to which it can return.
type mark struct {
	rev                   uint64
	changes, values, undo int
}

// begin begins a transaction on what is committed; who begins an update holds the turn. end has to
// follow.
func (db *DB) begin(writable bool) (*Tx, error) {
	for {
		now, commit := db.levels.Load(), db.committed.Load()
		base, err := db.disk.begin(db.bolt)
		if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
			return nil, ErrClosed
		}
		if err != nil {
			return nil, err
		}
		tx := &Tx{db: db, writable: writable, commit: commit, above: [2]*table{now.live, now.frozen}, base: base}
		if db.levels.Load().live == now.live {
			return tx, nil
		}
		// The rows in memory were frozen meanwhile: the file may already have later ones of them.
		if err := tx.end(); err != nil {
			return nil, err
		}
	}
}

// end lets the file's old pages be used again.
func (tx *Tx) end() error { return tx.base.Rollback() }

// Revision is the revision of the newest change the transaction sees, its own included.
func (tx *Tx) Revision() uint64 {
	if tx.writable {
		return tx.rev
	}
	return tx.number(revisionKey)
}

// Next is the revision that the next change gets, for updates.
func (tx *Tx) Next() uint64 { return max(tx.rev+1, tx.db.floor) }

// reaches tells whether what was at a revision, and has happened since, can be told:
// ErrFutureRevision if it is yet to come, ErrCompacted if the log was cut behind it, or does not
// know it: it was of a file that an older one has taken the place of.
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
	if tx.get(logBucket, []byte(logKey(revision))) == nil {
		return fmt.Errorf("revision %d, which this database never had: %w", revision, ErrCompacted)
	}
	return nil
}

// get reads a row; nil if there is none.
func (tx *Tx) get(id bucketID, key []byte) []byte {
	for _, t := range tx.above {
		if t == nil {
			break
		}
		if v := t.lists[id].get(key, tx.commit); v != nil {
			return v.value
		}
	}
	return tx.bucket(id).Get(key)
}

// bucket is bbolt's.
func (tx *Tx) bucket(id bucketID) *bolt.Bucket {
	if tx.buckets[id] == nil {
		tx.buckets[id] = tx.base.Bucket(bucketNames[id])
	}
	return tx.buckets[id]
}

// number reads one of the meta bucket's numbers; 0 if it was never written.
func (tx *Tx) number(key []byte) uint64 { return number(tx.get(metaBucket, key)) }

func number(value []byte) uint64 {
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

// set writes a row. The value, which is not nil, must never be changed then.
func (tx *Tx) set(id bucketID, key string, value []byte) error {
	switch {
	case !tx.writable:
		return writeError(key, ErrReadOnly)
	case len(key) > bolt.MaxKeySize: // bbolt would refuse it, when it is too late
		return writeError(key[:64]+"...", bolterrors.ErrKeyTooLarge)
	case len(value) > bolt.MaxValueSize:
		return writeError(key, bolterrors.ErrValueTooLarge)
	}
	tx.wrote(id, tx.join(key, ""), value)
	return nil
}

// remove removes a row if there is one.
func (tx *Tx) remove(id bucketID, key string) error {
	k := tx.join(key, "")
	switch {
	case tx.get(id, k) == nil:
		return nil
	case !tx.writable:
		return writeError(key, ErrReadOnly)
	}
	tx.wrote(id, k, nil)
	return nil
}

func (tx *Tx) wrote(id bucketID, key, value []byte) {
	row := tx.above[0].lists[id].add(key)
	tx.undo = append(tx.undo, previous{id, row, row.newest.Load()})
	row.put(tx.commit, value)
	tx.writes++
}

func writeError(key string, err error) error {
	return fmt.Errorf("write %s: %w", key, err)
}

// dirty reports whether there is anything to commit.
func (tx *Tx) dirty() bool { return len(tx.undo) > 0 }

func (tx *Tx) mark() mark { return mark{tx.rev, len(tx.changes), len(tx.values), len(tx.undo)} }

// rollback takes back, newest first, what was written since the mark.
func (tx *Tx) rollback(m mark) {
	for i := len(tx.undo) - 1; i >= m.undo; i-- {
		tx.undo[i].row.newest.Store(tx.undo[i].newest)
		tx.writes++
	}
	clear(tx.undo[m.undo:])
	clear(tx.values[m.values:])
	tx.rev, tx.changes, tx.values, tx.undo = m.rev, tx.changes[:m.changes], tx.values[:m.values], tx.undo[:m.undo]
}

// seal writes the revision that the transaction has reached.
func (tx *Tx) seal() error {
	if tx.rev == tx.start {
		return nil
	}
	return tx.set(metaBucket, string(revisionKey), binary.BigEndian.AppendUint64(nil, tx.rev))
}

// appendOperations appends what the transaction has changed, each row once and as it is now.
func (tx *Tx) appendOperations(to []byte) []byte {
	for _, p := range tx.undo {
		v := p.row.newest.Load()
		if v.logged {
			continue
		}
		v.logged = true
		to = appendOperation(to, p.bucket, p.row.key, v.value)
	}
	return to
}

// recordHeader is the size of what stands before each value in data: create revision, mod revision,
// version (how many times the key was written since it was created) and expiry (unused, 0), 8 bytes
// each.
const recordHeader = 32

// record is a row of data. Its value may be bbolt's memory: it must not be changed nor kept after
// the transaction.
type record struct {
	created, modified, version uint64
	value                      []byte
}

// record reads a row of data; ok is false if there is none.
func (tx *Tx) record(prefix, key string) (r record, ok bool, err error) {
	row := tx.get(dataBucket, tx.join(prefix, key))
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

// newRow begins a row of data for a value of so many bytes: room for the header, then the value's
// schema version.
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

// put makes a row of data hold what newRow began and writes the change to the log. The row belongs
// to the transaction from then on. The same bytes again are no change; a value of a schema newer
// than known is not replaced.
func (tx *Tx) put(key string, known int, row []byte) error {
	return tx.write(key, known, row, false)
}

// write is put for which the same bytes again are a change if again is set.
func (tx *Tx) write(key string, known int, row []byte, again bool) error {
	if !tx.writable {
		return writeError(key, ErrReadOnly)
	}
	oldRow := tx.get(dataBucket, tx.join(key, ""))
	next := tx.Next()
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
	if err := tx.set(dataBucket, key, row); err != nil {
		return err
	}
	return tx.logChange(key, kindPut, old, record{old.created, next, old.version + 1, row[recordHeader:]})
}

// delete removes a row of data and writes the change to the log. A key without a value is no error
// and no change.
func (tx *Tx) delete(key string) error {
	if !tx.writable {
		return writeError(key, ErrReadOnly)
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

// logChange raises the revision and writes what happened at it; the records are those before and
// after, without a value for none.
func (tx *Tx) logChange(key string, kind byte, before, after record) error {
	entry := make([]byte, 0, 1+binary.MaxVarintLen32+len(key))
	entry = binary.AppendUvarint(append(entry, kind), uint64(len(key)))
	entry = tx.past(append(entry, key...), key, before, after)
	tx.rev = tx.Next()
	if err := tx.set(logBucket, logKey(tx.rev), entry); err != nil {
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

// walk calls fn in key order with each row whose key begins with prefix. fn may write: the walk
// goes on behind the key it was at.
func (tx *Tx) walk(id bucketID, prefix string, fn func(key string, value []byte) error) error {
	return tx.walkFrom(id, prefix, prefix, fn)
}

// walkFrom is walk from the first key that is not smaller than start.
func (tx *Tx) walkFrom(id bucketID, start, prefix string, fn func(key string, value []byte) error) error {
	p := []byte(prefix)
	c := tx.cursor(id)
	k, v := c.seek([]byte(start))
	for k != nil && bytes.HasPrefix(k, p) {
		key, writes := string(k), tx.writes
		if err := fn(key, v); err != nil {
			return stop(err)
		}
		if tx.writes != writes {
			if k, v = c.seek([]byte(key)); string(k) != key {
				continue
			}
		}
		k, v = c.next()
	}
	return nil
}

// walkBack is walk in the opposite order.
func (tx *Tx) walkBack(id bucketID, prefix string, fn func(key string, value []byte) error) error {
	p := []byte(prefix)
	c := tx.cursor(id)
	k, v := c.before(prefixEnd(prefix))
	for k != nil && bytes.HasPrefix(k, p) {
		key, writes := string(k), tx.writes
		if err := fn(key, v); err != nil {
			return stop(err)
		}
		if tx.writes != writes {
			k, v = c.before([]byte(key))
		} else {
			k, v = c.next()
		}
	}
	return nil
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
