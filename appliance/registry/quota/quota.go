// Package quota limits the bytes that the appliance's registry writes to the disk: images that were
// pushed, and copies of media.
package quota

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"syscall"

	"landfall/appliance/fault"
)

// ErrFull is returned if the limit or the disk has no room.
var ErrFull = fault.Sentinel(fault.NoSpace, "there is no room for it; run landfall registry gc, or raise "+
	"registry.bytes")

// WriteError returns ErrFull for a full disk, and other errors with what was being done.
func WriteError(doing string, err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("%w: the disk is full", ErrFull)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// reserve are the bytes of the disk that the registry leaves to the rest of the appliance, whose
// store must be able to grow while the registry writes.
const reserve = 2 << 30

// Quota counts the bytes of the registry. Its methods may be called concurrently.
type Quota struct {
	dir   string
	limit int64
	free  func(dir string) (int64, error)

	mu   sync.Mutex
	used int64
	left int64 // bytes that the disk had room for at the last look, less those taken since
}

// New returns the quota of a directory. limit is the largest number of bytes, or 0 for none. free
// returns the bytes that can still be written to a file system.
func New(dir string, limit int64, free func(dir string) (int64, error)) *Quota {
	return &Quota{dir: dir, limit: limit, free: free}
}

// Take counts bytes that are about to be written. It reports whether the limit and the disk permit
// them. It does not look at the disk each time, but counts what all writers have taken since the
// last look.
func (q *Quota) Take(n int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.limit > 0 && q.used+n > q.limit {
		return false
	}
	if q.left < n {
		if _, err := q.look(); err != nil || q.left < n {
			return false
		}
	}
	q.used, q.left = q.used+n, q.left-n
	return true
}

// look returns the free bytes of the disk. The caller holds the mutex.
func (q *Quota) look() (free int64, err error) {
	if free, err = q.free(q.dir); err != nil {
		return 0, fmt.Errorf("determine the free space of %s: %w", q.dir, err)
	}
	q.left = free
	if free < math.MaxInt64 {
		q.left = max(0, free-reserve)
	}
	return free, nil
}

// Count counts bytes that lie on the disk already.
func (q *Quota) Count(n int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used += n
}

// Release counts bytes that were removed.
func (q *Quota) Release(n int64) { q.Count(-n) }

// Limit returns the limit, or 0 for none.
func (q *Quota) Limit() int64 { return q.limit }

// Room looks at the disk. It returns how many bytes the registry may still write, and what limits
// them, for people.
func (q *Quota) Room() (room int64, limitedBy string, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	free, err := q.look()
	if err != nil {
		return 0, "", err
	}
	room, limitedBy = q.left, "nothing"
	if free < math.MaxInt64 {
		limitedBy = fmt.Sprintf("the disk of %s, of which %.1f GiB are free and 2 GiB must stay free", q.dir,
			float64(free)/(1<<30))
	}
	if left := q.limit - q.used; q.limit > 0 && left < room {
		room = max(0, left)
		limitedBy = fmt.Sprintf("registry.bytes, %.1f GiB, of which %.1f GiB are used", float64(q.limit)/(1<<30),
			float64(q.used)/(1<<30))
	}
	return room, limitedBy, nil
}
