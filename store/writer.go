package store

import (
	"context"
	"errors"
	"fmt"
)

// Group commit. An update's function runs in its caller's goroutine, one at a time: who runs holds
// the turn (DB.turn). What it wrote joins the open group. Who then finds that nobody writes the log
// takes the pen (DB.pen), closes the group, writes its record and waits for the disk, for all who
// are in it, while the next functions run and join another group. So the disk and the functions
// work at the same time; company gathers by itself while a sync is under way, without a timer; and
// an update that is alone commits in its own goroutine, without the way to another and back.
//
// What a function sees may be written by others of its group, or of the one whose record is being
// written, and not be safe yet. If that record fails, both groups are taken back, and all who have
// seen them get the error. No revision of theirs is given to another change by this process, so
// whatever was remembered of them by revision is not taken for anything else.
//
// Who needs both takes the pen before the turn. Who holds the turn may wait for the record that is
// being written, because whoever writes it needs no turn until then.

// group is the updates that share a record.
type group struct {
	tx      *Tx           // by which they run, one after the other
	under   *group        // whose record was being written when the group was opened; nil: none, or it is settled
	written chan struct{} // closed when the record is on the disk, or will not be: see err
	err     error         // why nothing of the group is kept
	settled chan struct{} // closed when its updates are committed, or taken back
}

// Update runs fn in a transaction and returns when what it wrote is safe on the disk: all of it, or
// none of it if fn returns an error, which Update then returns as it is.
//
// fn runs once, when those before it have run, and sees what they wrote; it must not call Update
// itself. What it writes is taken back if it panics. If ctx ends while the update stands in line,
// nothing is written and ctx's error is returned; once fn has begun, its outcome is awaited. A disk
// that is full or fails gives *WriteError, also to an update that writes nothing but has seen what
// is lost with it; a closed database ErrClosed.
func (db *DB) Update(ctx context.Context, fn func(*Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := db.takeTurn(ctx); err != nil {
		return err
	}
	on, err := db.run(fn)
	if on == nil {
		db.passTurn()
		return err
	}
	db.conclude(on)
	if on.err != nil {
		return on.err
	}
	return err
}

// takeTurn waits until those before have run.
func (db *DB) takeTurn(ctx context.Context) error {
	select {
	case db.turn <- struct{}{}:
		if db.isClosing() {
			db.passTurn()
			return ErrClosed
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-db.closing:
		return ErrClosed
	}
}

// passTurn gives the turn to who is about to write the log, who comes before all others in line:
// the disk has been idle for long enough.
func (db *DB) passTurn() {
	select {
	case db.closeGroup <- struct{}{}:
	default:
		<-db.turn
	}
}

func (db *DB) isClosing() bool { return isClosed(db.closing) }

// run runs an update's function and takes its writes back if it fails. It returns the group whose
// outcome is the update's, too; nil if it has neither written nor seen anything that is not
// committed. If the function ends its goroutine, the turn is passed on.
func (db *DB) run(fn func(*Tx) error) (on *group, err error) {
	g, err := db.join()
	if err != nil {
		return nil, err
	}
	if g.tx.dirty() {
		on = g
	} else if g.under != nil && !isClosed(g.under.settled) {
		on = g.under
	}
	before := g.tx.mark()
	returned := false
	defer func() {
		if !returned || err != nil {
			g.tx.rollback(before)
		}
		if !g.tx.dirty() {
			db.gathering = nil
			if ended := g.tx.end(); err == nil {
				err = ended
			}
		}
		if !returned {
			db.passTurn()
		}
	}()
	g.tx.beginUpdate()
	err = db.call(fn, g.tx)
	returned = true
	if err == nil && g.tx.dirty() {
		on = g
	}
	return on, err
}

// call is fn that says what bbolt panics with when it finds a damaged page.
func (db *DB) call(fn func(*Tx) error, tx *Tx) (err error) {
	defer db.catchCorruption(&err)
	return fn(tx)
}

// join returns the open group, for who holds the turn.
func (db *DB) join() (*group, error) {
	under := db.flying()
	if db.gathering != nil {
		return db.gathering, nil
	}
	if db.wal == nil || db.full {
		db.land()
		under = nil
		if err := db.ready(); err != nil {
			return nil, unready(db.path, err)
		}
		db.full = false
	}
	tx, err := db.begin(true)
	if err != nil {
		return nil, err
	}
	if under != nil {
		tx.commit = under.tx.commit
	}
	if tx.start, err = tx.newest(); err != nil {
		return nil, errors.Join(err, tx.end())
	}
	tx.rev, tx.commit = tx.start, tx.commit+1
	db.gathering = &group{tx: tx, under: under, written: make(chan struct{}), settled: make(chan struct{})}
	return db.gathering, nil
}

// newest reads the revision that the transaction finds.
func (tx *Tx) newest() (revision uint64, err error) {
	defer tx.db.catchCorruption(&err)
	return tx.number(revisionKey), nil
}

// flying returns the group whose record is being written, for who holds the turn; nil if there is
// none. One whose record has failed is taken back.
func (db *DB) flying() *group {
	g := db.newest
	if g == nil || isClosed(g.settled) {
		return nil
	}
	if isClosed(g.written) && g.err != nil {
		db.takeBack(g)
		return nil
	}
	return g
}

// land waits until no record is being written, for who holds the turn. It lets go of the newest
// group, which holds on to the rows in memory as it has seen them.
func (db *DB) land() {
	g := db.newest
	if g == nil {
		return
	}
	<-g.written
	if g.err != nil {
		db.takeBack(g)
	}
	<-g.settled
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

// conclude passes the turn on and returns when the outcome of a group is known, which it brings
// about itself if nobody else does.
func (db *DB) conclude(g *group) {
	if g == db.gathering {
		select {
		case db.pen <- struct{}{}:
			db.commit()
			return
		default:
		}
	}
	db.passTurn()
	select {
	case <-g.settled:
		return
	case db.pen <- struct{}{}:
	}
	if isClosed(g.settled) {
		<-db.pen
		return
	}
	select {
	case db.turn <- struct{}{}:
	case <-db.closeGroup:
	}
	db.commit()
}

// commit closes the open group and writes its record. Who calls it holds the pen and the turn, and
// has neither afterwards.
func (db *DB) commit() {
	g := db.gathering
	g.under, db.gathering, db.newest = nil, nil, g
	record, err := db.wal.compose(g.tx)
	db.full = db.wal.end+int64(len(record)) >= db.due
	err = errors.Join(err, g.tx.end())
	db.passTurn()
	if err == nil {
		err = db.wal.append(record)
	}
	if err != nil {
		g.err = db.failed(err)
		db.logger.Error("commit failed", "path", db.path, "error", g.err)
		close(g.written)
		db.turn <- struct{}{}
		db.takeBack(g)
		db.passTurn()
	} else {
		close(g.written)
		db.wal.accept()
		db.committed.Store(g.tx.commit)
		db.feed.publish(g.tx.rev, g.tx.changes, squash(g.tx.values))
		close(g.settled)
	}
	<-db.pen
}

// takeBack takes back what a group has written whose record failed, and what was written behind it,
// for who holds the turn.
func (db *DB) takeBack(g *group) {
	if isClosed(g.settled) {
		return
	}
	db.floor = max(db.floor, g.tx.rev+1)
	if behind := db.gathering; behind != nil {
		db.gathering, db.floor = nil, max(db.floor, behind.tx.rev+1)
		behind.tx.rollback(mark{rev: behind.tx.start})
		behind.err = errors.Join(&WriteError{Path: db.path, Err: fmt.Errorf("a change before it was not kept: %w",
			errors.Unwrap(g.err))}, behind.tx.end())
		close(behind.settled)
	}
	g.tx.rollback(mark{rev: g.tx.start})
	close(g.settled)
}

// rest commits what is open and takes the pen and the turn: nothing is under way then.
func (db *DB) rest() {
	for {
		db.pen <- struct{}{}
		db.turn <- struct{}{}
		if db.gathering == nil {
			db.land()
			return
		}
		db.commit()
	}
}

// resume ends what rest began.
func (db *DB) resume() {
	db.passTurn()
	<-db.pen
}

// unready is the typed error for a database that takes no updates.
func unready(path string, err error) error {
	var corrupt *CorruptError
	var failure *WriteError
	if errors.As(err, &corrupt) || errors.As(err, &failure) {
		return err
	}
	return &WriteError{Path: path, Err: err}
}

// failed takes the record of a commit out of the log that could not be written.
func (db *DB) failed(cause error) error {
	failure := &WriteError{Path: db.path, Err: cause}
	if err := db.wal.takeBack(); err != nil {
		failure.Err, failure.Unknown = errors.Join(cause, err), true
	}
	return failure
}
