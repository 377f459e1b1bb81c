package wal

import (
	"errors"
	"sync"
	"time"
)

// Commit is a committed group of updates.
type Commit struct {
	Number     uint64 // commits are numbered without gaps
	Time       time.Time
	Operations []byte // see EachOperation
}

// ErrBehind reports that a follower did not take the commits in time, and that they were dropped.
var ErrBehind = errors.New("more changes wait than fit in memory")

// Follower receives the commits of a database in memory, for a copy at another place. It never
// delays a commit: when the waiting commits exceed its limit, they are dropped.
type Follower struct {
	db    *DB
	limit int // bytes of waiting operations

	mu      sync.Mutex
	waiting []Commit
	bytes   int
	behind  bool
}

// Follow returns a follower of all commits from now on. A snapshot that is taken afterwards
// contains all earlier commits. limit is in bytes. The caller must close the follower.
func (db *DB) Follow(limit int) *Follower {
	f := &Follower{db: db, limit: limit}
	db.followersLock.Lock()
	defer db.followersLock.Unlock()
	db.followers = append(db.followers, f)
	return f
}

// Close ends the follower.
func (f *Follower) Close() {
	f.db.followersLock.Lock()
	defer f.db.followersLock.Unlock()
	for i, each := range f.db.followers {
		if each == f {
			f.db.followers = append(f.db.followers[:i:i], f.db.followers[i+1:]...)
			return
		}
	}
}

// Take returns the commits that wait, in order. Its error is ErrBehind if commits were dropped.
func (f *Follower) Take() ([]Commit, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.behind {
		return nil, ErrBehind
	}
	taken := f.waiting
	f.waiting, f.bytes = nil, 0
	return taken, nil
}

// Behind reports that commits were dropped.
func (f *Follower) Behind() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.behind
}

func (f *Follower) add(c Commit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.behind {
		return
	}
	f.waiting, f.bytes = append(f.waiting, c), f.bytes+len(c.Operations)
	if f.bytes > f.limit {
		f.waiting, f.bytes, f.behind = nil, 0, true
	}
}

// publish gives a commit to the followers. record is valid during the call only.
func (db *DB) publish(number uint64, record []byte) {
	db.followersLock.Lock()
	defer db.followersLock.Unlock()
	if len(db.followers) == 0 {
		return
	}
	c := Commit{Number: number, Time: db.clock.Now(), Operations: operationsOf(record)}
	for _, f := range db.followers {
		f.add(c)
	}
}

// Number returns the number of the newest commit that a snapshot contains.
func (tx *Tx) Number() uint64 { return tx.commit }

// EachOperation calls fn with each row that operations write, in order. A nil value deletes the
// row. The rows are parts of operations.
func EachOperation(operations []byte, fn func(bucket Bucket, key, value []byte) error) error {
	for rest := operations; len(rest) > 0; {
		var o operation
		var err error
		if o, rest, err = parseOperation(rest); err != nil {
			return err
		}
		if err := fn(o.bucket, o.key, o.value); err != nil {
			return err
		}
	}
	return nil
}
