package controller

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"landfall/store"
)

// The loop records how far it has followed the changes of the store, so that the next start need
// not reconcile every object again. A reconcile depends on objects, which are rows of the store,
// and on other inputs, such as the program and its configuration. Changed objects are found in the
// change log; if another input has changed, every object is reconciled.

// followedRows stores the progress of the loop under followedKey. A program that does not know the
// format, or an older row, only causes a start that reconciles every object.
var followedRows = store.NewBucket[followed]("controllers", 1).Derived()

const followedKey = "followed"

// followed is the progress of a loop: the objects of all changes up to the revision are reconciled,
// except the unfinished ones.
type followed struct {
	Inputs     string          `json:"inputs"` // see Resume
	Revision   uint64          `json:"revision"`
	Unfinished []unfinishedKey `json:"unfinished,omitempty"`
	// whether the follower had nothing left to do for the same changes
	Follower bool `json:"follower,omitempty"`
}

// Follower follows the changes beside the loop, which records the progress of both in one row. With
// rows of their own, each record would be a change for the other.
type Follower interface {
	// Followed returns the revision up to which the follower has nothing left to do. ok is false if
	// it has, or does not follow the changes yet.
	Followed() (revision uint64, ok bool)
}

// SetFollower sets the follower whose progress the loop records. It must be called before Resume.
func (l *Loop) SetFollower(f Follower) { l.follower = f }

// FollowerRevision returns the revision from which the follower can continue after a stop or crash.
// ok is false if the follower must look at every object: its progress was not recorded, or the
// change log lacks changes since then.
func (l *Loop) FollowerRevision() (revision uint64, ok bool, err error) {
	now := l.db.Revision()
	err = l.db.View(func(tx *store.Tx) error {
		row, err := followedRows.Get(tx, followedKey)
		if err != nil {
			l.logUnreadable(err)
			return nil
		}
		revision = row.Revision
		ok = row.Follower && revision >= tx.Compacted() && revision <= now
		return nil
	})
	return revision, ok, err
}

// FollowerChecked is called when the follower has looked at every object.
func (l *Loop) FollowerChecked() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.scheduleRecord(recordAfter)
}

// unfinishedKey is an object that a start must queue: immediately or, if its reconcile was
// delayed, at a time.
type unfinishedKey struct {
	Kind      string        `json:"kind"` // as returned by Kind.String
	Namespace string        `json:"namespace,omitempty"`
	Name      string        `json:"name,omitempty"`
	At        time.Time     `json:"at,omitzero"`
	After     time.Duration `json:"after,omitempty"` // the whole delay, in case the clock was changed
}

const (
	// recordAfter is the time between a change of an object and the record of its reconcile. A
	// crash repeats the reconciles of that time.
	recordAfter = 10 * time.Second
	// recordOthersAfter is the time between a change of another row and its record. It is shorter
	// than the interval in which the change log is compacted.
	recordOthersAfter = 5 * time.Minute
	// maxUnfinished is the number of unfinished objects above which nothing is recorded: after a
	// start that reconciles every object, most of them are unfinished.
	maxUnfinished = 5000
)

// recorder holds when the progress must be recorded. Its fields are guarded by the loop's mu.
type recorder struct {
	due     time.Time     // zero if everything is recorded
	earlier chan struct{} // receives a value when due has become earlier
	listed  map[Key]bool  // the unfinished objects of the row
}

func newRecorder() recorder {
	return recorder{earlier: make(chan struct{}, 1), listed: map[Key]bool{}}
}

// Inputs returns the inputs of [Loop.Resume]: a digest of values that have the same JSON as long as
// they are equal.
func Inputs(values ...any) (string, error) {
	text, err := json.Marshal(values)
	if err != nil {
		return "", fmt.Errorf("compute the digest of the configuration for the Kubernetes controllers: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// Resume reconciles the objects that have changed since an earlier loop ended or crashed, or that
// it had not finished. Then it follows the changes like Run, and records its progress. inputs
// identifies everything except objects that reconciles depend on. If inputs differs from that of
// the earlier loop, or if the change log lacks changes since then, Resume does the same as Run.
func (l *Loop) Resume(ctx context.Context, inputs string) error {
	l.inputs = inputs
	from, ok, err := l.enqueueUnfinished()
	if err == nil && !ok {
		from, err = l.enqueueAll()
	}
	if err != nil {
		return fmt.Errorf("list the objects: %w", err)
	}
	return l.run(ctx, from)
}

// enqueueUnfinished queues the unfinished objects of an earlier loop, and returns the revision from
// which to watch for changes. ok is false if every object must be queued.
func (l *Loop) enqueueUnfinished() (revision uint64, ok bool, err error) {
	var last *followed
	now := l.db.Revision()
	err = l.db.View(func(tx *store.Tx) error {
		row, err := followedRows.Get(tx, followedKey)
		if err != nil {
			l.logUnreadable(err)
			return nil
		}
		if row.Inputs == l.inputs && row.Revision >= tx.Compacted() && row.Revision <= now {
			last = row
		}
		return nil
	})
	if err != nil || last == nil {
		return 0, false, err
	}
	unfinished, ok := l.parseUnfinished(last.Unfinished)
	if !ok {
		return 0, false, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, wait := range unfinished {
		l.recorder.listed[key] = true
		if wait.at.IsZero() {
			l.add(key)
		} else {
			l.delayed[key] = wait
		}
	}
	l.missed, l.revision, l.ended = now, last.Revision, false
	l.progress.Broadcast()
	return last.Revision, true, nil
}

func (l *Loop) logUnreadable(err error) {
	if !errors.Is(err, store.ErrNotFound) {
		l.logger.Warn("The progress of the controllers can't be read; every object is reconciled.", "error", err)
	}
}

// parseUnfinished returns the keys of a row with their delays; without a delay the key is queued
// immediately. ok is false if a kind is unknown.
func (l *Loop) parseUnfinished(rows []unfinishedKey) (keys map[Key]delay, ok bool) {
	keys = make(map[Key]delay, len(rows))
	now := l.clock.Now()
	for _, row := range rows {
		key, ok := l.keyOf(row)
		if !ok {
			return nil, false
		}
		wait := delay{row.At, row.After}
		if latest := now.Add(row.After); wait.at.After(latest) {
			wait.at = latest
		}
		keys[key] = wait
	}
	return keys, true
}

func (l *Loop) keyOf(row unfinishedKey) (key Key, ok bool) {
	for kind := range l.reconcilers {
		if kind.String() == row.Kind {
			return Key{kind, row.Namespace, row.Name}, true
		}
	}
	return Key{}, false
}

// unfinished lists the objects that a start must queue. The caller holds mu.
func (l *Loop) unfinished() map[Key]delay {
	keys := make(map[Key]delay, len(l.queued)+len(l.active)+len(l.delayed))
	for key, wait := range l.delayed {
		if l.failed[key] != nil {
			wait = delay{} // a start tries again at once
		}
		keys[key] = wait
	}
	for _, set := range []map[Key]bool{l.queued, l.active, l.atStart} {
		for key := range set {
			keys[key] = delay{}
		}
	}
	return keys
}

// noteChanges schedules the record of changes of objects and of other rows. The caller holds mu.
func (l *Loop) noteChanges(keys, others bool) {
	switch {
	case keys:
		l.scheduleRecord(recordAfter)
	case others:
		l.scheduleRecord(recordOthersAfter)
	}
}

// noteFinished schedules a record if the row lists an object that is finished, or lacks one that
// is not. The caller holds mu.
func (l *Loop) noteFinished(key Key) {
	_, delayed := l.delayed[key]
	if l.recorder.listed[key] != (delayed || l.atStart[key]) {
		l.scheduleRecord(recordAfter)
	}
}

func (l *Loop) scheduleRecord(after time.Duration) {
	if at := l.clock.Now().Add(after); l.recorder.due.IsZero() || at.Before(l.recorder.due) {
		l.recorder.due = at
		select {
		case l.recorder.earlier <- struct{}{}:
		default:
		}
	}
}

// recordChanges records the progress whenever it is due, until the context ends.
func (l *Loop) recordChanges(ctx context.Context) {
	if l.inputs == "" {
		return
	}
	for l.awaitRecord(ctx) {
		l.record(ctx)
	}
}

// awaitRecord waits until a record is due. It returns false when the context has ended.
func (l *Loop) awaitRecord(ctx context.Context) bool {
	for {
		l.mu.Lock()
		at := l.recorder.due
		l.mu.Unlock()
		var due <-chan time.Time
		stop := func() bool { return true }
		if !at.IsZero() {
			timer := l.clock.NewTimer(at.Sub(l.clock.Now()))
			due, stop = timer.Chan(), timer.Stop
		}
		select {
		case <-ctx.Done():
			stop()
			return false
		case <-l.recorder.earlier:
			stop()
		case <-due:
			return true
		}
	}
}

// recordEnd records the progress when the loop ends.
func (l *Loop) recordEnd(ctx context.Context) {
	l.mu.Lock()
	due := l.recorder.due
	l.mu.Unlock()
	if l.inputs != "" && !due.IsZero() {
		l.record(context.WithoutCancel(ctx))
	}
}

// record writes the progress of the loop, unless too many objects are unfinished. After an error it
// is written later. If it is never written, a start only has more to do.
func (l *Loop) record(ctx context.Context) {
	err := l.db.Update(ctx, func(tx *store.Tx) error {
		row, ok := l.progressAt(tx)
		if !ok {
			return nil
		}
		return followedRows.Put(tx, followedKey, row)
	})
	if err != nil && ctx.Err() == nil {
		l.logger.WarnContext(ctx, "The progress of the controllers could not be recorded.", "error", err)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.scheduleRecord(recordOthersAfter)
	}
}

// progressAt returns the row to write in an update. It takes the row as recorded.
func (l *Loop) progressAt(tx *store.Tx) (row *followed, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	keys := l.unfinished()
	l.recorder.due = time.Time{}
	if len(keys) > maxUnfinished {
		l.scheduleRecord(recordAfter)
		return nil, false
	}
	row = &followed{Inputs: l.inputs, Revision: l.revision}
	if l.revision == tx.Revision() {
		// Only the row itself changes next. Otherwise the row would refer to a revision that is
		// compacted while nothing changes.
		row.Revision = tx.Next()
	}
	if l.follower != nil {
		to, ok := l.follower.Followed()
		row.Follower = ok && to >= l.revision
	}
	clear(l.recorder.listed)
	for key, wait := range keys {
		l.recorder.listed[key] = true
		row.Unfinished = append(row.Unfinished, unfinishedKey{key.Kind.String(), key.Namespace, key.Name, wait.at,
			wait.after})
	}
	return row, true
}
