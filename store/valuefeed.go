package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
)

// ValueChange is a change of a row of the versioned bucket, with the row before and after it.
// Several writes of one update to a key are one change, because the states in between were never
// visible.
type ValueChange struct {
	Revision uint64
	Key      string   // in the bucket
	Before   KeyValue // its value is nil if the key was created
	After    KeyValue // its value is nil if the key was deleted
	first    uint64   // first revision of the update
}

// valueChange returns the change that was just logged. It copies the previous row from the memory
// of bbolt. The new row is not copied, because it never changes.
func (tx *Tx) valueChange(key string, before, after record) ValueChange {
	key = key[len(tx.db.versioned):]
	before.value = bytes.Clone(before.value)
	return ValueChange{
		Revision: tx.rev, Key: key, first: tx.first,
		Before: versionOf(key, before), After: versionOf(key, after),
	}
}

// versionOf returns a row without the schema version of its value.
func versionOf(key string, r record) KeyValue {
	if r.value == nil {
		return KeyValue{Key: key}
	}
	_, n := binary.Uvarint(r.value)
	return KeyValue{Key: key, Value: r.value[max(n, 0):], Created: r.created, Modified: r.modified, Version: r.version}
}

// mergeUpdates merges all changes of an update to the same key into one, in place. The changes must
// be in order.
func mergeUpdates(changes []ValueChange) []ValueChange {
	type updateKey struct {
		first uint64
		key   string
	}
	if len(changes) < 2 {
		return changes
	}
	earliest := make(map[updateKey]KeyValue, len(changes))
	latest := make(map[updateKey]uint64, len(changes))
	for _, c := range changes {
		at := updateKey{c.first, c.Key}
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
		at := updateKey{c.first, c.Key}
		c.Before = earliest[at]
		if latest[at] == c.Revision && (c.Before.Value != nil || c.After.Value != nil) {
			kept = append(kept, c)
		}
	}
	clear(changes[len(kept):])
	return kept
}

// ValueWatcher receives the changes of a range of rows of the versioned bucket, with values. It
// receives each change once, in the order of revisions.
type ValueWatcher struct {
	db     *DB
	bucket Versions
	keys   Range
	from   uint64
	out    chan []ValueChange
	wake   chan struct{} // holds one item if changes may be pending

	mu       sync.Mutex
	pending  []ValueChange
	size     int    // size of pending in bytes
	base     uint64 // pending starts after this revision; earlier changes are read from the log
	behind   bool   // changes up to the revision replayTo must be read from the log
	replayTo uint64
	busy     bool   // set while changes are delivered
	sent     uint64 // revision of the last change that was delivered
	err      error
}

const (
	// pendingChanges and pendingBytes limit the pending changes of a slow watcher in memory. The
	// watcher reads further changes from the log later.
	pendingChanges = 1024
	pendingBytes   = 4 << 20
	// valueReplayBatch is the number of log entries that are read per view.
	valueReplayBatch = 2048
)

// Watch delivers changes after the revision from, of the rows from keys.From to keys.End. The other
// fields of keys are ignored. Changes of the change log come first, then future changes. Each
// change is delivered once. To continue from the state of a view, pass the view's Tx.Revision.
//
// A slow watcher delays nobody and needs no more memory than a fast one: it reads missed changes
// from the log. The watch ends when ctx ends, when the database is closed, or with ErrCompacted or
// ErrFutureRevision. Its channel is then closed, and Err returns the reason.
func (v Versions) Watch(ctx context.Context, db *DB, from uint64, keys Range) *ValueWatcher {
	w := &ValueWatcher{
		db: db, bucket: v, keys: keys, from: from, out: make(chan []ValueChange), wake: make(chan struct{}, 1),
		base: from, behind: true,
	}
	// The check uses the committed revision, because a view may contain a commit that is not
	// published yet.
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
	f.valueWatchers[w] = true
	w.replayTo = f.published
	w.wake <- struct{}{}
	f.running.Go(func() { w.run(ctx) })
	return w
}

// C returns the channel of the changes, in batches that are never empty. It is closed when the
// watch ends.
func (w *ValueWatcher) C() <-chan []ValueChange { return w.out }

// Err returns the reason why the watch ended: the error of ctx, ErrClosed, ErrCompacted,
// ErrFutureRevision or a read error. It is nil until C is closed.
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
	delete(w.db.feed.valueWatchers, w)
	w.db.feed.mu.Unlock()
	w.end(err)
}

// add queues the changes that were published after the revision previous, up to revision. It never
// blocks.
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
		if w.keys.contains(c.Key) {
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

// skip leaves changes that were published after the revision previous, up to revision, to be read
// from the log. It never blocks.
func (w *ValueWatcher) skip(previous, revision uint64, changes []Change) {
	if !slices.ContainsFunc(changes, func(c Change) bool { return w.db.isVersioned(c.Key) }) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.behind && len(w.pending) == 0 {
		w.base = previous
	}
	w.pending, w.size, w.behind, w.replayTo = nil, 0, true, revision
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Progress returns a revision up to which all changes were received from C. ok is false while
// changes are pending.
func (w *ValueWatcher) Progress() (revision uint64, ok bool) {
	f := w.db.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	return f.published, !w.busy && !w.behind && len(w.pending) == 0
}

// Handled returns a revision up to which nothing is left to do for a receiver that has handled the
// changes from C up to the revision last. ok is false while changes are pending.
func (w *ValueWatcher) Handled(last uint64) (revision uint64, ok bool) {
	revision, ok = w.Progress()
	w.mu.Lock()
	defer w.mu.Unlock()
	return revision, ok && w.sent <= last
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

// send delivers changes, except those that were already delivered or lie before the watcher's
// start.
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
		w.mu.Lock()
		w.sent = w.from
		w.mu.Unlock()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-w.db.feed.done:
		return ErrClosed
	}
}

// replay delivers the changes up to the revision to from the log.
func (w *ValueWatcher) replay(ctx context.Context, to uint64) error {
	for from, first := w.from, true; first || from < to; first = false {
		changes, end, err := w.readLog(from, to)
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

// readLog reads a batch of changes after revision from, up to and including revision to. The batch
// may end after to, because the changes of one update stay together.
func (w *ValueWatcher) readLog(from, to uint64) (changes []ValueChange, end uint64, err error) {
	err = w.db.View(func(tx *Tx) error {
		if err := tx.checkRevision(from); err != nil {
			return fmt.Errorf("watch from %w", err)
		}
		if end = max(from, to); from >= to {
			return nil
		}
		to := tx.logBatchEnd(from, to, valueReplayBatch)
		end = to
		changes = changes[:0]
		states := make(map[string]record)
		err := w.bucket.undo(tx, w.keys, from, states, func(e entry, before, after record) error {
			if e.first > to {
				return nil
			}
			end = max(end, e.Revision)
			before.value, after.value = bytes.Clone(before.value), bytes.Clone(after.value)
			key := e.Key[len(w.bucket.prefix):]
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
