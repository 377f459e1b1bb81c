package wal

import (
	"context"
	"errors"
	"fmt"
)

// Group commit. An update function runs in its caller's goroutine, one at a time, under updateLock.
// Its writes join the open group. A caller that then finds logLock free takes it, closes the group,
// writes its record and waits for the disk, for all updates in the group. Meanwhile the next update
// functions run and join a new group. So the disk and the functions work at the same time. Groups
// form without a timer while a sync is under way. A lone update commits in its own goroutine,
// without a switch to another one.
//
// An update may see uncommitted rows: those of its own group, and those of the group whose record
// is being written. If that record fails, both groups are rolled back, and all their updates return
// the error. This process gives none of their revisions to another change. So a value that was
// remembered by its revision cannot be taken for another one.
//
// Lock order: logLock before updateLock. The holder of updateLock may wait for the record that is
// being written, because its writer needs updateLock only after that.

// group is a commit group: the updates that share a record.
type group struct {
	state GroupState
	tx    *Tx // of all updates in the group, which run one after the other
	// previous is the group whose record was being written when this group was opened; nil if there
	// was none, or when this group is closed.
	previous *group
	written  chan struct{} // closed when the record is on the disk or has failed: see err
	err      error         // why nothing of the group is kept
	done     chan struct{} // closed when the updates are committed or rolled back
}

// lockUpdates waits for updateLock.
func (db *DB) lockUpdates(ctx context.Context) error {
	select {
	case db.updateLock <- struct{}{}:
		if db.isClosing() {
			db.unlockUpdates()
			return ErrClosed
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-db.closing:
		return ErrClosed
	}
}

// unlockUpdates releases updateLock. The goroutine that is about to write the log comes before all
// others that wait: the disk has been idle for long enough.
func (db *DB) unlockUpdates() {
	select {
	case db.handover <- struct{}{}:
	default:
		<-db.updateLock
	}
}

// run runs an update function and rolls its writes back if it fails. It returns the group whose
// outcome is also that of the update; nil if the update has neither written nor seen uncommitted
// rows. If the function ends its goroutine, run releases updateLock.
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
	}
	return outcome, err
}

// call runs an update function. It returns *CorruptError if bbolt finds a damaged page.
func (db *DB) call(update Updater, state GroupState) (err error) {
	defer CatchCorruption(db.path, &err)
	return update.Run(state)
}

// joinGroup returns the open group and opens one if there is none. The caller holds updateLock.
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

// inFlight returns the group whose record is being written; nil if there is none. A group whose
// record has failed is rolled back. The caller holds updateLock.
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
// group, which keeps memtables from being freed. The caller holds updateLock.
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

// await releases updateLock and returns when the outcome of a group is known. It writes the record
// itself if no other goroutine does.
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
	if err == nil {
		err = db.log.append(record)
	}
	if err != nil {
		g.err = db.discardRecord(err)
		db.logger.Error("commit failed", "path", db.path, "error", g.err)
		close(g.written)
		db.updateLock <- struct{}{}
		db.rollback(g)
		db.unlockUpdates()
	} else {
		close(g.written)
		db.log.confirm()
		db.committed.Store(g.tx.commit)
		g.state.Committed()
		close(g.done)
	}
	<-db.logLock
}

// composeRecord returns the record of a group.
func (db *DB) composeRecord(g *group) ([]byte, error) {
	if err := g.state.Seal(); err != nil {
		return nil, err
	}
	return db.log.compose(g.tx)
}

// discardRecord removes the record of a failed commit from the log and returns the commit's error.
func (db *DB) discardRecord(cause error) error {
	failure := &WriteError{Path: db.path, Err: cause}
	if err := db.log.discard(); err != nil {
		failure.Err, failure.Unknown = errors.Join(cause, err), true
	}
	return failure
}

// rollback rolls back a group whose record has failed, and the open group, which may have seen its
// rows. The caller holds updateLock.
func (db *DB) rollback(g *group) {
	if isClosed(g.done) {
		return
	}
	if later := db.open; later != nil {
		db.open = nil
		later.tx.rollback(0)
		later.state.Rollback()
		later.err = errors.Join(&WriteError{Path: db.path, Err: fmt.Errorf("a change before it was not kept: %w",
			errors.Unwrap(g.err))}, later.tx.End())
		close(later.done)
	}
	g.tx.rollback(0)
	g.state.Rollback()
	close(g.done)
}

// quiesce commits the open group and takes both locks: no update or commit runs until resume.
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
