package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"landfall/store/wal"
)

// KeyValue is one version of a row of a versioned bucket.
type KeyValue struct {
	Key      string // in the bucket
	Value    []byte // nil: there is none, or only keys were asked for
	Created  uint64 // revision at which the key got a value
	Modified uint64 // revision of the change that made this version
	Version  uint64 // how many times the key was written since it was created
}

// Versions is the bucket that Options.Versioned names, in etcd's shape: rows with their revisions,
// ranges of keys, the rows as they were at an older revision, and a feed with values (see Watch).
// The values are bytes that the store does not look into. Other descriptions of the bucket, such as
// a Bucket, see the same rows, and what is written by them has its versions as well.
//
// Older versions are kept in the log, as what undoes each change; they go with Compact. A bucket
// that was written to when it was not the versioned one has none of that time.
type Versions struct {
	prefix string
	schema int
	expiry Deadlines
}

// NewVersions describes the versioned bucket of that name, with the schema version of its values
// (see NewBucket).
func NewVersions(name string, schema int) Versions {
	return Versions{prefix: "/" + name + "/", schema: schema, expiry: NewDeadlines(name + "-expiry")}
}

// Prefix is what the bucket's keys begin with in the database: "/<name>/".
func (v Versions) Prefix() string { return v.prefix }

// Expiry says which keys are to be deleted when. It only remembers that: Put and Delete clear a
// key's deadline, and who keeps the bucket deletes what is due.
func (v Versions) Expiry() Deadlines { return v.expiry }

// Get reads the newest version of a key; ErrNotFound if it has no value.
func (v Versions) Get(tx *Tx, key string) (KeyValue, error) {
	r, ok, err := tx.record(v.prefix, key)
	if err == nil && !ok {
		err = fmt.Errorf("%s%s: %w", v.prefix, key, ErrNotFound)
	}
	if err != nil {
		return KeyValue{}, err
	}
	return v.keyValue(tx, key, r)
}

// Put writes a key's value. Unlike with a Bucket the same bytes again are a change.
func (v Versions) Put(tx *Tx, key string, value []byte) error {
	if key == "" {
		return fmt.Errorf("write %s: %w", v.prefix, errEmptyKey)
	}
	if err := tx.write(v.prefix+key, v.schema, append(newRow(v.schema, len(value)), value...), true); err != nil {
		return err
	}
	return v.expiry.Clear(tx, key)
}

// Delete removes a key and its value. A key that has none is no error and no change.
func (v Versions) Delete(tx *Tx, key string) error {
	if err := tx.delete(v.prefix + key); err != nil {
		return err
	}
	return v.expiry.Clear(tx, key)
}

// Range says which rows are wanted.
type Range struct {
	From string // the first key
	End  string // the first key behind; "": up to the bucket's end
	// At is the revision as of which the rows are wanted; 0: the newest. ErrFutureRevision and
	// ErrCompacted if it is not there yet, or no longer.
	At       uint64
	Limit    int  // 0: all
	KeysOnly bool // the rows come without values
	Count    bool // how many there are is wanted as well, whatever the limit
}

func (r Range) holds(key string) bool { return key >= r.From && (r.End == "" || key < r.End) }

// End is the end of the range of all keys that begin with a prefix.
func (v Versions) End(prefix string) string { return string(prefixEnd(prefix)) }

// Range reads rows in the order of their keys. The count is complete if it was asked for, else it
// is that of the rows; more tells whether the limit cut rows off.
func (v Versions) Range(tx *Tx, r Range) (rows []KeyValue, count int, more bool, err error) {
	past, err := v.pastRows(tx, r)
	if err != nil {
		return nil, 0, false, err
	}
	add := func(row KeyValue) error {
		if r.Limit > 0 && len(rows) == r.Limit {
			if more = true; !r.Count {
				return ErrStop
			}
			count++
			return nil
		}
		count++
		row.Value = bytes.Clone(row.Value)
		if r.KeysOnly {
			row.Value = nil
		}
		rows = append(rows, row)
		return nil
	}
	err = v.merge(tx, r, past, add)
	return rows, count, more, err
}

// merge calls fn with the present rows of a range, those of the past in place of them.
func (v Versions) merge(tx *Tx, r Range, past []KeyValue, fn func(KeyValue) error) error {
	before := func(key string) error {
		for len(past) > 0 && (key == "" || past[0].Key < key) {
			row := past[0]
			if past = past[1:]; row.Value == nil {
				continue
			}
			if err := fn(row); err != nil {
				return err
			}
		}
		return nil
	}
	end := ""
	if r.End != "" {
		end = v.prefix + r.End
	}
	ended := false
	err := tx.walkFrom(wal.Data, v.prefix+r.From, v.prefix, func(key string, row []byte) (err error) {
		if end != "" && key >= end {
			return ErrStop
		}
		defer func() { ended = errors.Is(err, ErrStop) }()
		key = key[len(v.prefix):]
		if err := before(key); err != nil {
			return err
		}
		if len(past) > 0 && past[0].Key == key {
			return nil // before gives it with the next key
		}
		present, err := tx.parse(v.prefix+key, row)
		if err != nil {
			return err
		}
		now, err := v.keyValue(tx, key, present)
		if err != nil {
			return err
		}
		return fn(now)
	})
	if err != nil || ended {
		return err
	}
	return stop(before(""))
}

// keyValue is a row as its readers see it. Its value is bbolt's memory.
func (v Versions) keyValue(tx *Tx, key string, r record) (KeyValue, error) {
	value, err := tx.payload(v.prefix+key, v.schema, r.value)
	return KeyValue{Key: key, Value: value, Created: r.created, Modified: r.modified, Version: r.version}, err
}

// pastRows are the rows of a range that were changed since the revision, as they were at it, in the
// order of their keys. Those without a value were not there.
func (v Versions) pastRows(tx *Tx, r Range) ([]KeyValue, error) {
	if r.At == 0 || r.At == tx.Revision() {
		return nil, nil
	}
	if err := tx.checkRevision(r.At); err != nil {
		return nil, fmt.Errorf("read %w", err)
	}
	states := make(map[string]record)
	if err := v.undo(tx, r, r.At, states, func(entry, record, record) error { return nil }); err != nil {
		return nil, err
	}
	rows := make([]KeyValue, 0, len(states))
	for key, state := range states {
		row := KeyValue{Key: key}
		if state.value != nil {
			var err error
			if row, err = v.keyValue(tx, key, state); err != nil {
				return nil, err
			}
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b KeyValue) int { return cmp.Compare(a.Key, b.Key) })
	return rows, nil
}

// undo goes back through the log, from its end to the revision, which it does not reach, and calls
// fn with the changes of a range's rows and the rows before and after. The states come to hold the
// rows as they were at the revision; without a value one was not there.
func (v Versions) undo(tx *Tx, r Range, to uint64, states map[string]record,
	fn func(e entry, before, after record) error) error {
	cursor := tx.rows.Cursor(wal.Log)
	for at, stored := cursor.SeekBefore(nil); at != nil && binary.BigEndian.Uint64(at) > to; at,
		stored = cursor.Next() {
		if !v.concerns(stored, r) {
			continue
		}
		e, err := parseEntry(at, stored)
		if err != nil {
			return tx.db.corruptRow(fmt.Sprintf("%x of the change log", at), err)
		}
		if !e.kept {
			return fmt.Errorf("the change of %s at revision %d kept no value: %w", e.Key, e.Revision, ErrCompacted)
		}
		key := e.Key[len(v.prefix):]
		after, known := states[key]
		if !known && !e.Deleted {
			if after, _, err = tx.record("", e.Key); err != nil {
				return err
			}
		}
		if !e.Deleted && after.modified != e.Revision {
			return tx.db.corruptRow(e.Key, fmt.Errorf("its version of revision %d was made at revision %d", e.Revision,
				after.modified))
		}
		before := e.row
		if before.value, err = e.undo(after.value); err != nil {
			return tx.db.corruptRow(e.Key, fmt.Errorf("its value before revision %d: %w", e.Revision, err))
		}
		states[key] = before
		if err := fn(e, before, after); err != nil {
			return err
		}
	}
	return nil
}

// concerns looks at a log entry no further than it takes to tell whether it is about a row of the
// range.
func (v Versions) concerns(stored []byte, r Range) bool {
	if len(stored) < 2 {
		return true // for parseEntry to refuse
	}
	length, n := binary.Uvarint(stored[1:])
	if n <= 0 || length > uint64(len(stored)-1-n) {
		return true
	}
	key := stored[1+n : 1+n+int(length)]
	return bytes.HasPrefix(key, []byte(v.prefix)) && r.holds(string(key[len(v.prefix):]))
}

// isVersioned tells whether the log keeps every version of a key.
func (db *DB) isVersioned(key string) bool {
	return db.versioned != "" && strings.HasPrefix(key, db.versioned)
}

// Compacted is the revision up to which the log has been cut: what was before it can not be read
// any more.
func (tx *Tx) Compacted() uint64 { return tx.number(compactedKey) }
