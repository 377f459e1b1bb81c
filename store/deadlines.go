package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"landfall/store/wal"
)

// Deadlines stores at most one deadline per key and finds keys by time. Like an index, it has no
// revisions. Finding the next deadline takes one lookup.
type Deadlines struct {
	at string // "<at><time><key>" -> nothing
	of string // "<of><key>" -> time
}

// Deadline is a key and the time when it is due: UTC, with a precision of one nanosecond.
type Deadline struct {
	Key string
	At  time.Time
}

// NewDeadlines describes the deadlines with the given name.
func NewDeadlines(name string) Deadlines {
	return Deadlines{at: "deadlines/" + name + "/at/", of: "deadlines/" + name + "/of/"}
}

// Prefix returns the start of the deadlines' keys in the database.
func (d Deadlines) Prefix() string { return strings.TrimSuffix(d.at, "at/") }

// Drop removes all deadlines, also damaged ones.
func (d Deadlines) Drop(tx *Tx) error {
	return tx.walk(wal.Index, d.Prefix(), func(key string, _ []byte) error { return tx.remove(wal.Index, key) })
}

// Set sets the deadline of a key. It replaces a previous deadline.
func (d Deadlines) Set(tx *Tx, key string, at time.Time) error {
	if key == "" {
		return fmt.Errorf("write %s: %w", d.at, errEmptyKey)
	}
	encoded := encodeTime(at)
	old := tx.rows.Get(wal.Index, tx.join(d.of, key))
	if string(old) == encoded {
		return nil
	}
	if err := d.Clear(tx, key); err != nil {
		return err
	}
	if err := tx.set(wal.Index, d.of+key, []byte(encoded)); err != nil {
		return err
	}
	return tx.set(wal.Index, d.at+encoded+key, []byte{})
}

// Clear removes the deadline of a key. A missing deadline is not an error.
func (d Deadlines) Clear(tx *Tx, key string) error {
	old := string(tx.rows.Get(wal.Index, tx.join(d.of, key)))
	if old == "" {
		return nil
	}
	if err := tx.remove(wal.Index, d.at+old+key); err != nil {
		return err
	}
	return tx.remove(wal.Index, d.of+key)
}

// At returns the deadline of a key. ok is false if the key has no deadline.
func (d Deadlines) At(tx *Tx, key string) (time.Time, bool) {
	encoded := tx.rows.Get(wal.Index, tx.join(d.of, key))
	if len(encoded) < timeSize {
		return time.Time{}, false
	}
	return decodeTime(string(encoded)), true
}

// Due returns at most limit deadlines (0: all) at or before now, the earliest first. Due does not
// clear them.
func (d Deadlines) Due(tx *Tx, now time.Time, limit int) ([]Deadline, error) {
	var due []Deadline
	err := d.walk(tx, func(deadline Deadline) error {
		if deadline.At.After(now) || limit > 0 && len(due) == limit {
			return ErrStop
		}
		due = append(due, deadline)
		return nil
	})
	return due, err
}

// Next returns the time of the earliest deadline in UTC. ok is false if no deadline is set.
func (d Deadlines) Next(tx *Tx) (at time.Time, ok bool, err error) {
	err = d.walk(tx, func(deadline Deadline) error {
		at, ok = deadline.At, true
		return ErrStop
	})
	return at, ok, err
}

func (d Deadlines) walk(tx *Tx, fn func(Deadline) error) error {
	return tx.walk(wal.Index, d.at, func(key string, _ []byte) error {
		rest := key[len(d.at):]
		if len(rest) < timeSize {
			return SkipDamaged(tx.db.damaged(key, errors.New("the deadline has no time")))
		}
		return fn(Deadline{Key: rest[timeSize:], At: decodeTime(rest[:timeSize])})
	})
}

// timeSize is the size of an encoded time. It has 8 bytes for the seconds since 1970, with the sign
// bit flipped so that bytes sort like times, and 4 bytes for the nanoseconds.
const timeSize = 12

func encodeTime(t time.Time) string {
	var b [timeSize]byte
	binary.BigEndian.PutUint64(b[:], uint64(t.Unix())^1<<63)
	binary.BigEndian.PutUint32(b[8:], uint32(t.Nanosecond()))
	return string(b[:])
}

func decodeTime(s string) time.Time {
	b := []byte(s)
	return time.Unix(int64(binary.BigEndian.Uint64(b)^1<<63), int64(binary.BigEndian.Uint32(b[8:]))).UTC()
}
