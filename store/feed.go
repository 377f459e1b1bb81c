package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"

	"landfall/store/wal"
)

// Change reports that a key was written or deleted. It contains no value: read the current value of
// the key.
type Change struct {
	Revision uint64
	Key      string
	Deleted  bool
}

// feed sends the changes of each commit to the watchers.
type feed struct {
	mu            sync.Mutex
	published     uint64 // changes up to this revision were sent to the watchers
	watchers      map[*Watcher]bool
	valueWatchers map[*ValueWatcher]bool
	done          chan struct{} // closed when the database closes
	closed        bool
	running       sync.WaitGroup // the watchers' goroutines
}

func newFeed(revision uint64) *feed {
	return &feed{published: revision, watchers: map[*Watcher]bool{}, valueWatchers: map[*ValueWatcher]bool{},
		done: make(chan struct{})}
}

func (f *feed) revision() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.published
}

// publish lets readers see the rows of a commit, and sends the changes to the watchers. A reader
// of the rows thus finds their revision in the feed. applied reports that values lacks the changes:
// the watchers read them from the log.
func (f *feed) publish(show func(), revision uint64, changes []Change, values []ValueChange, applied bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	show()
	previous := f.published
	f.published = revision
	for w := range f.watchers {
		w.add(changes)
	}
	for w := range f.valueWatchers {
		if applied {
			w.skip(previous, revision, changes)
		} else {
			w.add(previous, revision, values)
		}
	}
}

func (f *feed) close() {
	f.mu.Lock()
	f.closed = true
	close(f.done)
	f.mu.Unlock()
	f.running.Wait()
}

// Watcher receives the changes of keys with given prefixes, each once and in the order of their
// revisions.
type Watcher struct {
	db       *DB
	prefixes []string
	out      chan []Change
	wake     chan struct{} // holds one item if pending may contain changes

	mu      sync.Mutex
	pending []Change
	limit   int // length of pending at which it is coalesced
	err     error
}

const (
	// coalesceAt is the smallest number of pending changes that are coalesced.
	coalesceAt = 1024
	// replayBatch is the number of log entries that are read in one view.
	replayBatch = 1024
)

// Watch delivers changes after the revision from. It selects keys that start with any of the
// prefixes, or all keys without a prefix. Changes of the change log come first, then future
// changes. Each change is delivered once. To continue from the state of a view, pass the view's
// Tx.Revision.
//
// A slow watcher does not delay writers: if many changes are pending, only the newest change of
// each key is kept. The watch ends when ctx ends, when the database is closed, or with ErrCompacted
// or ErrFutureRevision. Its channel is then closed, and Err returns the reason.
func (db *DB) Watch(ctx context.Context, from uint64, prefixes ...string) *Watcher {
	w := &Watcher{
		db:       db,
		prefixes: slices.Clone(prefixes),
		out:      make(chan []Change),
		wake:     make(chan struct{}, 1),
		limit:    coalesceAt,
	}
	f := db.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		w.end(ErrClosed)
	case from > f.published:
		w.end(fmt.Errorf("watch from revision %d of %d: %w", from, f.published, ErrFutureRevision))
	default:
		f.watchers[w] = true
		to := f.published
		f.running.Go(func() { w.run(ctx, from, to) })
	}
	return w
}

// C returns the channel of the changes, in batches that are never empty. It is closed when the
// watch ends.
func (w *Watcher) C() <-chan []Change { return w.out }

// Err returns the reason why the watch ended: the error of ctx, ErrClosed, ErrCompacted,
// ErrFutureRevision or a read error. It is nil until C is closed.
func (w *Watcher) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (w *Watcher) end(err error) {
	w.mu.Lock()
	w.err = err
	w.mu.Unlock()
	close(w.out)
}

// run replays the log entries after revision from, up to and including revision to. It then
// delivers the changes that were published after the watcher was added.
func (w *Watcher) run(ctx context.Context, from, to uint64) {
	err := w.replay(ctx, from, to)
	for err == nil {
		select {
		case <-w.wake:
			err = w.deliver(ctx, w.take())
		case <-ctx.Done():
			err = ctx.Err()
		case <-w.db.feed.done:
			err = ErrClosed
		}
	}
	w.db.feed.mu.Lock()
	delete(w.db.feed.watchers, w)
	w.db.feed.mu.Unlock()
	w.end(err)
}

func (w *Watcher) replay(ctx context.Context, from, to uint64) error {
	for from < to {
		changes, end, err := w.db.changes(from, to, w.wants)
		if err != nil {
			return err
		}
		if err := w.deliver(ctx, changes); err != nil {
			return err
		}
		from = end
	}
	return nil
}

// logBatchEnd returns the last revision of a batch of log entries after a revision. It returns at
// most limit.
func (tx *Tx) logBatchEnd(revision, limit uint64, entries int) uint64 {
	cursor := tx.rows.Cursor(wal.Log)
	for key, _ := cursor.Seek([]byte(logKey(revision + 1))); key != nil; key, _ = cursor.Next() {
		at := binary.BigEndian.Uint64(key)
		if entries--; at >= limit || entries == 0 {
			return min(at, limit)
		}
	}
	return limit
}

// changes reads a batch of log entries after revision from, up to and including revision to. It
// returns the selected changes and the last revision of the batch.
func (db *DB) changes(from, to uint64, wants func(string) bool) (changes []Change, end uint64, err error) {
	err = db.View(func(tx *Tx) error {
		if err := tx.checkRevision(from); err != nil {
			return fmt.Errorf("watch from %w", err)
		}
		end = tx.logBatchEnd(from, to, replayBatch)
		cursor := tx.rows.Cursor(wal.Log)
		for key, entry := cursor.Seek([]byte(logKey(from + 1))); key != nil; key, entry = cursor.Next() {
			change, err := parseChange(key, entry)
			if err != nil {
				// Which row changed is unknown, so the watcher must read all rows again.
				return fmt.Errorf("%w: %w", ErrCompacted, db.damaged(logName(key), err))
			}
			if change.Revision > end {
				break
			}
			if wants(change.Key) {
				changes = append(changes, change)
			}
		}
		return nil
	})
	return changes, end, err
}

func (w *Watcher) wants(key string) bool {
	return len(w.prefixes) == 0 || slices.ContainsFunc(w.prefixes, func(prefix string) bool {
		return strings.HasPrefix(key, prefix)
	})
}

// add queues changes for the watcher. It never blocks.
func (w *Watcher) add(changes []Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := len(w.pending)
	for _, change := range changes {
		if w.wants(change.Key) {
			w.pending = append(w.pending, change)
		}
	}
	if len(w.pending) == before {
		return
	}
	if len(w.pending) > w.limit {
		w.pending = coalesce(w.pending)
		w.limit = max(coalesceAt, 2*len(w.pending))
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *Watcher) take() []Change {
	w.mu.Lock()
	defer w.mu.Unlock()
	changes := w.pending
	w.pending, w.limit = nil, coalesceAt
	return changes
}

func (w *Watcher) deliver(ctx context.Context, changes []Change) error {
	if len(changes) == 0 {
		return nil
	}
	select {
	case w.out <- changes:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-w.db.feed.done:
		return ErrClosed
	}
}

// coalesce keeps the newest change of each key, in order.
func coalesce(changes []Change) []Change {
	seen := make(map[string]bool, len(changes))
	at := len(changes)
	for i := len(changes) - 1; i >= 0; i-- {
		if !seen[changes[i].Key] {
			seen[changes[i].Key] = true
			at--
			changes[at] = changes[i]
		}
	}
	return slices.Clone(changes[at:])
}

// logName names an entry of the change log in errors.
func logName(key []byte) string { return fmt.Sprintf("the entry %x of the change log", key) }

// compactBatch is the number of log entries that Compact removes per transaction.
const compactBatch = 1000

// Compact removes the log entries up to and including the revision, or all entries if the revision
// is newer than the database. A watch from that revision or a later one still works. A watch from
// an earlier revision gets ErrCompacted. Entries of the history stay until the history exceeds its
// limits. Compact uses small transactions, so that other updates can run in between.
func (db *DB) Compact(ctx context.Context, revision uint64) error {
	for {
		finished := false
		err := db.Update(ctx, func(tx *Tx) error {
			done, last := tx.Compacted(), min(revision, tx.Revision())
			end := tx.logBatchEnd(done, last, compactBatch)
			if finished = end == last; end <= done {
				finished = true
				return nil
			}
			if err := tx.removeEntries(done, end); err != nil {
				return err
			}
			return tx.set(wal.Meta, string(compactedKey), binary.BigEndian.AppendUint64(nil, end))
		})
		if err != nil {
			return err
		}
		if finished {
			break
		}
	}
	if db.history == nil {
		return nil
	}
	return db.trimHistory(ctx, revision)
}

// removeEntries removes the log entries after revision from, up to and including revision to,
// except entries of the history.
func (tx *Tx) removeEntries(from, to uint64) error {
	var drop []string
	cursor := tx.rows.Cursor(wal.Log)
	for key, _ := cursor.Seek([]byte(logKey(from + 1))); key != nil && binary.BigEndian.Uint64(key) <= to; key,
		_ = cursor.Next() {
		if !tx.inHistory(binary.BigEndian.Uint64(key)) {
			drop = append(drop, string(key))
		}
	}
	for _, key := range drop {
		if err := tx.remove(wal.Log, key); err != nil {
			return err
		}
	}
	return nil
}

// inHistory reports whether the log entry of a revision belongs to the history.
func (tx *Tx) inHistory(revision uint64) bool {
	if tx.db.history == nil {
		return false
	}
	key := []byte(logKey(revision))
	stored := tx.rows.Get(wal.Log, key)
	if stored == nil {
		return false
	}
	change, err := parseChange(key, stored)
	return err == nil && tx.db.history.Owner(change.Key) != ""
}
