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
	Value    []byte // nil if the key has no value, or if only keys were requested
	Created  uint64 // revision of the key's creation
	Modified uint64 // revision of the change that wrote this version
	Version  uint64 // number of writes to the key since its creation
}

// Versions is the bucket named by Options.Versioned. Its model is etcd: rows with revisions, ranges
// of keys, reads at an older revision, and watches with values (see Watch). The values are opaque
// bytes. A Bucket of the same name contains the same rows, and its writes create versions too.
//
// Older versions are stored in the change log, as deltas against newer versions. Compact removes
// them. Changes made before the bucket became the versioned one have no older versions.
type Versions struct {
	prefix string
	schema int
	expiry Deadlines
}

// NewVersions describes the versioned bucket with the given name and the schema version of its
// values (see NewBucket).
func NewVersions(name string, schema int) Versions {
	return Versions{prefix: "/" + name + "/", schema: schema, expiry: NewDeadlines(name + "-expiry")}
}

// Prefix returns the start of the bucket's keys in the database: "/<name>/".
func (v Versions) Prefix() string { return v.prefix }

// Expiry returns the deadlines at which keys must be deleted. The user of the bucket deletes the
// keys, not the store. Put and Delete clear the deadline of a key.
func (v Versions) Expiry() Deadlines { return v.expiry }

// Get returns the newest version of a key. It returns ErrNotFound if the key has no value.
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

// Put writes the value of a key. Unlike in a Bucket, writing the same value is a change.
func (v Versions) Put(tx *Tx, key string, value []byte) error {
	if key == "" {
		return fmt.Errorf("write %s: %w", v.prefix, errEmptyKey)
	}
	if err := tx.write(v.prefix+key, v.schema, append(newRow(v.schema, len(value)), value...), true); err != nil {
		return err
	}
	return v.expiry.Clear(tx, key)
}

// Delete deletes a key and its value. Deleting a missing key is not an error and not a change.
func (v Versions) Delete(tx *Tx, key string) error {
	if err := tx.delete(v.prefix + key); err != nil {
		return err
	}
	return v.expiry.Clear(tx, key)
}

// Range selects rows.
type Range struct {
	From string // first key
	End  string // first key after the range; "": the range extends to the end of the bucket
	// At is the revision at which the rows are read; 0: the newest. A revision that does not exist
	// yet returns ErrFutureRevision, a compacted revision ErrCompacted.
	At       uint64
	Limit    int  // maximum number of rows; 0: all
	KeysOnly bool // return the rows without values
	Count    bool // count all rows of the range, regardless of Limit
}

func (r Range) contains(key string) bool { return key >= r.From && (r.End == "" || key < r.End) }

// End returns the end of the range of all keys that start with a prefix.
func (v Versions) End(prefix string) string { return string(prefixEnd(prefix)) }

// Range returns rows in key order. count is the number of rows in the range if r.Count is set,
// otherwise the number of returned rows. more reports whether Limit cut off rows.
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

// Each calls fn with the rows from a key on, in key order. The values are only valid during the
// call. ErrStop from fn stops the iteration.
func (v Versions) Each(tx *Tx, from string, fn func(KeyValue) error) error {
	own := *tx // fn may read other rows
	own.key, own.opened = nil, make([]byte, 0, 64<<10)
	return v.merge(&own, Range{From: from}, nil, fn)
}

// merge calls fn with the rows of a range, in key order: a past row if past contains the key,
// otherwise the current row.
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
			return nil // before(next key) passes the past row to fn
		}
		present, err := tx.parse(v.prefix+key, row)
		if err != nil {
			return SkipDamaged(err)
		}
		now, err := v.keyValue(tx, key, present)
		if err != nil {
			return SkipDamaged(err)
		}
		return fn(now)
	})
	if err != nil || ended {
		return err
	}
	return stop(before(""))
}

// keyValue converts a row to its exported form. Its value is memory of bbolt.
func (v Versions) keyValue(tx *Tx, key string, r record) (KeyValue, error) {
	value, err := tx.payload(v.prefix+key, v.schema, r.value)
	return KeyValue{Key: key, Value: value, Created: r.created, Modified: r.modified, Version: r.version}, err
}

// pastRows returns the rows of a range that were changed after the revision r.At, in their state at
// that revision and in key order. A row without a value did not exist.
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

// undo reads the change log backward from its end to the revision to, exclusive. It calls fn with
// each change of a row in the range, and with the row before and after the change. Finally, states
// contains the rows at the revision; a row without a value did not exist.
func (v Versions) undo(tx *Tx, r Range, to uint64, states map[string]record,
	fn func(e entry, before, after record) error) error {
	cursor := tx.rows.Cursor(wal.Log)
	for at, stored := cursor.SeekBefore(nil); at != nil && binary.BigEndian.Uint64(at) > to; at,
		stored = cursor.Next() {
		if !v.mayConcern(stored, r) {
			continue
		}
		e, err := tx.entry(at, stored)
		if err != nil {
			return compacted(tx.db.damaged(logName(at), err))
		}
		if !e.kept {
			return fmt.Errorf("the change log has no previous value for the change of %s at revision %d: %w", e.Key,
				e.Revision, ErrCompacted)
		}
		key := e.Key[len(v.prefix):]
		after, found := states[key]
		if !found && !e.Deleted {
			if after, _, err = tx.record("", e.Key); err != nil {
				return compacted(err)
			}
		}
		if !e.Deleted && after.modified != e.Revision {
			return compacted(tx.db.damaged(e.Key, fmt.Errorf(
				"the change log contains revision %d, but the row has revision %d", e.Revision, after.modified)))
		}
		before := e.row
		if before.value, err = e.undo(after.value); err != nil {
			return compacted(tx.db.damaged(logName(at), fmt.Errorf("reconstruct the former value of %s: %w", e.Key,
				err)))
		}
		states[key] = before
		if err := fn(e, before, after); err != nil {
			return err
		}
	}
	return nil
}

// compacted returns ErrCompacted for an older state that damage makes unreadable. Clients then read
// the present state.
func compacted(err error) error {
	if IsDamaged(err) {
		return fmt.Errorf("%w: %w", ErrCompacted, err)
	}
	return err
}

// mayConcern reports whether a log entry may concern a row of the range. It parses only the key. It
// returns true for a damaged entry.
func (v Versions) mayConcern(stored []byte, r Range) bool {
	if len(stored) < 2 {
		return true // entry rejects it
	}
	length, n := binary.Uvarint(stored[1:])
	if n <= 0 || length > uint64(len(stored)-1-n) {
		return true
	}
	key := stored[1+n : 1+n+int(length)]
	return bytes.HasPrefix(key, []byte(v.prefix)) && r.contains(string(key[len(v.prefix):]))
}

// isVersioned reports whether the change log keeps all versions of a key.
func (db *DB) isVersioned(key string) bool {
	return db.versioned != "" && strings.HasPrefix(key, db.versioned)
}

// Compacted returns the revision up to which the change log was compacted. States before it cannot
// be read.
func (tx *Tx) Compacted() uint64 { return tx.number(compactedKey) }
