package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"sync"
)

// ValueChange is a change of a row of the versioned bucket with what was before and after. What an
// update wrote to one key several times is one change: nobody was ever to see what was between.
type ValueChange struct {
	Revision uint64
	Key      string   // in the bucket
	Before   KeyValue // without a value: the key was created
	After    KeyValue // without a value: it was deleted
	first    uint64   // of the update
}

// valueChange is the change that was just logged. The row before is copied out of bbolt's memory;
// nobody changes the one after.
func (tx *Tx) valueChange(key string, before, after record) ValueChange {
	key = key[len(tx.db.versioned):]
	before.value = bytes.Clone(before.value)
	return ValueChange{
		Revision: tx.rev, Key: key, first: tx.first,
		Before: versionOf(key, before), After: versionOf(key, after),
	}
}

// versionOf is a row without the schema version of its value, which its writer knows.
func versionOf(key string, r record) KeyValue {
	if r.value == nil {
		return KeyValue{Key: key}
	}
	_, n := binary.Uvarint(r.value)
	return KeyValue{Key: key, Value: r.value[max(n, 0):], Created: r.created, Modified: r.modified, Version: r.version}
}

// squash makes what an update did to one key one change, in place. The changes are in order.
func mergeUpdates(changes []ValueChange) []ValueChange {
	type place struct {
		first uint64
		key   string
	}
	if len(changes) < 2 {
		return changes
	}
	earliest := make(map[place]KeyValue, len(changes))
	latest := make(map[place]uint64, len(changes))
	for _, c := range changes {
		at := place{c.first, c.Key}
		if _, ok := earliest[at]; !ok {
			earliest[at] = c.Before
		}
		latest[at] = c.Revision
	}
	if len(latest) == len(changes) {
		return changes
	}
	kept := changes[:0]
	for _, c := range changes {
		at := place{c.first, c.Key}
		c.Before = earliest[at]
		if latest[at] == c.Revision && (c.Before.Value != nil || c.After.Value != nil) {
			kept = append(kept, c)
		}
	}
	clear(changes[len(kept):])
	return kept
}

// ValueWatcher receives the changes of a range of the versioned bucket's rows with their values,
// each once and in the order of their revisions.
type ValueWatcher struct {
	db   *DB
	rows Versions
	want Range
	from uint64
	out  chan []ValueChange
	wake chan struct{} // holds one item if there is something to take

	mu       sync.Mutex
	pending  []ValueChange
	size     int    // of pending, in bytes
	base     uint64 // the revision behind which pending begins, or what is to be read from the log
	behind   bool   // what is published up to the revision replayTo is to be read from the log
	replayTo uint64
	busy     bool // changes are being delivered
	err      error
}

const (
	// pendingChanges and pendingBytes bound what waits in memory for a slow watcher; what is more
	// is read from the log when it has caught up.
	pendingChanges = 1024
	pendingBytes   = 4 << 20
	// valueReplayBatch is how many log entries are put together at a time.
	valueReplayBatch = 2048
)

// Watch follows the changes that come after the revision from, of the rows of a range (its other
// fields say nothing here): first those in the log, then those to come, with none lost and none
// doubled. With from = Tx.Revision of a view it continues what that view has seen.
//
// A watcher that is slow holds up nobody and costs no more memory than one that is not: it reads
// from the log what it has missed. The watch ends with ctx, with the database, or when it cannot be
// served (ErrCompacted, ErrFutureRevision): its channel is closed then and Err tells why.
func (v Versions) Watch(ctx context.Context, db *DB, from uint64, want Range) *ValueWatcher {
	w := &ValueWatcher{
		db: db, rows: v, want: want, from: from, out: make(chan []ValueChange), wake: make(chan struct{}, 1),
		base: from, behind: true,
	}
	// A view may have seen a commit that is yet to be published, so what is too new is told by what
	// is committed.
	err := db.View(func(tx *Tx) error { return tx.checkRevision(from) })
	if err != nil {
		err = fmt.Errorf("watch from %w", err)
	}
	f := db.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		err = ErrClosed
	}
	if err != nil {
		w.end(err)
		return w
	}
	f.followers[w] = true
	w.replayTo = f.published
	w.wake <- struct{}{}
	f.running.Go(func() { w.run(ctx) })
	return w
}

// C delivers the changes in batches that are never empty. It is closed when the watch ends.
func (w *ValueWatcher) C() <-chan []ValueChange { return w.out }

// Err tells why the watch ended: ctx's error, ErrClosed, ErrCompacted, ErrFutureRevision or a
// failure to read. It is nil until C is closed.
func (w *ValueWatcher) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (w *ValueWatcher) end(err error) {
	w.mu.Lock()
	w.err = err
	w.mu.Unlock()
	close(w.out)
}

func (w *ValueWatcher) run(ctx context.Context) {
	var err error
	for err == nil {
		select {
		case <-w.wake:
			err = w.deliver(ctx)
		case <-ctx.Done():
			err = ctx.Err()
		case <-w.db.feed.done:
			err = ErrClosed
		}
	}
	w.db.feed.mu.Lock()
	delete(w.db.feed.followers, w)
	w.db.feed.mu.Unlock()
	w.end(err)
}

// add queues what was published behind one revision up to another; it never waits.
func (w *ValueWatcher) add(previous, revision uint64, changes []ValueChange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.behind {
		w.replayTo = revision
		return
	}
	before := len(w.pending)
	if before == 0 {
		w.base = previous
	}
	for _, c := range changes {
		if w.want.holds(c.Key) {
			w.pending = append(w.pending, c)
			w.size += len(c.Before.Value) + len(c.After.Value)
		}
	}
	if len(w.pending) == before {
		return
	}
	if len(w.pending) > pendingChanges || w.size > pendingBytes {
		w.pending, w.size, w.behind, w.replayTo = nil, 0, true, revision
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Progress is a revision up to which the changes have been received from C. ok is false if there is
// none to tell just now.
func (w *ValueWatcher) Progress() (revision uint64, ok bool) {
	f := w.db.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	return f.published, !w.busy && !w.behind && len(w.pending) == 0
}

func (w *ValueWatcher) deliver(ctx context.Context) error {
	w.mu.Lock()
	pending, behind, base, to := w.pending, w.behind, w.base, w.replayTo
	w.pending, w.size, w.behind, w.busy = nil, 0, false, true
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.busy = false
		w.mu.Unlock()
	}()
	if behind {
		w.from = max(w.from, base)
		return w.replay(ctx, to)
	}
	return w.send(ctx, pending)
}

// send hands changes over, but for those that the watcher has seen or that were before its start.
func (w *ValueWatcher) send(ctx context.Context, changes []ValueChange) error {
	for len(changes) > 0 && changes[0].Revision <= w.from {
		changes = changes[1:]
	}
	if len(changes) == 0 {
		return nil
	}
	select {
	case w.out <- changes:
		w.from = changes[len(changes)-1].Revision
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-w.db.feed.done:
		return ErrClosed
	}
}

// replay reads what was published up to the revision from the log.
func (w *ValueWatcher) replay(ctx context.Context, to uint64) error {
	for from, first := w.from, true; first || from < to; first = false {
		changes, end, err := w.logged(from, to)
		if err != nil {
			return err
		}
		if err := w.send(ctx, changes); err != nil {
			return err
		}
		from = end
	}
	return nil
}

// logged puts together the changes behind the revision from up to and including to, or as many as
// are read at a time, or a little further: an update is not cut in two.
func (w *ValueWatcher) logged(from, to uint64) (changes []ValueChange, end uint64, err error) {
	err = w.db.View(func(tx *Tx) error {
		if err := tx.checkRevision(from); err != nil {
			return fmt.Errorf("watch from %w", err)
		}
		if end = max(from, to); from >= to {
			return nil
		}
		to := tx.after(from, to, valueReplayBatch)
		end = to
		changes = changes[:0]
		states := make(map[string]record)
		err := w.rows.undo(tx, w.want, from, states, func(e entry, before, after record) error {
			if e.first > to {
				return nil
			}
			end = max(end, e.Revision)
			before.value, after.value = bytes.Clone(before.value), bytes.Clone(after.value)
			key := e.Key[len(w.rows.prefix):]
			changes = append(changes, ValueChange{
				Revision: e.Revision, Key: key, first: e.first, Before: versionOf(key, before),
				After: versionOf(key, after),
			})
			return nil
		})
		if err != nil {
			return err
		}
		for i, j := 0, len(changes)-1; i < j; i, j = i+1, j-1 {
			changes[i], changes[j] = changes[j], changes[i]
		}
		changes = mergeUpdates(changes)
		return nil
	})
	return changes, end, err
}
