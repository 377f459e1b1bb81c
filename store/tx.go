package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"landfall/store/wal"
)

// Tx is the transaction of a View or an Update. It is valid until the function that received it
// returns. It must be used by one goroutine only.
//
// The Tx of an update belongs to a commit group (see package wal): all updates of the group use it,
// one after the other.
type Tx struct {
	db   *DB
	rows wal.Tx

	key []byte // scratch space for the current key
	// memory for the clear value of a row, used again for the next row; nil: each value has its own
	opened []byte

	// The fields below are used in an update only.
	rev     uint64 // revision of the last change
	changes []Change
	values  []ValueChange // changes of versioned rows
	first   uint64        // revision of the first change of the current update
	saved   savepoint     // state before the current update
	// decoded values of rows that the current update wrote, by key, and those of the earlier
	// updates of the group
	recent map[string]*decodedRow
	ended  []*decodedRow
	// applied reports that the changes come from a shared log, so values lacks them
	applied bool
	refers  bool // files begin to refer to contents

	// The fields below are used in an update of a database with a history only: see Note.
	note      func() []byte
	describes bool // set if the current row is that of a file
}

// savepoint is a state of a transaction that can be restored.
type savepoint struct {
	rev             uint64
	changes, values int32 // lengths
}

// groupState is a Tx with the methods that package wal needs: the state of a commit group.
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
	for _, row := range g.recent {
		g.ended = append(g.ended, row)
	}
	clear(g.recent)
	g.first, g.note = (*Tx)(g).Next(), nil
}

// RollbackUpdate implements wal.GroupState.
func (g *groupState) RollbackUpdate() {
	clear(g.values[g.saved.values:])
	clear(g.recent)
	g.rev, g.changes, g.values = g.saved.rev, g.changes[:g.saved.changes], g.values[:g.saved.values]
}

// Seal implements wal.GroupState. It writes the last revision of the group.
func (g *groupState) Seal() error {
	if len(g.changes) == 0 || g.applied {
		return nil
	}
	return (*Tx)(g).set(wal.Meta, string(revisionKey), binary.BigEndian.AppendUint64(nil, g.rev))
}

// Committed implements wal.GroupState. It caches the decoded values of written rows, and sends the
// changes to the watchers.
func (g *groupState) Committed(show func()) {
	for _, row := range g.ended {
		g.db.decoded.put(row)
	}
	for _, row := range g.recent {
		g.db.decoded.put(row)
	}
	g.db.feed.publish(show, g.rev, g.changes, mergeUpdates(g.values), g.applied)
	if g.refers {
		select {
		case g.db.references <- struct{}{}:
		default:
		}
	}
}

// Applied implements wal.GroupState. It notes the changes that a follower applies.
func (g *groupState) Applied(bucket wal.Bucket, key, value []byte) {
	switch {
	case bucket == wal.Meta && bytes.Equal(key, revisionKey):
		g.rev = parseNumber(value)
	case bucket == wal.Log && value != nil:
		// An entry that was sealed again has an older revision and is not a change.
		change, err := parseChange(key, value)
		if err == nil && change.Revision > g.saved.rev {
			g.changes = append(g.changes, change)
			g.applied = true
		}
	case bucket == wal.Index && value != nil && bytes.HasPrefix(key, []byte(blobReference("", ""))):
		g.refers = true
	}
}

// Rollback implements wal.GroupState. The revisions of the group are not used again.
func (g *groupState) Rollback() { g.db.floor = max(g.db.floor, g.rev+1) }

// update is a function passed to Update.
type update func(*Tx) error

// Run implements wal.Updater.
func (fn update) Run(state wal.GroupState) error { return fn((*Tx)(state.(*groupState))) }

// Await implements wal.Updater.
func (update) Await() error { return nil }

// lateUpdate is an update with a context of After.
type lateUpdate struct {
	update
	await func() error
}

// Await implements wal.Updater.
func (u *lateUpdate) Await() error { return u.await() }

// Revision returns the revision of the newest change that the transaction contains, including its
// own changes.
func (tx *Tx) Revision() uint64 {
	if tx.rows.Writable() {
		return tx.rev
	}
	return tx.number(revisionKey)
}

// Next returns the revision of the next change. It is useful in updates only.
func (tx *Tx) Next() uint64 { return max(tx.rev+1, tx.db.floor) }

// checkRevision returns an error if the state at a revision, or a change since then, cannot be
// read. It returns ErrFutureRevision for a revision that does not exist yet. It returns
// ErrCompacted for a revision that was compacted or is not in the change log. A revision is missing
// if a copy of the database was restored.
func (tx *Tx) checkRevision(revision uint64) error {
	now, compacted := tx.Revision(), tx.Compacted()
	switch {
	case revision > now:
		return fmt.Errorf("revision %d of %d: %w", revision, now, ErrFutureRevision)
	case revision < compacted:
		return fmt.Errorf("revision %d, the change log begins after %d: %w", revision, compacted, ErrCompacted)
	case revision == compacted || revision == now:
		return nil
	}
	if tx.rows.Get(wal.Log, []byte(logKey(revision))) == nil {
		return fmt.Errorf("revision %d does not exist in this database: %w", revision, ErrCompacted)
	}
	return nil
}

// number returns a number of the meta bucket, or 0 if it was never written.
func (tx *Tx) number(key []byte) uint64 { return parseNumber(tx.rows.Get(wal.Meta, key)) }

func parseNumber(value []byte) uint64 {
	if len(value) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(value)
}

// join returns a key in the transaction's scratch space. The key is valid until the next call of
// join.
func (tx *Tx) join(prefix, key string) []byte {
	tx.key = append(append(tx.key[:0], prefix...), key...)
	return tx.key
}

// set writes a row. The value must not be nil and must not be changed afterwards.
func (tx *Tx) set(bucket wal.Bucket, key string, value []byte) error {
	if err := tx.rows.Put(bucket, tx.join(key, ""), value); err != nil {
		return writeError(key, err)
	}
	return nil
}

// remove deletes a row. A missing row is not an error.
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

// recordHeader is the size of the header of a row in the data bucket. The header has four numbers
// of 8 bytes: create revision, mod revision, version (number of writes since the creation) and
// expiry (unused, 0).
const recordHeader = 32

// record is a row of the data bucket. Its value may be memory of bbolt: it must not be changed, and
// is valid during the transaction only.
type record struct {
	created, modified, version uint64
	value                      []byte
}

// record reads a row of the data bucket. ok is false if the row does not exist.
func (tx *Tx) record(prefix, key string) (r record, ok bool, err error) {
	row := tx.rows.Get(wal.Data, tx.join(prefix, key))
	if row == nil {
		return record{}, false, nil
	}
	r, err = tx.parse(prefix+key, row)
	return r, err == nil, err
}

// parse parses a stored row and opens its value.
func (tx *Tx) parse(key string, row []byte) (record, error) {
	r, err := tx.parseHeader(key, row)
	if err != nil {
		return record{}, err
	}
	return tx.open(key, row, r)
}

// parseHeader parses a stored row. The value stays sealed.
func (tx *Tx) parseHeader(key string, row []byte) (record, error) {
	if len(row) < recordHeader {
		return record{}, tx.db.damaged(key, fmt.Errorf("the row has %d bytes", len(row)))
	}
	return record{
		created:  binary.BigEndian.Uint64(row),
		modified: binary.BigEndian.Uint64(row[8:]),
		version:  binary.BigEndian.Uint64(row[16:]),
		value:    row[recordHeader:],
	}, nil
}

// newRow returns the start of a row of the data bucket: empty space for the header, then the schema
// version of the value. It has capacity for a value of the given size in bytes.
func newRow(schemaVersion, size int) []byte {
	row := make([]byte, recordHeader, recordHeader+binary.MaxVarintLen64+size)
	return binary.AppendUvarint(row, uint64(schemaVersion))
}

// payload returns a value without its schema version. It returns *NewerSchemaError if that version
// is not supported.
func (tx *Tx) payload(key string, supported int, value []byte) ([]byte, error) {
	version, n := binary.Uvarint(value)
	if n <= 0 {
		return nil, tx.db.damaged(key, errors.New("the value has no schema version"))
	}
	if version > uint64(supported) {
		return nil, &NewerSchemaError{Path: tx.db.path, Key: key, Version: int(version), Supported: supported}
	}
	return value[n:], nil
}

// put completes a row that newRow started and writes it to the data bucket and to the change log.
// The caller must not change the row afterwards. Writing the same value is not a change. put does
// not replace a value with an unsupported schema version. It replaces a damaged row.
func (tx *Tx) put(key string, supported int, row []byte) error {
	return tx.write(key, supported, row, false)
}

// write does the same as put. If again is set, writing the same value is a change.
func (tx *Tx) write(key string, supported int, row []byte, again bool) error {
	if !tx.rows.Writable() {
		return writeError(key, ErrReadOnly)
	}
	oldRow := tx.rows.Get(wal.Data, tx.join(key, ""))
	next := tx.Next()
	old := record{created: next}
	if oldRow != nil {
		var err error
		switch old, err = tx.parse(key, oldRow); {
		case IsDamaged(err):
			if err := tx.setAside(key, oldRow, err); err != nil {
				return err
			}
			next = tx.Next()
			old = record{created: next}
		case err != nil:
			return err
		default:
			if _, err := tx.payload(key, supported, old.value); err != nil {
				return err
			}
			if !again && bytes.Equal(old.value, row[recordHeader:]) {
				return nil
			}
		}
	}
	binary.BigEndian.PutUint64(row, old.created)
	binary.BigEndian.PutUint64(row[8:], next)
	binary.BigEndian.PutUint64(row[16:], old.version+1)
	stored, err := sealRow(tx.db.ring, key, row)
	if err != nil {
		return writeError(key, err)
	}
	if err := tx.set(wal.Data, key, stored); err != nil {
		return err
	}
	return tx.logChange(key, kindPut, old, record{old.created, next, old.version + 1, row[recordHeader:]})
}

// delete deletes a row of the data bucket and writes the change to the change log. Deleting a
// missing row is not an error and not a change.
func (tx *Tx) delete(key string) error {
	if !tx.rows.Writable() {
		return writeError(key, ErrReadOnly)
	}
	stored := tx.rows.Get(wal.Data, tx.join(key, ""))
	if stored == nil {
		return nil
	}
	old, err := tx.parse(key, stored)
	if IsDamaged(err) {
		old, err = record{}, tx.setAside(key, stored, err)
	}
	if err != nil {
		return err
	}
	if err := tx.remove(wal.Data, key); err != nil {
		return err
	}
	return tx.logChange(key, kindDelete, old, record{})
}

// The kinds of changes in the change log.
const (
	kindPut    = 1
	kindDelete = 2
)

// logChange increments the revision and writes the change to the change log. before and after are
// the rows before and after the change; a nil value means that the row did not exist.
func (tx *Tx) logChange(key string, kind byte, before, after record) error {
	entry := make([]byte, 0, 1+binary.MaxVarintLen32+len(key))
	entry = binary.AppendUvarint(append(entry, kind), uint64(len(key)))
	entry = append(entry, key...)
	history := len(entry)
	entry = tx.appendHistory(entry, key, before, after)
	tx.rev = tx.Next()
	entry, err := sealHistory(tx.db.ring, logKey(tx.rev), entry, history)
	if err != nil {
		return writeError(key, err)
	}
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

// parseChange parses a log entry without its history: see entry.
func parseChange(key, entry []byte) (Change, error) {
	if len(key) != 8 {
		return Change{}, errors.New("the log entry's revision is too short")
	}
	end, err := historyOffset(entry)
	if err != nil {
		return Change{}, err
	}
	_, n := binary.Uvarint(entry[1:])
	return Change{
		Revision: binary.BigEndian.Uint64(key),
		Key:      string(entry[1+n : end]),
		Deleted:  entry[0] == kindDelete,
	}, nil
}

// walk calls fn with each row whose key starts with prefix, in key order. fn may write: the
// iteration continues after the current key.
func (tx *Tx) walk(bucket wal.Bucket, prefix string, fn func(key string, value []byte) error) error {
	return tx.walkFrom(bucket, prefix, prefix, fn)
}

// walkFrom does the same as walk, starting at the first key that is not smaller than start.
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

// walkBack does the same as walk, in reverse key order.
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

// prefixEnd returns the first key after all keys that start with prefix, or nil if no such key
// exists.
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

// stop returns nil for ErrStop and any other error unchanged.
func stop(err error) error {
	if errors.Is(err, ErrStop) {
		return nil
	}
	return err
}
