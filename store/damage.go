package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// A damaged row does not affect the other rows. Iterations skip it, Get returns *DamagedError for
// it, and a write to its key keeps the stored bytes as an Aside. DB.Damage lists the damaged rows
// that were noticed.
//
// The seal of a row contains a checksum of its value, bound to its key and header. So a changed
// value and a row under the key of another are noticed. A database without seal has no checksums.

// DamagedError reports that one row cannot be read. All other rows can be used.
type DamagedError struct {
	Path string // of the database
	Key  string // of the row
	Err  error
}

// Error implements error.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s in the database %s is damaged (%v); landfall check describes the damage and the ways out",
		e.Key, e.Path, e.Err)
}

// Unwrap returns the cause.
func (e *DamagedError) Unwrap() error { return e.Err }

// IsDamaged reports whether an error is about a damaged row. A list leaves such a row out.
func IsDamaged(err error) bool {
	_, damaged := errors.AsType[*DamagedError](err)
	return damaged
}

// SkipDamaged returns nil for an error about a damaged row, and other errors unchanged. Iterations
// return its result to continue after a damaged row.
func SkipDamaged(err error) error {
	if IsDamaged(err) {
		return nil
	}
	return err
}

// Damage describes a damaged row, file or part of the database.
type Damage struct {
	Key    string    `json:"key"`
	Reason string    `json:"reason"`
	At     time.Time `json:"noticed_at"` // when the process noticed the damage
}

// damages are the damaged rows that the process noticed.
type damages struct {
	mu      sync.Mutex
	byKey   map[string]Damage
	noticed chan struct{} // holds one item if there is new damage
}

func newDamages() *damages {
	return &damages{byKey: make(map[string]Damage), noticed: make(chan struct{}, 1)}
}

// add adds damage. It returns false if the damage is known.
func (d *damages) add(found Damage) bool {
	return d.put(found, func(Damage) bool { return true })
}

// replace adds damage in the place of older damage with another reason. It returns false if the
// same damage is known.
func (d *damages) replace(found Damage) bool {
	return d.put(found, func(known Damage) bool { return known.Reason == found.Reason })
}

func (d *damages) put(found Damage, same func(known Damage) bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known, ok := d.byKey[found.Key]; ok && same(known) {
		return false
	}
	d.byKey[found.Key] = found
	select {
	case d.noticed <- struct{}{}:
	default:
	}
	return true
}

func (d *damages) remove(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.byKey, key)
}

// Damage returns the damage that was noticed since the database was opened, by key.
func (db *DB) Damage() []Damage {
	db.damages.mu.Lock()
	defer db.damages.mu.Unlock()
	all := make([]Damage, 0, len(db.damages.byKey))
	for _, found := range db.damages.byKey {
		all = append(all, found)
	}
	slices.SortFunc(all, func(a, b Damage) int { return strings.Compare(a.Key, b.Key) })
	return all
}

// DamageNoticed returns a channel that has an item if Damage lists new damage.
func (db *DB) DamageNoticed() <-chan struct{} { return db.damages.noticed }

// damaged returns a *DamagedError for a damaged row. It notes and logs the damage.
func (db *DB) damaged(key string, err error) error {
	if db.damages.add(Damage{key, err.Error(), db.clock.Now().UTC()}) {
		db.logger.Error("A row is damaged. It is left out of lists; everything else goes on.", "key", key,
			"database", db.path, "error", err)
	}
	return &DamagedError{Path: db.path, Key: key, Err: err}
}

// Aside is a damaged row that a write replaced. It keeps the stored bytes.
type Aside struct {
	Key    string    `json:"key"`
	Stored []byte    `json:"stored"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// Asides holds the damaged rows that were replaced: "<revision><key>".
var Asides = NewBucket[Aside]("damaged", 1)

// setAside keeps the stored bytes of a damaged row that is about to be replaced or deleted.
func (tx *Tx) setAside(key string, stored []byte, cause error) error {
	reason := cause
	if damaged, ok := errors.AsType[*DamagedError](cause); ok {
		reason = damaged.Err
	}
	kept := &Aside{Key: key, Stored: slices.Clone(stored), Reason: reason.Error(), At: tx.db.clock.Now().UTC()}
	if err := Asides.Put(tx, fmt.Sprintf("%016x%s", tx.Next(), key), kept); err != nil {
		return err
	}
	tx.db.logger.Warn("A damaged row was replaced. Its stored bytes are kept.", "key", key, "database", tx.db.path)
	tx.db.damages.remove(key)
	return nil
}
