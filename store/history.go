package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/klauspost/compress/s2"

	"landfall/store/delta"
	"landfall/store/wal"
)

// A database that is told to keeps its history: each entry of the log then says what the value was
// before, as a delta against what it became, and the first one of each update what the update was
// about. So any earlier value is found by walking back from the present one, the oldest entries can
// be dropped at any time, and writing costs no key and no page of its own: a creation adds a few
// bytes to the entry that is written anyway, a change some tens.
//
// Behind its key an entry goes on with a byte of flags and, as uvarint, how many entries of the
// same update were before it; then, as the flags say, a note (length as uvarint, then bytes), the
// create revision, mod revision and version of the row that was (as uvarint), and the delta, to the
// end.

const (
	hasNote     = 1 << iota // a note follows
	hasBefore               // a delta to the value before follows; without it there was none
	isPacked                // the delta is compressed (S2)
	isDescribed             // of a file: the values are its descriptions, its contents are not kept
	hasRow                  // the numbers of the row that was follow, of versioned rows that were there
)

const (
	// packFrom is the length in bytes from which a delta is compressed, which pays for what was
	// deleted or wholly replaced.
	packFrom = 512
	// valueLimit bounds a value that is read back, in bytes.
	valueLimit = 1 << 30
)

// History says which changes are kept for Tx.History, and how much of them. The zero value keeps
// none.
type History struct {
	// Owner names whose history the changes of a key belong to; those of "" are not kept.
	Owner func(key string) string
	// OwnerBytes and Bytes bound what is kept for one owner and in all; the oldest goes first. Only
	// entries that no watch can begin at any more are dropped: see Compact.
	OwnerBytes, Bytes int64
}

// history is what a database with a history needs beside its rows.
type history struct {
	History

	// Of Compact, one at a time:
	counting chan struct{} // holds one item while somebody compacts
	counted  uint64        // the revision up to which sizes is complete
	sizes    map[string]int64
	size     int64
}

func newHistory(h History) *history {
	if h.Owner == nil {
		return nil
	}
	return &history{History: h, counting: make(chan struct{}, 1), sizes: make(map[string]int64)}
}

// Note has the history say what the update that runs is about. The text is asked for when the
// update writes something.
func (tx *Tx) Note(text func() []byte) { tx.note = text }

// beginUpdate separates an update from the one before it in the same transaction.
func (tx *Tx) beginUpdate() { tx.first, tx.note = tx.Next(), nil }

// past appends to a log entry what is kept of a change. The records are those before and after;
// without a value there was none.
func (tx *Tx) appendHistory(entry []byte, key string, before, after record) []byte {
	owned, versioned := tx.db.history != nil && tx.db.history.Owner(key) != "", tx.db.isVersioned(key)
	if !owned && !versioned {
		return entry
	}
	at := len(entry)
	entry = append(entry, 0)
	entry = binary.AppendUvarint(entry, tx.Next()-tx.first)
	flags := byte(0)
	if owned && tx.note != nil {
		text := tx.note()
		tx.note = nil
		flags |= hasNote
		entry = append(binary.AppendUvarint(entry, uint64(len(text))), text...)
	}
	if versioned && before.value != nil {
		flags |= hasRow
		for _, number := range []uint64{before.created, before.modified, before.version} {
			entry = binary.AppendUvarint(entry, number)
		}
	}
	if tx.describes {
		flags |= isDescribed
		before.value, after.value = description(before.value), description(after.value)
	}
	if before.value != nil {
		flags |= hasBefore
		var packed byte
		entry, packed = tx.db.deltas.append(entry, after.value, before.value)
		flags |= packed
	}
	entry[at] = flags
	return entry
}

// deltaEncoder writes deltas.
type deltaEncoder struct {
	encoder delta.Encoder
	scratch []byte
}

// append adds the delta that makes before out of after, and returns the flag that tells how it is
// packed.
func (p *deltaEncoder) append(entry, after, before []byte) ([]byte, byte) {
	p.scratch = p.encoder.Append(p.scratch[:0], after, before)
	if len(p.scratch) < packFrom {
		return append(entry, p.scratch...), 0
	}
	return append(entry, s2.Encode(nil, p.scratch)...), isPacked
}

// description is a file's value without the file's content.
func description(value []byte) []byte {
	_, n := binary.Uvarint(value)
	if n <= 0 {
		return value
	}
	length, m := binary.Uvarint(value[n:])
	if m <= 0 || length > uint64(len(value)-n-m) {
		return value
	}
	return value[:n+m+int(length)]
}

// text is the JSON in a value.
func text(value []byte, described bool) []byte {
	if value == nil {
		return nil
	}
	_, n := binary.Uvarint(value)
	value = value[max(n, 0):]
	if described {
		_, n = binary.Uvarint(value)
		value = value[max(n, 0):]
	}
	return bytes.Clone(value)
}

// Step is one update of the past, or what is left of it.
type Step struct {
	// First is the revision of the update's first change, whether it is among the changes or not.
	First uint64
	// Note is what the update said it was about; nil if it said nothing or that has dropped out.
	Note []byte
	// Changes are those that were asked for, in order.
	Changes []PastChange
}

// PastChange is a change with the value's JSON before and after; nil is none. Of a file it is the
// description.
type PastChange struct {
	Change
	Before, After []byte
}

// entry is what the log holds of one change.
type entry struct {
	Change
	first  uint64
	flags  byte
	note   []byte
	row    record // the numbers of the row that was, if the flags say so
	before []byte // delta
	kept   bool   // the history was kept when it was written
}

func parseEntry(key, stored []byte) (entry, error) {
	change, err := parseChange(key, stored)
	e := entry{Change: change, first: change.Revision}
	if err != nil {
		return e, err
	}
	_, n := binary.Uvarint(stored[1:])
	rest := stored[1+n+len(change.Key):]
	if len(rest) == 0 {
		return e, nil
	}
	e.kept, e.flags, rest = true, rest[0], rest[1:]
	number, n := binary.Uvarint(rest)
	if n <= 0 || number >= change.Revision {
		return e, errors.New("the log entry has no place in its update")
	}
	e.first, rest = change.Revision-number, rest[n:]
	if e.flags&hasNote != 0 {
		length, n := binary.Uvarint(rest)
		if n <= 0 || length > uint64(len(rest)-n) {
			return e, errors.New("the log entry's note is cut off")
		}
		e.note, rest = rest[n:n+int(length)], rest[n+int(length):]
	}
	if e.flags&hasRow != 0 {
		for _, number := range []*uint64{&e.row.created, &e.row.modified, &e.row.version} {
			var n int
			if *number, n = binary.Uvarint(rest); n <= 0 {
				return e, errors.New("the log entry's numbers of the row are cut off")
			}
			rest = rest[n:]
		}
	}
	e.before = rest
	return e, nil
}

// undo returns the value before a change, given the one after it.
func (e entry) undo(after []byte) ([]byte, error) {
	if e.flags&hasBefore == 0 {
		return nil, nil
	}
	made := e.before
	if e.flags&isPacked != 0 {
		var err error
		if made, err = s2.Decode(nil, made); err != nil {
			return nil, err
		}
	}
	return delta.Apply(after, made, valueLimit)
}

// History calls fn with the updates of the past that changed keys which are wanted, the newest
// first, as far back as they are kept. ErrStop from fn ends it early. A key's history ends where
// its older changes have dropped out, or at a change that was made when no history was kept.
func (tx *Tx) History(wants func(key string) bool, fn func(*Step) error) error {
	values := make(map[string][]byte) // of wanted keys, as they were after the change that comes next
	ended := make(map[string]bool)    // keys whose history ends
	var step *Step
	flush := func() error {
		if step == nil || len(step.Changes) == 0 {
			return nil
		}
		for i, j := 0, len(step.Changes)-1; i < j; i, j = i+1, j-1 {
			step.Changes[i], step.Changes[j] = step.Changes[j], step.Changes[i]
		}
		return fn(step)
	}
	cursor := tx.rows.Cursor(wal.Log)
	for key, stored := cursor.SeekBefore(nil); key != nil; key, stored = cursor.Next() {
		e, err := parseEntry(key, stored)
		if err != nil {
			return tx.db.corruptRow(fmt.Sprintf("%x of the change log", key), err)
		}
		if step == nil || step.First != e.first {
			if err := flush(); err != nil {
				return stop(err)
			}
			step = &Step{First: e.first}
		}
		if e.note != nil {
			step.Note = bytes.Clone(e.note)
		}
		if !wants(e.Key) || ended[e.Key] {
			continue
		}
		if !e.kept {
			ended[e.Key] = true
			continue
		}
		change, before, err := tx.reconstruct(e, values)
		if err != nil {
			return tx.db.corruptRow(e.Key, fmt.Errorf("its value before revision %d: %w", e.Revision, err))
		}
		values[e.Key] = before
		step.Changes = append(step.Changes, change)
	}
	return stop(flush())
}

// reconstruct finds out what a change was; values holds the later values of keys that were come
// across already.
func (tx *Tx) reconstruct(e entry, values map[string][]byte) (change PastChange, before []byte, err error) {
	described := e.flags&isDescribed != 0
	after, known := values[e.Key]
	if !known && !e.Deleted {
		r, ok, err := tx.record("", e.Key)
		if err != nil || !ok {
			return change, nil, errors.Join(err, errors.New("the row is missing"))
		}
		if after = r.value; described {
			after = description(after)
		}
	}
	if e.Deleted {
		after = nil
	}
	if before, err = e.undo(after); err != nil {
		return change, nil, err
	}
	return PastChange{Change: e.Change, Before: text(before, described), After: text(after, described)}, before, nil
}

// Row is a row as it is now.
type Row struct {
	JSON    []byte // of a file: its description
	Version uint64 // how many times it was written since it was created
}

// Rows calls fn in key order with the rows of all kinds whose keys begin with prefix, which begins
// with a slash. ErrStop from fn ends it early. Files says that those are files.
func (tx *Tx) Rows(prefix string, files bool, fn func(key string, row Row) error) error {
	return tx.walk(wal.Data, prefix, func(key string, stored []byte) error {
		r, err := tx.parse(key, stored)
		if err != nil {
			return err
		}
		value := r.value
		if files {
			value = description(value)
		}
		return fn(key, Row{JSON: text(value, files), Version: r.version})
	})
}

// entryOverhead is about what an entry takes in the file beside its bytes: its key and bbolt's note
// of it.
const entryOverhead = 24

// trim drops the oldest of what is kept beyond the bounds, of the entries up to and including the
// revision.
func (db *DB) trim(ctx context.Context, revision uint64) error {
	h := db.history
	select {
	case h.counting <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-h.counting }()
	var drop []uint64
	err := db.View(func(tx *Tx) error {
		if err := h.count(tx, revision); err != nil || !h.exceeded() {
			return err
		}
		var err error
		drop, err = h.choose(tx, revision)
		return err
	})
	for err == nil && len(drop) > 0 {
		batch := drop[:min(len(drop), compactBatch)]
		err = db.Update(ctx, func(tx *Tx) error {
			for _, at := range batch {
				if err := tx.remove(wal.Log, logKey(at)); err != nil {
					return err
				}
			}
			return nil
		})
		drop = drop[len(batch):]
	}
	if err != nil {
		h.counted, h.size = 0, 0 // counted anew the next time
		clear(h.sizes)
	}
	return err
}

// count adds the entries that came since the last count.
func (h *history) count(tx *Tx, revision uint64) error {
	cursor := tx.rows.Cursor(wal.Log)
	for key, stored := cursor.Seek([]byte(logKey(h.counted + 1))); key != nil; key, stored = cursor.Next() {
		change, err := parseChange(key, stored)
		if err != nil {
			return tx.db.corruptRow(fmt.Sprintf("%x of the change log", key), err)
		}
		if change.Revision > revision {
			break
		}
		h.add(h.Owner(change.Key), int64(len(stored)+entryOverhead))
		h.counted = change.Revision
	}
	return nil
}

func (h *history) add(owner string, bytes int64) {
	h.size += bytes
	if h.sizes[owner] += bytes; h.sizes[owner] == 0 {
		delete(h.sizes, owner)
	}
}

func (h *history) exceeded() bool {
	if h.size > h.Bytes {
		return true
	}
	for _, size := range h.sizes {
		if size > h.OwnerBytes {
			return true
		}
	}
	return false
}

// choose lists the entries to drop. What exceeds a bound is brought an eighth below it, so that it
// is not looked for each time.
func (h *history) choose(tx *Tx, revision uint64) ([]uint64, error) {
	excess := make(map[string]int64)
	for owner, size := range h.sizes {
		if size > h.OwnerBytes {
			excess[owner] = size - h.OwnerBytes*7/8
		}
	}
	all := int64(0)
	if h.size > h.Bytes {
		all = h.size - h.Bytes*7/8
	}
	var drop []uint64
	cursor := tx.rows.Cursor(wal.Log)
	for key, stored := cursor.Seek(nil); key != nil; key, stored = cursor.Next() {
		change, err := parseChange(key, stored)
		if err != nil {
			return nil, tx.db.corruptRow(fmt.Sprintf("%x of the change log", key), err)
		}
		if change.Revision > revision {
			break
		}
		owner, size := h.Owner(change.Key), int64(len(stored)+entryOverhead)
		if excess[owner] <= 0 && all <= 0 {
			continue
		}
		excess[owner] -= size
		all -= size
		h.add(owner, -size)
		drop = append(drop, change.Revision)
	}
	return drop, nil
}
