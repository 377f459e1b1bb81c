package store

import (
	"errors"
	"os"
	"sync/atomic"
)

// A commit that lands in space which the file system has yet to allocate makes each of its two syncs write the file system's journal as well, which
// on ext4 takes half as long again. So a goroutine keeps space behind the pages in use that has been written with zeros.
//
// It only ever appends, by O_APPEND, so it can't touch a byte of bbolt's, which writes within the file as it finds it and lengthens it when it is too short.

const (
	reserveLow  = 2 << 20 // bytes behind the pages in use below which more is written
	reserveHigh = 6 << 20 // bytes that are then aimed at
	reserveStep = 1 << 20 // bytes that are written and synced at a time, so that a commit does not wait long behind them
)

// reserve is the space behind the pages in use.
type reserve struct {
	end  atomic.Int64 // what of the file counts as written, bytes from its start
	used chan int64   // bytes in use when the space became short
	done chan struct{}
}

func newReserve(size int64) *reserve {
	r := &reserve{used: make(chan int64, 1), done: make(chan struct{})}
	r.end.Store(size)
	return r
}

// watch is told after each commit how many bytes are in use.
func (r *reserve) watch(used int64) {
	if used+reserveLow <= r.end.Load() {
		return
	}
	select {
	case r.used <- used:
	default: // being seen to
	}
}

// keep extends the file whenever its space becomes short, until the database closes.
func (db *DB) keep(r *reserve) {
	defer close(r.done)
	for {
		select {
		case <-db.closing:
			return
		case used := <-r.used:
			end, err := db.extend(used + reserveHigh)
			if err != nil {
				// Commits go on as they can, and say what is wrong if they can't. It is tried again when as much again is in use.
				db.logger.Debug("no space was set aside for the database", "path", db.path, "error", err)
				end = used + reserveHigh
			}
			r.end.Store(end)
		}
	}
}

// extend writes zeros behind the file's end until it has the wanted size, and returns the size that it has then.
func (db *DB) extend(want int64) (size int64, err error) {
	file, err := os.OpenFile(db.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	zeros := make([]byte, reserveStep)
	for !db.isClosing() {
		info, err := file.Stat()
		if err != nil || info.Size() >= want {
			return want, err
		}
		if _, err := file.Write(zeros); err != nil {
			return 0, err
		}
		if err := file.Sync(); err != nil {
			return 0, err
		}
	}
	return want, nil
}
