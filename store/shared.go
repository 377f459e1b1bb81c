package store

import (
	"context"

	"landfall/store/wal"
)

// Apply applies records of the shared log to a follower, and returns when readers see them; see
// wal.DB.Apply. Watchers get their changes.
func (db *DB) Apply(ctx context.Context, records []wal.Record) error {
	return db.rows.Apply(ctx, records)
}

// Sequence returns the number of the newest record of the shared log that the database contains, or
// 0 if it has no part in one.
func (db *DB) Sequence() uint64 { return db.rows.Sequence() }

// Broken returns a channel that is closed when the outcome of a record of the shared log became
// unknown. Every update then returns ErrBroken. Close the database, open it as a follower, and
// apply what the shared log has.
func (db *DB) Broken() <-chan struct{} { return db.rows.Broken() }

// Sequence returns the number of the newest record of the shared log that the snapshot contains.
// CreateFrom writes the rows of a snapshot to an empty directory, which can then follow from that
// number. It is 0 if the database has no part in a shared log.
func (s *Snapshot) Sequence() uint64 { return s.tx.rows.Sequence() }
