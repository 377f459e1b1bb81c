package wal

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
)

// Group commit. An update function runs in its caller's goroutine, one at a time, with updateLock
// held. Its writes become part of the open group. If logLock is free, the caller then acquires it,
// closes the group, and writes and syncs the group's record. Meanwhile, the next update functions
// run and form a new group. So syncs and update functions overlap, and groups form without a timer.
// A lone update commits in its own goroutine, without a context switch.
//
// An update may read uncommitted rows: rows of its own group, and rows of the group whose record is
// being written. If that record fails, both groups are rolled back, and all their updates return
// the error. The process never reuses the revisions of a failed group. So a cache entry for such a
// revision cannot match another change.
//
// An update may have a condition (Updater.Await), for example that a record of it is on another
// disk. The writer of the group's record waits for the conditions first. The next updates run
// meanwhile, as during a sync.

// group is a commit group: the updates that share one log record.
type group struct {
	state GroupState
	tx    *Tx // transaction of all updates in the group, which run one after the other
	// previous is the group whose record was being written when this group was opened. It is nil if
	// there was none, or if this group is closed.
	previous *group
	written  chan struct{} // closed when the record is synced or has failed (err)
	err      error         // reason why the group was rolled back
	done     chan struct{} // closed when the updates are committed or rolled back
	updates  []Updater     // that wrote rows

	// The fields below are used with a shared log only.
	position Position // of the group's record in the shared log
	shared   int      // size of the operations that the shared log gets, in bytes
	leaves   bool     // set if the group removes the position
}

// lockUpdates acquires updateLock.
func (db *DB) lockUpdates(ctx context.Context) error {
	select {
	case db.updateLock <- struct{}{}:
		err := error(nil)
		switch {
		case db.isClosing():
			err = ErrClosed
		case isClosed(db.broken):
			err = db.brokenError()
		}
		if err != nil {
			db.unlockUpdates()
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-db.closing:
		return ErrClosed
	}
}

// unlockUpdates releases updateLock. A goroutine that is about to write the log gets it before all
// other waiting goroutines, to keep the disk busy.
func (db *DB) unlockUpdates() {
	select {
	case db.handover <- struct{}{}:
	default:
		<-db.updateLock
	}
}

// run runs an update function and rolls its writes back if it fails. It returns the group on whose
// commit the update depends, or nil if the update neither wrote rows nor read uncommitted rows. If
// the function ends its goroutine, run releases updateLock.
func (db *DB) run(update Updater) (outcome *group, err error) {
	g, err := db.joinGroup()
	if err != nil {
		return nil, err
	}
	if g.tx.dirty() {
		outcome = g
	} else if g.previous != nil && !isClosed(g.previous.done) {
		outcome = g.previous
	}
	before := len(g.tx.undo)
	returned := false
	defer func() {
		if !returned || err != nil {
			g.tx.rollback(before)
			g.state.RollbackUpdate()
		}
		if !g.tx.dirty() {
			db.open = nil
			if ended := g.tx.End(); err == nil {
				err = ended
			}
		}
		if !returned {
			db.unlockUpdates()
		}
	}()
	g.state.BeginUpdate()
	err = db.call(update, g.state)
	returned = true
	if err == nil && g.tx.dirty() {
		outcome = g
		if len(g.tx.undo) > before {
			g.updates = append(g.updates, update)
		}
	}
	return outcome, err
}

// call runs an update function. It returns *CorruptError if bbolt finds a damaged page.
func (db *DB) call(update Updater, state GroupState) (err error) {
	defer CatchCorruption(db.path, &err)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	return update.Run(state)
}

// joinGroup returns the open group. It opens one if none is open. The caller holds updateLock.
func (db *DB) joinGroup() (*group, error) {
	previous := db.inFlight()
	if db.open != nil {
		return db.open, nil
	}
	if db.log == nil || db.logFull {
		db.awaitInFlight()
		previous = nil
		if err := db.prepareLog(); err != nil {
			return nil, notReady(db.path, err)
		}
		db.logFull = false
	}
	state, tx := db.newGroup()
	if err := db.begin(tx, true); err != nil {
		return nil, err
	}
	if previous != nil {
		tx.commit = previous.tx.commit
	}
	if err := state.Begin(); err != nil {
		return nil, errors.Join(err, tx.End())
	}
	tx.commit++
	db.open = &group{state: state, tx: tx, previous: previous, written: make(chan struct{}),
		done: make(chan struct{})}
	return db.open, nil
}

// inFlight returns the group whose record is being written, or nil. It rolls back a group whose
// record has failed. The caller holds updateLock.
func (db *DB) inFlight() *group {
	g := db.newest
	if g == nil || isClosed(g.done) {
		return nil
	}
	if isClosed(g.written) && g.err != nil {
		db.rollback(g)
		return nil
	}
	return g
}

// awaitInFlight waits until no record is being written. It also drops the reference to the newest
// group, so that its memtables can be freed. The caller holds updateLock.
func (db *DB) awaitInFlight() {
	g := db.newest
	if g == nil {
		return
	}
	<-g.written
	if g.err != nil {
		db.rollback(g)
	}
	<-g.done
	db.newest = nil
}

func isClosed(done chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// await releases updateLock and returns when the group is committed or rolled back. It writes the
// record itself if no other goroutine does. The holder of updateLock may wait for a record that is
// being written: the writer of that record does not need updateLock until it is done.
func (db *DB) await(g *group) {
	if g == db.open {
		select {
		case db.logLock <- struct{}{}:
			db.commit()
			return
		default:
		}
	}
	db.unlockUpdates()
	select {
	case <-g.done:
		return
	case db.logLock <- struct{}{}:
	}
	if isClosed(g.done) {
		<-db.logLock
		return
	}
	select {
	case db.updateLock <- struct{}{}:
	case <-db.handover:
	}
	db.commit()
}

// commit closes the open group and writes its record. The caller holds logLock and updateLock;
// commit releases both.
func (db *DB) commit() {
	g := db.open
	g.previous, db.open, db.newest = nil, nil, g
	record, err := db.composeRecord(g)
	db.logFull = db.log.end+int64(len(record)) >= db.checkpointAt
	err = errors.Join(err, g.tx.End())
	db.unlockUpdates()
	if g.err = db.writeRecord(g, record, err); g.err != nil {
		db.logger.Error("Commit failed.", "path", db.path, "error", g.err)
		close(g.written)
		db.updateLock <- struct{}{}
		db.rollback(g)
		db.unlockUpdates()
	} else {
		close(g.written)
		db.log.confirm()
		g.state.Committed(func() { db.committed.Store(g.tx.commit) })
		db.settle(g)
		db.log.ack.note(g.tx.commit)
		db.publish(g.tx.commit, record)
		close(g.done)
	}
	<-db.logLock
}

// writeRecord makes the record of a closed group durable when its updates may become durable.
// failed is the error of the record's composition.
func (db *DB) writeRecord(g *group, record []byte, failed error) error {
	for _, update := range g.updates {
		if err := update.Await(); err != nil {
			return err
		}
	}
	began := db.clock.Now()
	if failed == nil {
		failed = db.append(g, record)
	}
	db.activity.committed(db.clock.Since(began), failed)
	if failed != nil {
		return db.discardRecord(failed)
	}
	return nil
}

// composeRecord returns the record of a group.
func (db *DB) composeRecord(g *group) ([]byte, error) {
	if isClosed(db.broken) {
		return nil, db.brokenError()
	}
	if err := g.state.Seal(); err != nil {
		return nil, err
	}
	if err := db.number(g); err != nil {
		return nil, err
	}
	return db.log.compose(g, db.shared != nil)
}

// append makes a record durable.
func (db *DB) append(g *group, record []byte) error {
	if db.shared != nil {
		return db.share(g, record)
	}
	return db.log.append(record)
}

// discardRecord removes the record of a failed commit from the log and returns the commit's error.
func (db *DB) discardRecord(cause error) error {
	if failure, ok := errors.AsType[*WriteError](cause); ok && db.shared != nil {
		return failure // the log file does not have the record, or the shared log has it as well
	}
	failure := &WriteError{Path: db.path, Err: cause}
	if err := db.log.discard(); err != nil {
		failure.Err, failure.Unknown = errors.Join(cause, err), true
	}
	return failure
}

// rollback rolls back a group whose record failed, and the open group, which may have read rows of
// the failed group. The caller holds updateLock.
func (db *DB) rollback(g *group) {
	if isClosed(g.done) {
		return
	}
	if later := db.open; later != nil {
		db.open = nil
		later.tx.rollback(0)
		later.state.Rollback()
		later.err = errors.Join(laterError(g.err), later.tx.End())
		close(later.done)
	}
	g.tx.rollback(0)
	g.state.Rollback()
	close(g.done)
}

// laterError returns the error of updates that may have read rows of a group with an error.
func laterError(earlier error) error {
	failure, ok := errors.AsType[*WriteError](earlier)
	if !ok {
		return earlier
	}
	return &WriteError{Path: failure.Path, Shared: failure.Shared,
		Err: fmt.Errorf("an earlier change was rolled back: %w", failure.Err)}
}

// quiesce commits the open group and acquires both locks: no update and no commit runs until
// resume.
func (db *DB) quiesce() {
	for {
		db.logLock <- struct{}{}
		db.updateLock <- struct{}{}
		if db.open == nil {
			db.awaitInFlight()
			return
		}
		db.commit()
	}
}

// resume releases both locks.
func (db *DB) resume() {
	db.unlockUpdates()
	<-db.logLock
}
