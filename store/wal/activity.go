package wal

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/jonboulle/clockwork"
)

// Activity describes the updates of a database since it was opened.
type Activity struct {
	// Commits is the number of records in the log, each with one or more updates; Failed is the
	// number of records that could not be written.
	Commits, Failed uint64
	// Writing is the total time in which records were written and synced.
	Writing time.Duration
	// Failure is the error of the newest record, or nil if it was written.
	Failure error
	// StalledSince is the time since which no update has ended although updates are running or
	// waiting. It is zero if there are none.
	StalledSince time.Time
}

// activity counts updates and commits. Its zero value is ready to use.
type activity struct {
	updates  atomic.Int64 // that have begun and not ended
	progress atomic.Int64 // Unix nanoseconds of the newest end, or of the begin that followed a pause

	mu    sync.Mutex
	total Activity // without StalledSince
}

// begin records that an update begins; end must follow.
func (a *activity) begin(clock clockwork.Clock) {
	if a.updates.Load() == 0 {
		a.progress.Store(clock.Now().UnixNano())
	}
	a.updates.Add(1)
}

// end stores the time before it decreases the number, so that no reader sees a running update with
// the time of a much earlier one.
func (a *activity) end(clock clockwork.Clock) {
	a.progress.Store(clock.Now().UnixNano())
	a.updates.Add(-1)
}

// committed records that a record was written, or why it was not.
func (a *activity) committed(took time.Duration, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.total.Writing += took
	a.total.Failure = err
	if err != nil {
		a.total.Failed++
		return
	}
	a.total.Commits++
}

// Activity returns the activity of the database.
func (db *DB) Activity() Activity {
	db.activity.mu.Lock()
	found := db.activity.total
	db.activity.mu.Unlock()
	if db.activity.updates.Load() > 0 {
		found.StalledSince = time.Unix(0, db.activity.progress.Load())
	}
	return found
}
