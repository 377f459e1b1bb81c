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

// The change log contains the history of values if Options.History selects their keys. A log entry
// then also contains the previous value, as a delta against the new value. The first entry of an
// update also contains the note of the update. To reconstruct an earlier value, the deltas are
// applied backward from the current value. The oldest entries can be dropped at any time. The
// history needs no additional keys or pages: a creation adds a few bytes to its log entry, a change
// some tens of bytes.
//
// Format: after its key, an entry has a byte of flags and the number of earlier entries of the same
// update (uvarint). Depending on the flags, these parts follow: a note (length as uvarint, then
// bytes); create revision, mod revision and version of the previous row (uvarints); the delta, up
// to the end.

const (
	hasNote     = 1 << iota // a note follows
	hasBefore               // a delta to the previous value follows; if not set, there was no value
	isPacked                // the delta is compressed (S2)
	isDescribed             // the row is that of a file: the values are descriptions, without contents
	// create revision, mod revision and version of the previous row follow (versioned rows only)
	hasRow
)

const (
	// packFrom is the smallest delta that is compressed, in bytes. Compression pays for values that
	// were deleted or replaced as a whole.
	packFrom = 512
	// valueLimit is the maximum size in bytes of a reconstructed value.
	valueLimit = 1 << 30
)

// History selects the changes that are kept for Tx.History and limits their size. The zero value
// selects no changes.
type History struct {
	// Owner returns the owner of a key's history, or "" if the key has no history.
	Owner func(key string) string
	// OwnerBytes limits the size of the history of one owner, Bytes that of all owners. The oldest
	// entries are dropped first. An entry that a watch may still need is not dropped: see Compact.
	OwnerBytes, Bytes int64
}

// history is the state of the history of a database.
type history struct {
	History

	// sizesLock holds one item while the history is trimmed. It guards the fields below.
	sizesLock chan struct{}
	counted   uint64           // sizes contains all entries up to this revision
	sizes     map[string]int64 // by owner, in bytes
	size      int64            // of all owners
}

func newHistory(h History) *history {
	if h.Owner == nil {
		return nil
	}
	return &history{History: h, sizesLock: make(chan struct{}, 1), sizes: make(map[string]int64)}
}

// Note sets the function that returns the note of the current update. It is called at the first
// change that the history keeps.
func (tx *Tx) Note(text func() []byte) { tx.note = text }

// appendHistory appends the history of a change to a log entry. before and after are the rows
// before and after the change; a nil value means that the row did not exist.
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

// deltaEncoder appends deltas to log entries.
type deltaEncoder struct {
	encoder delta.Encoder
	scratch []byte
}

// append appends the delta that converts after into before. It returns isPacked if the delta is
// compressed, else 0.
func (p *deltaEncoder) append(entry, after, before []byte) ([]byte, byte) {
	p.scratch = p.encoder.Append(p.scratch[:0], after, before)
	if len(p.scratch) < packFrom {
		return append(entry, p.scratch...), 0
	}
	return append(entry, s2.Encode(nil, p.scratch)...), isPacked
}

// description returns the description in the value of a file.
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

// text returns the JSON in a value.
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

// Step is a past update. It contains only the changes that were not dropped from the history.
type Step struct {
	// First is the revision of the update's first change. Changes may not contain that change.
	First uint64
	// Note is the note of the update. It is nil if the update had no note or the note was dropped.
	Note []byte
	// Changes contains the selected changes, in order.
	Changes []PastChange
}

// PastChange is a change with the JSON before and after it; nil means that the key had no value.
// For a file, the JSON is the description.
type PastChange struct {
	Change
	Before, After []byte
}

// entry is an entry of the change log.
type entry struct {
	Change
	first  uint64
	flags  byte
	note   []byte
	row    record // create revision, mod revision and version of the previous row, if hasRow is set
	before []byte // the delta to the previous value
	kept   bool   // true if the entry has a history
}

// entry parses a log entry with its history.
func (tx *Tx) entry(key, stored []byte) (entry, error) {
	change, err := parseChange(key, stored)
	e := entry{Change: change, first: change.Revision}
	if err != nil {
		return e, err
	}
	if stored, err = openHistory(tx.db.ring, key, stored); err != nil {
		return e, err
	}
	at, err := historyOffset(stored)
	if err != nil {
		return e, err
	}
	rest := stored[at:]
	if len(rest) == 0 {
		return e, nil
	}
	e.kept, e.flags, rest = true, rest[0], rest[1:]
	number, n := binary.Uvarint(rest)
	if n <= 0 || number >= change.Revision {
		return e, errors.New("the log entry does not contain its position in the update")
	}
	e.first, rest = change.Revision-number, rest[n:]
	if e.flags&hasNote != 0 {
		length, n := binary.Uvarint(rest)
		if n <= 0 || length > uint64(len(rest)-n) {
			return e, errors.New("the log entry's note is truncated")
		}
		e.note, rest = rest[n:n+int(length)], rest[n+int(length):]
	}
	if e.flags&hasRow != 0 {
		for _, number := range []*uint64{&e.row.created, &e.row.modified, &e.row.version} {
			var n int
			if *number, n = binary.Uvarint(rest); n <= 0 {
				return e, errors.New("the log entry's revisions of the previous row are truncated")
			}
			rest = rest[n:]
		}
	}
	e.before = rest
	return e, nil
}

// undo returns the value before the change, given the value after it.
func (e entry) undo(after []byte) ([]byte, error) {
	if e.flags&hasBefore == 0 {
		return nil, nil
	}
	encoded := e.before
	if e.flags&isPacked != 0 {
		var err error
		if encoded, err = s2.Decode(nil, encoded); err != nil {
			return nil, err
		}
	}
	return delta.Apply(after, encoded, valueLimit)
}

// History calls fn with each update that changed a selected key, the newest first. If fn returns
// ErrStop, History stops and returns nil. The history of a key ends where older changes were
// dropped or are damaged, or at a change that was made while the history was disabled.
func (tx *Tx) History(wants func(key string) bool, fn func(*Step) error) error {
	values := make(map[string][]byte) // values of the selected keys before the changes read so far
	ended := make(map[string]bool)    // keys whose history has ended
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
		e, err := tx.entry(key, stored)
		if err != nil {
			// Its key may be any key, so older values can't be reconstructed.
			_ = tx.db.damaged(logName(key), err)
			break
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
			if !IsDamaged(err) {
				_ = tx.db.damaged(logName(key), fmt.Errorf("reconstruct the former value of %s: %w", e.Key, err))
			}
			ended[e.Key] = true
			continue
		}
		values[e.Key] = before
		step.Changes = append(step.Changes, change)
	}
	return stop(flush())
}

// reconstruct returns a change with the values before and after it. values contains the values of
// keys for which a later change was already read.
func (tx *Tx) reconstruct(e entry, values map[string][]byte) (change PastChange, before []byte, err error) {
	described := e.flags&isDescribed != 0
	after, found := values[e.Key]
	if !found && !e.Deleted {
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

// Row is the current state of a row.
type Row struct {
	JSON    []byte // for a file, its description
	Version uint64 // number of writes since the creation
}

// Rows calls fn with each row whose key starts with prefix, in key order. The prefix starts with a
// slash. If fn returns ErrStop, Rows stops and returns nil. files selects rows of files.
func (tx *Tx) Rows(prefix string, files bool, fn func(key string, row Row) error) error {
	return tx.walk(wal.Data, prefix, func(key string, stored []byte) error {
		r, err := tx.parse(key, stored)
		if err != nil {
			return SkipDamaged(err)
		}
		value := r.value
		if files {
			value = description(value)
		}
		return fn(key, Row{JSON: text(value, files), Version: r.version})
	})
}

// entryOverhead is the approximate size of an entry's key and of bbolt's header, in bytes.
const entryOverhead = 24

// trimHistory drops the oldest entries up to and including the revision until the history is within
// its limits.
func (db *DB) trimHistory(ctx context.Context, revision uint64) error {
	h := db.history
	select {
	case h.sizesLock <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-h.sizesLock }()
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
		h.counted, h.size = 0, 0 // the next call counts from the beginning
		clear(h.sizes)
	}
	return err
}

// count adds the sizes of the entries that were written since the last count.
func (h *history) count(tx *Tx, revision uint64) error {
	cursor := tx.rows.Cursor(wal.Log)
	for key, stored := cursor.Seek([]byte(logKey(h.counted + 1))); key != nil; key, stored = cursor.Next() {
		change, err := parseChange(key, stored)
		if err != nil {
			_ = tx.db.damaged(logName(key), err)
			continue
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

// choose returns the revisions of the entries to drop. It reduces a history that exceeds a limit to
// seven eighths of the limit, so that trimming is rarely needed.
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
			_ = tx.db.damaged(logName(key), err)
			continue
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
