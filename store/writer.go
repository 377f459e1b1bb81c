package store

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"sync/atomic"
)

// Group commit: one goroutine, the writer, takes whatever updates wait and commits them as one transaction, so that they share its
// sync. There is no timer: company gathers by itself while a commit is under way, and an update that finds nobody before it commits in its own goroutine,
// without the way to the writer and back. Who commits holds the turn (DB.turn).
//
// A function that fails is taken back row by row (Tx.rollback) without disturbing the others of its transaction.

// maxBatch is the most updates that share a transaction, and how many may stand in line before Update waits to get in.
const maxBatch = 256

// request is an update on its way through the writer.
type request struct {
	fn    func(*Tx) error
	state atomic.Int32
	done  chan struct{} // closed when the outcome is settled

	// Written by the writer before done is closed:
	err       error
	panicked  any  // what fn panicked with
	exited    bool // fn ended its goroutine (runtime.Goexit), as a test's FailNow does
	sawOthers bool // fn ran behind others' uncommitted writes, so what it found holds only if they are committed
	settled   bool
}

const (
	waiting int32 = iota
	taken         // by the writer
	dropped       // by its caller, who no longer waits
)

func (r *request) settle() {
	r.settled = true
	close(r.done)
}

// Update runs fn in a transaction and returns when what it wrote is safe on the disk: all of it, or none of it if fn returns an error, which Update then returns as it is.
//
// fn may share its transaction with other updates; it sees what those before it wrote. It may run again and on another goroutine, so it must have no effects outside the
// transaction, and must not call Update itself. A panic in fn is raised again here. If ctx ends while the update stands in line, nothing is written and ctx's error is returned; once fn has begun, its outcome is awaited.
// A disk that is full or fails gives *WriteError; a closed database ErrClosed.
func (db *DB) Update(ctx context.Context, fn func(*Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r := &request{fn: fn, done: make(chan struct{})}
	if len(db.requests) == 0 {
		select {
		case db.turn <- struct{}{}:
			return db.updateAlone(r)
		default:
		}
	}
	if db.isClosing() {
		return ErrClosed
	}
	select {
	case db.requests <- r:
	case <-ctx.Done():
		return ctx.Err()
	case <-db.stopped:
		return ErrClosed
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		if r.state.CompareAndSwap(waiting, dropped) {
			return ctx.Err()
		}
		<-r.done
	case <-db.stopped:
		if r.state.CompareAndSwap(waiting, dropped) {
			return ErrClosed
		}
		<-r.done
	}
	return r.outcome()
}

// updateAlone commits one update in its caller's goroutine, which holds the turn.
func (db *DB) updateAlone(r *request) error {
	defer func() { <-db.turn }()
	if db.isClosing() {
		return ErrClosed
	}
	db.commit([]*request{r})
	return r.outcome()
}

// outcome gives the caller what became of fn.
func (r *request) outcome() error {
	if r.exited {
		runtime.Goexit()
	}
	if r.panicked != nil {
		panic(r.panicked)
	}
	return r.err
}

// write is the writer: until the database closes it commits whatever is waiting. It may be given a batch to begin with and the turn with it.
func (db *DB) write(batch []*request) {
	orderly := false
	defer func() {
		if !orderly {
			db.replace(batch)
		}
	}()
	for {
		if len(batch) == 0 {
			r := db.next()
			if r == nil {
				orderly = true
				close(db.stopped)
				return
			}
			batch = db.gather(batch, r)
		}
		db.commit(batch)
		if len(batch) > 1 {
			// Those just answered are likely to come again: let them get in line together instead of one ahead of the rest.
			runtime.Gosched()
		}
		clear(batch)
		batch = batch[:0]
		<-db.turn
	}
}

// next waits for a request and then for the turn; nil without the turn when the database closes, even if requests wait.
func (db *DB) next() *request {
	select {
	case <-db.closing:
		return nil
	case r := <-db.requests:
		select {
		case <-db.closing:
			return nil
		case db.turn <- struct{}{}:
		}
		if db.isClosing() {
			<-db.turn
			return nil
		}
		return r
	}
}

func (db *DB) isClosing() bool {
	select {
	case <-db.closing:
		return true
	default:
		return false
	}
}

// replace starts a new writer for one that was ended by a function's runtime.Goexit. Nothing was committed; all but that function get another run.
func (db *DB) replace(batch []*request) {
	var again []*request
	for _, r := range batch {
		switch {
		case r.settled:
		case r.exited:
			r.settle()
		default:
			r.err, r.panicked = nil, nil
			again = append(again, r)
		}
	}
	if len(again) == 0 {
		<-db.turn
	}
	go db.write(again)
}

// gather adds r and what else waits to the batch.
func (db *DB) gather(batch []*request, r *request) []*request {
	for {
		if r.state.CompareAndSwap(waiting, taken) {
			batch = append(batch, r)
		}
		if len(batch) == maxBatch {
			return batch
		}
		select {
		case r = <-db.requests:
		default:
			return batch
		}
	}
}

// commit runs the batch in one transaction and settles each request in it.
func (db *DB) commit(batch []*request) {
	if len(batch) == 0 {
		return // all that waited were dropped
	}
	tx, err := db.transact(batch)
	switch {
	case err != nil:
		db.logger.Error("commit failed", "path", db.path, "updates", len(batch), "error", err)
	case tx.dirty():
		db.feed.publish(tx.rev, tx.changes, squash(tx.values))
	}
	for _, r := range batch {
		if r.settled {
			continue
		}
		if err != nil && (r.err == nil || r.sawOthers) {
			r.err = err
		}
		r.settle()
	}
}

// transact runs the batch in one transaction, of which it returns when its record is in the log; or nothing of it is kept.
func (db *DB) transact(batch []*request) (_ *Tx, err error) {
	defer db.catchCorruption(&err)
	if err := db.ready(); err != nil {
		return nil, unready(db.path, err)
	}
	tx, err := db.begin(true)
	if err != nil {
		return nil, err
	}
	kept := false
	defer func() {
		if !kept {
			tx.rollback(mark{rev: tx.start})
		}
		err = errors.Join(err, tx.end())
	}()
	tx.start = tx.number(revisionKey)
	tx.rev, tx.commit = tx.start, tx.commit+1
	for _, r := range batch {
		db.run(tx, r)
	}
	if !tx.dirty() {
		return tx, nil
	}
	if err := tx.seal(); err != nil {
		return nil, err
	}
	if err := db.wal.append(tx.commit, tx.appendOperations); err != nil {
		return nil, db.failed(err)
	}
	db.wal.accept()
	db.committed.Store(tx.commit)
	kept = true
	return tx, nil
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

// run runs one request's function and takes its writes back if it fails.
func (db *DB) run(tx *Tx, r *request) {
	before := tx.mark()
	tx.beginUpdate()
	r.sawOthers = tx.dirty()
	db.call(tx, r)
	if r.err != nil || r.panicked != nil {
		tx.rollback(before)
	}
	if !tx.dirty() {
		r.settle() // it has written nothing and seen nothing uncommitted
	}
}

func (db *DB) call(tx *Tx, r *request) {
	returned := false
	defer func() {
		if returned {
			return
		}
		r.panicked = recover()
		if r.panicked == nil {
			r.exited = true
			return
		}
		if r.err = db.corruption(r.panicked); r.err != nil {
			r.panicked = nil
			return
		}
		db.logger.Error("update panicked", "reason", r.panicked, "stack", string(debug.Stack()))
	}()
	r.err = r.fn(tx)
	returned = true
}
