package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"landfall/store/wal"
)

// Tx is the transaction of a View or an Update. It is valid until the function that got it returns,
// and belongs to one goroutine.
//
// The Tx of an update is that of a commit group (see package wal): several updates run in it, one
// after the other.
type Tx struct {
	db   *DB
	rows wal.Tx

	key []byte // scratch space for the current key

	// In an update only:
	rev     uint64 // the revision reached
	changes []Change
	values  []ValueChange // changes of versioned rows
	first   uint64        // the revision of the first change of the current update
	saved   savepoint     // the state before the current update

	// In an update with a history only: see Note.
	note      func() []byte
	describes bool // the current row is that of a file
}

// savepoint is a state of a transaction to which it can return.
type savepoint struct {
	rev             uint64
	changes, values int32 // lengths
}

// groupState is a Tx as package wal sees it: the state of a commit group.
type groupState Tx

// newGroup returns the transaction of a new commit group.
func (db *DB) newGroup() (wal.GroupState, *wal.Tx) {
	tx := &Tx{db: db}
	return (*groupState)(tx), &tx.rows
}

// Begin implements wal.GroupState.
func (g *groupState) Begin() (err error) {
	defer wal.CatchCorruption(g.db.path, &err)
	g.rev = (*Tx)(g).number(revisionKey)
	return nil
}

// BeginUpdate implements wal.GroupState.
func (g *groupState) BeginUpdate() {
	g.saved = savepoint{g.rev, int32(len(g.changes)), int32(len(g.values))}
	g.first, g.note = (*Tx)(g).Next(), nil
}

// RollbackUpdate implements wal.GroupState.
func (g *groupState) RollbackUpdate() {
	clear(g.values[g.saved.values:])
	g.rev, g.changes, g.values = g.saved.rev, g.changes[:g.saved.changes], g.values[:g.saved.values]
}

// Seal implements wal.GroupState: it writes the revision that the group has reached.
func (g *groupState) Seal() error {
	if len(g.changes) == 0 {
		return nil
	}
	return (*Tx)(g).set(wal.Meta, string(revisionKey), binary.BigEndian.AppendUint64(nil, g.rev))
}

// Committed implements wal.GroupState: it sends the changes to the watchers.
func (g *groupState) Committed() { g.db.feed.publish(g.rev, g.changes, mergeUpdates(g.values)) }

// Rollback implements wal.GroupState: the revisions of the group are not used again.
func (g *groupState) Rollback() { g.db.floor = max(g.db.floor, g.rev+1) }

// update is a function given to Update.
type update func(*Tx) error

// Run implements wal.Updater.
func (fn update) Run(state wal.GroupState) error { return fn((*Tx)(state.(*groupState))) }

// Revision returns the revision of the newest change that the transaction sees, its own included.
func (tx *Tx) Revision() uint64 {
	if tx.rows.Writable() {
		return tx.rev
	}
	return tx.number(revisionKey)
}

// Next returns the revision of the next change. It is meant for updates.
func (tx *Tx) Next() uint64 { return max(tx.rev+1, tx.db.floor) }

// checkRevision reports whether the state at a revision, and all changes since, can be read. It
// returns ErrFutureRevision for a revision that does not exist yet. It returns ErrCompacted if the
// change log was compacted beyond the revision, or does not contain it: then the revision belongs
// to a file that an older one has replaced.
func (tx *Tx) checkRevision(revision uint64) error {
	now, compacted := tx.Revision(), tx.Compacted()
	switch {
	case revision > now:
		return fmt.Errorf("revision %d of %d: %w", revision, now, ErrFutureRevision)
	case revision < compacted:
		return fmt.Errorf("revision %d, the log begins behind %d: %w", revision, compacted, ErrCompacted)
	case revision == compacted || revision == now:
		return nil
	}
	if tx.rows.Get(wal.Log, []byte(logKey(revision))) == nil {
		return fmt.Errorf("revision %d, which this database never had: %w", revision, ErrCompacted)
	}
	return nil
}

// number reads a number of the meta bucket; 0 if it was never written.
func (tx *Tx) number(key []byte) uint64 { return parseNumber(tx.rows.Get(wal.Meta, key)) }

func parseNumber(value []byte) uint64 {
	if len(value) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(value)
}

// join returns a key in the transaction's scratch space. It is valid until the next call of join.
func (tx *Tx) join(prefix, key string) []byte {
	tx.key = append(append(tx.key[:0], prefix...), key...)
	return tx.key
}

// set writes a row. The value is not nil and must not be changed afterwards.
func (tx *Tx) set(bucket wal.Bucket, key string, value []byte) error {
	if err := tx.rows.Put(bucket, tx.join(key, ""), value); err != nil {
		return writeError(key, err)
	}
	return nil
}

// remove deletes a row. A missing row is no error.
func (tx *Tx) remove(bucket wal.Bucket, key string) error {
	if err := tx.rows.Delete(bucket, tx.join(key, "")); err != nil {
		return writeError(key, err)
	}
	return nil
}

func writeError(key string, err error) error {
	if len(key) > bolt.MaxKeySize {
		key = key[:64] + "..."
	}
	return fmt.Errorf("write %s: %w", key, err)
}

// recordHeader is the size of the header of each row in data: create revision, mod revision,
// version (the number of writes to the key since its creation) and expiry (unused, 0), 8 bytes
// each.
const recordHeader = 32

// record is a row of data. Its value may be memory of bbolt: it must not be changed, nor kept after
// the transaction.
type record struct {
	created, modified, version uint64
	value                      []byte
}

// record reads a row of data; ok is false if there is none.
func (tx *Tx) record(prefix, key string) (r record, ok bool, err error) {
	row := tx.rows.Get(wal.Data, tx.join(prefix, key))
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

// newRow returns the start of a row of data, with capacity for a value of the given size in bytes:
// space for the header, then the schema version of the value.
func newRow(schemaVersion, size int) []byte {
	row := make([]byte, recordHeader, recordHeader+binary.MaxVarintLen64+size)
	return binary.AppendUvarint(row, uint64(schemaVersion))
}

// payload returns the part of a value behind its schema version. It returns *NewerSchemaError if
// that version is newer than the known one.
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

// put completes a row that newRow started, writes it to data and the change to the log. The caller
// must not change the row afterwards. Writing the same value again is no change. A value of a
// schema newer than the known one is not replaced.
func (tx *Tx) put(key string, known int, row []byte) error {
	return tx.write(key, known, row, false)
}

// write is put, but if again is set, writing the same value again is a change.
func (tx *Tx) write(key string, known int, row []byte, again bool) error {
	if !tx.rows.Writable() {
		return writeError(key, ErrReadOnly)
	}
	oldRow := tx.rows.Get(wal.Data, tx.join(key, ""))
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
	if err := tx.set(wal.Data, key, row); err != nil {
		return err
	}
	return tx.logChange(key, kindPut, old, record{old.created, next, old.version + 1, row[recordHeader:]})
}

// delete deletes a row of data and writes the change to the log. Deleting a key without a value is
// no error and no change.
func (tx *Tx) delete(key string) error {
	if !tx.rows.Writable() {
		return writeError(key, ErrReadOnly)
	}
	old, ok, err := tx.record("", key)
	if err != nil || !ok {
		return err
	}
	if err := tx.remove(wal.Data, key); err != nil {
		return err
	}
	return tx.logChange(key, kindDelete, old, record{})
}

// The kinds of change in the log.
const (
	kindPut    = 1
	kindDelete = 2
)

// logChange raises the revision and writes the change to the log. The records are the row before
// and after the change; a nil value means that there was no row.
func (tx *Tx) logChange(key string, kind byte, before, after record) error {
	entry := make([]byte, 0, 1+binary.MaxVarintLen32+len(key))
	entry = binary.AppendUvarint(append(entry, kind), uint64(len(key)))
	entry = tx.appendHistory(append(entry, key...), key, before, after)
	tx.rev = tx.Next()
	if err := tx.set(wal.Log, logKey(tx.rev), entry); err != nil {
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

// parseChange reads a log entry without the history that follows the key: see parseEntry.
func parseChange(key, entry []byte) (Change, error) {
	if len(key) != 8 || len(entry) < 2 {
		return Change{}, errors.New("the log entry is too short")
	}
	length, n := binary.Uvarint(entry[1:])
	if n <= 0 || length > uint64(len(entry)-1-n) {
		return Change{}, errors.New("the log entry's key is truncated")
	}
	return Change{
		Revision: binary.BigEndian.Uint64(key),
		Key:      string(entry[1+n : 1+n+int(length)]),
		Deleted:  entry[0] == kindDelete,
	}, nil
}

// walk calls fn in key order with each row whose key starts with prefix. fn may write: the
// iteration continues behind the current key.
func (tx *Tx) walk(bucket wal.Bucket, prefix string, fn func(key string, value []byte) error) error {
	return tx.walkFrom(bucket, prefix, prefix, fn)
}

// walkFrom is walk, starting at the first key that is not smaller than start.
func (tx *Tx) walkFrom(bucket wal.Bucket, start, prefix string, fn func(key string, value []byte) error) error {
	p := []byte(prefix)
	c := tx.rows.Cursor(bucket)
	k, v := c.Seek([]byte(start))
	for k != nil && bytes.HasPrefix(k, p) {
		key, writes := string(k), tx.rows.Writes()
		if err := fn(key, v); err != nil {
			return stop(err)
		}
		if tx.rows.Writes() != writes {
			if k, v = c.Seek([]byte(key)); string(k) != key {
				continue
			}
		}
		k, v = c.Next()
	}
	return nil
}

// walkBack is walk in reverse key order.
func (tx *Tx) walkBack(bucket wal.Bucket, prefix string, fn func(key string, value []byte) error) error {
	p := []byte(prefix)
	c := tx.rows.Cursor(bucket)
	k, v := c.SeekBefore(prefixEnd(prefix))
	for k != nil && bytes.HasPrefix(k, p) {
		key, writes := string(k), tx.rows.Writes()
		if err := fn(key, v); err != nil {
			return stop(err)
		}
		if tx.rows.Writes() != writes {
			k, v = c.SeekBefore([]byte(key))
		} else {
			k, v = c.Next()
		}
	}
	return nil
}

// prefixEnd returns the first key behind all keys that start with prefix; nil if there is none.
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

// stop returns nil for ErrStop, which ends an iteration without an error, and any other error
// unchanged.
func stop(err error) error {
	if errors.Is(err, ErrStop) {
		return nil
	}
	return err
}
