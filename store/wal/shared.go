package wal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// A shared log. Several databases on several machines can have the same rows: one of them, the
// leader, appends each record to a log outside of these machines before it commits the record. The
// others, the followers, apply the records of that log in order.
//
// The records of the shared log have numbers of their own, without gaps. Each record contains the
// row "sequence" of Meta: the number of the record (8 bytes) and the digest of the record before it
// (8 bytes). So a database always knows the newest record that it contains, and a record can be
// applied only to a database that contains the record before it. The row "record" of Meta has the
// digest of the newest record. Each database writes it itself, together with the rows of the
// record. Before the first record, the leader writes a random number in its place: the logs of two
// fleets differ from the first record.
//
// The log file is not synced then, because the shared log is. After a power cut, the log file may
// end earlier than it did, or have a gap: recovery stops there, and the missing records are applied
// again from the shared log. A database that is opened without the shared log and changed no longer
// has the rows of the shared log, so the first change removes both rows.

// SharedLog is a log outside of this machine, from which several databases get the same records.
type SharedLog interface {
	// Append makes a record durable under its number, and returns when it is. An error that is a
	// *RefusedError means that the record is not in the log and will never be. After any other
	// error it may be. Append returns in bounded time. It must not keep operations.
	Append(ctx context.Context, number uint64, operations []byte) error
}

// Record is a record of a shared log.
type Record struct {
	Number     uint64
	Operations []byte // see EachOperation
}

// RefusedError reports that a record is not in the shared log and will never be.
type RefusedError struct {
	Err error
}

// Error implements error.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Err }

var (
	// ErrBroken is the cause of the *WriteError of every update of a leader after the outcome of a
	// record became unknown. The database must be closed, and must get the missing records as a
	// follower.
	ErrBroken = errors.New("this database may lack an earlier change and must read the shared log again")
	// ErrFollower is returned by every update of a follower.
	ErrFollower = errors.New("this database only follows a shared log: send the change to the leader")
	// ErrNotFollower is returned by Apply on a database that follows no shared log.
	ErrNotFollower = errors.New("this database does not follow a shared log")
	// ErrNoSequence is returned by Apply on a database that contains no record of a shared log.
	ErrNoSequence = errors.New("this database has no part in a shared log: create it from a snapshot of a database " +
		"that has")
	// ErrNotNext is in the error of Apply about a record that does not have the next number.
	ErrNotNext = errors.New("it is not the next record")
	// ErrDiverged is in the error of Apply about a record whose former record is not the one that
	// the database contains: the shared log was restored from an older state and then changed, or
	// is that of another fleet.
	ErrDiverged = errors.New("the record before it differs from the one in this database")
)

// RecordError reports a record of the shared log that was not applied.
type RecordError struct {
	Number   uint64 // of the record
	Sequence uint64 // number of the newest record that the database contains
	Err      error
}

// Error implements error.
func (e *RecordError) Error() string {
	return fmt.Sprintf("record %d of the shared log does not fit the database, which contains the records up to %d: %v",
		e.Number, e.Sequence, e.Err)
}

// Unwrap returns the cause.
func (e *RecordError) Unwrap() error { return e.Err }

// Keys of the Meta bucket that describe the newest record of the shared log.
var (
	sequenceKey = []byte("sequence") // number of the record, digest of the record before it
	recordKey   = []byte("record")   // digest of the record
)

// Position is a place in a shared log: the newest record that a database contains. A number alone
// is not enough, because a shared log that was restored from an older state gets other records
// under the same numbers.
type Position struct {
	Number uint64 // 0: none
	Digest uint64 // of the operations (xxHash64); 0: the database has no part in a shared log
}

// Position returns the position of a database that contains the record as its newest one.
func (r Record) Position() Position { return Position{r.Number, xxhash.Sum64(r.Operations)} }

// sequenceRow returns the row "sequence" of a record.
func sequenceRow(number, before uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(make([]byte, 0, 16), number), before)
}

func parseSequenceRow(row []byte) (number, before uint64, ok bool) {
	if len(row) != 16 {
		return 0, 0, false
	}
	return binary.BigEndian.Uint64(row), binary.BigEndian.Uint64(row[8:]), true
}

// shares reports whether another log than the log file has the records.
func (db *DB) shares() bool { return db.shared != nil || db.follow }

// Position returns the position of the database in the shared log.
func (db *DB) Position() Position { return *db.position.Load() }

// SyncedSequence returns the number of the newest record of the shared log that the database
// contains for certain after a power cut. The shared log must keep the later ones. It is at most
// two log files behind Position.
func (db *DB) SyncedSequence() uint64 { return db.syncedSequence.Load() }

// IsSequence reports whether a row of Meta has the number of the newest record of the shared log.
func IsSequence(key []byte) bool { return bytes.Equal(key, sequenceKey) }

// Position returns the position of the rows that the transaction reads.
func (tx *Tx) Position() Position {
	number, _, _ := parseSequenceRow(tx.Get(Meta, sequenceKey))
	return Position{number, parseNumber(tx.Get(Meta, recordKey))}
}

// Broken returns a channel that is closed when the outcome of a record became unknown.
func (db *DB) Broken() <-chan struct{} { return db.broken }

// brokenError returns the error of an update of a broken database.
func (db *DB) brokenError() error { return &WriteError{Path: db.path, Err: ErrBroken, Shared: true} }

// readPosition reads the position of the opened database.
func (db *DB) readPosition() (err error) {
	var tx Tx
	if err := db.Begin(&tx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tx.End()) }()
	db.setPosition(tx.Position())
	return nil
}

func (db *DB) setPosition(p Position) { db.position.Store(&p) }

// number adds the number of its record in the shared log to a group. Without a shared log, it
// removes the position that the database had in one.
func (db *DB) number(g *group) error {
	switch before := db.Position(); {
	case db.shared != nil:
		g.position.Number = before.Number + 1
		return g.tx.Put(Meta, sequenceKey, sequenceRow(g.position.Number, before.Digest))
	case before.Digest != 0 && !db.follow:
		g.leaves = true
		return errors.Join(g.tx.Delete(Meta, sequenceKey), g.tx.Delete(Meta, recordKey))
	}
	return nil
}

// digest adds the digest of its record to a group.
func (g *group) digest(operations []byte) error {
	g.position.Digest = xxhash.Sum64(operations)
	return g.tx.Put(Meta, recordKey, binary.BigEndian.AppendUint64(nil, g.position.Digest))
}

// share appends a record to the shared log, and then to the log file. The database is broken if the
// record may be in the shared log, but is not committed.
func (db *DB) share(g *group, record []byte) error {
	operations := record[headerSize : headerSize+g.shared]
	err := db.shared.Append(context.Background(), g.position.Number, operations)
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		return &WriteError{Path: db.path, Err: refused, Shared: true}
	}
	if err != nil {
		close(db.broken)
		return &WriteError{Path: db.path, Err: err, Shared: true, Unknown: true}
	}
	if err := db.log.append(record); err != nil {
		close(db.broken)
		return &WriteError{Path: db.path, Err: err, Unknown: true}
	}
	return nil
}

// settle makes the position of a committed group that of the database. The caller holds logLock.
func (db *DB) settle(g *group) {
	if g.leaves || g.position.Number != 0 {
		db.setPosition(g.position)
	}
}

// applyBatch is the size of the operations that Apply writes in one local commit, in bytes.
const applyBatch = 4 << 20

// Apply writes records of the shared log to a follower, and returns when readers see them. Each
// record must have the next number; otherwise nothing is applied, and the error is a *RecordError.
// Several records become one commit. If the disk fails, the error is a *WriteError, and Position
// tells which records were applied. Apply keeps the operations, so they must not be changed.
func (db *DB) Apply(ctx context.Context, records []Record) error {
	if !db.follow {
		return ErrNotFollower
	}
	return db.Exclude(ctx, func() error { return db.apply(ctx, records) })
}

// apply does the same as Apply. The caller holds applyLock.
func (db *DB) apply(ctx context.Context, records []Record) error {
	positions, err := db.check(records)
	if err != nil {
		return err
	}
	for len(records) > 0 {
		count, size := 0, 0
		for count < len(records) && (count == 0 || size+len(records[count].Operations) <= applyBatch) {
			size += len(records[count].Operations)
			count++
		}
		if err := db.update(ctx, &application{db, records[:count], positions[count-1]}); err != nil {
			return err
		}
		records, positions = records[count:], positions[count:]
	}
	return nil
}

// Exclude runs fn while no record is applied to a follower.
func (db *DB) Exclude(ctx context.Context, fn func() error) error {
	select {
	case db.applyLock <- struct{}{}:
		defer func() { <-db.applyLock }()
		return fn()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// check returns the positions of records that can be applied. The caller holds applyLock.
func (db *DB) check(records []Record) (positions []Position, err error) {
	at := db.Position()
	if at.Digest == 0 {
		return nil, ErrNoSequence
	}
	for _, r := range records {
		if err := r.check(at); err != nil {
			return nil, &RecordError{Number: r.Number, Sequence: db.Position().Number, Err: err}
		}
		at = r.Position()
		positions = append(positions, at)
	}
	return positions, nil
}

// check reports why a record cannot be applied to a database at a position.
func (r Record) check(at Position) error {
	if r.Number != at.Number+1 {
		return ErrNotNext
	}
	var sequence []byte
	if err := EachOperation(r.Operations, func(bucket Bucket, key, value []byte) error {
		switch {
		case len(key) == 0 || bucket == Meta && isLocal(key):
			return fmt.Errorf("it writes the row %q of %s", key, BucketNames[bucket])
		case bucket == Meta && IsSequence(key):
			sequence = value
		}
		return checkSize(key, value)
	}); err != nil {
		return err
	}
	switch number, before, ok := parseSequenceRow(sequence); {
	case !ok || number != r.Number:
		return errors.New("it does not contain its number")
	case before != at.Digest:
		return ErrDiverged
	}
	return nil
}

// isLocal reports whether each database has its own row of Meta under a key.
func isLocal(key []byte) bool {
	return IsOfFile(key) || bytes.Equal(key, committedKey) || bytes.Equal(key, recordKey)
}

// application is the update that applies records to a follower.
type application struct {
	db       *DB
	records  []Record
	position Position // after the last record
}

// Await implements Updater.
func (*application) Await() error { return nil }

// Run implements Updater.
func (a *application) Run(state GroupState) error {
	g := a.db.open
	for _, r := range a.records {
		if err := EachOperation(r.Operations, func(bucket Bucket, key, value []byte) error {
			g.tx.write(bucket, key, value)
			state.Applied(bucket, key, value)
			return nil
		}); err != nil {
			return err
		}
	}
	g.position = a.position
	return g.tx.Put(Meta, recordKey, binary.BigEndian.AppendUint64(nil, a.position.Digest))
}
