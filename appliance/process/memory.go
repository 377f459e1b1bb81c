// Package process tunes the process of an appliance. It returns memory to the operating system when
// the appliance is idle, tunes the garbage collector, adds threads for code that waits for disks,
// and forbids core files.
//
// Design: docs/design.md#idle-memory.
package process

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/jonboulle/clockwork"
)

// An idle process returns memory that it no longer needs: garbage and the collector's reserve,
// pooled buffers, and pages of the program and the database that were read only once.
const (
	checkInterval  = 3 * time.Second // between two idle checks
	idleAllocation = 64 << 20        // bytes; a process that allocates more in an interval is busy
	// worthwhileGrowth is the growth in bytes since the last release after which another release is
	// worthwhile. It is more than the process reads again immediately after a release.
	worthwhileGrowth = 24 << 20
	// startInterval is the time between two looks at the memory until the first idle check. A start
	// reads tens of MiB of the program and the database once, faster than an idle process.
	startInterval = 20 * time.Millisecond
)

// Releaser is a component, such as the store, that can return memory to the operating system.
type Releaser interface {
	ReleaseMemory() error
	// ReleasePages returns only pages of files, which costs little.
	ReleasePages() error
}

// KeepSmall returns memory of the process and of held to the operating system whenever the process
// is idle, until the context ends.
func KeepSmall(ctx context.Context, held Releaser, clock clockwork.Clock, logger *slog.Logger) {
	program, err := findProgramPages()
	if err != nil {
		logger.Debug("Pages of the program are not returned to the operating system.", "error", err)
	}
	u := usage{allocated: allocated()}
	releaseStartPages(ctx, held, program, clock, logger)
	ticker := clock.NewTicker(checkInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.Chan():
		}
		if now := resident(); u.releaseDue(allocated(), now) {
			if err := releaseMemory(held, program); err != nil {
				logger.Debug("Unused memory could not be returned to the operating system.", "error", err)
			}
			u.least = resident()
			logger.Debug("Unused memory returned to the operating system.", "before", now, "after", u.least)
		}
	}
}

// releaseStartPages returns pages of files during a start: those of the database and the program.
func releaseStartPages(ctx context.Context, held Releaser, program programPages, clock clockwork.Clock,
	logger *slog.Logger) {
	ticker := clock.NewTicker(startInterval)
	defer ticker.Stop()
	end := clock.Now().Add(checkInterval)
	for least := int64(0); clock.Now().Before(end); {
		if now := resident(); now-least >= worthwhileGrowth {
			if err := errors.Join(held.ReleasePages(), program.release()); err != nil {
				logger.Debug("Pages of files could not be returned to the operating system.", "error", err)
			}
			least = resident()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.Chan():
		}
	}
}

// usage records the memory usage and decides when to return memory.
type usage struct {
	allocated uint64 // total bytes that the process had allocated at the last check
	least     int64  // smallest resident size in bytes since memory was last returned
}

// releaseDue reports whether the process is idle and has grown enough to return memory.
func (u *usage) releaseDue(allocated uint64, resident int64) bool {
	idle := allocated-u.allocated <= idleAllocation
	u.allocated = allocated
	u.least = min(u.least, resident)
	return idle && resident-u.least >= worthwhileGrowth
}

func releaseMemory(held Releaser, program programPages) error {
	err := held.ReleaseMemory()
	runtime.GC() // pooled objects survive the first collection; the second one frees them
	debug.FreeOSMemory()
	return errors.Join(err, program.release())
}

// allocated returns the total number of bytes that the process has allocated.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
