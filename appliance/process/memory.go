// Package process keeps the process of an appliance small and quick: it returns memory to the
// system when the appliance is idle, tunes the garbage collector and adds threads for waiting disk
// access.
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

// An idle process returns the memory that it used while it was busy: garbage and the collector's
// reserve, pooled buffers, and pages of the program and of the database that were read once.
const (
	checkInterval  = 3 * time.Second // between two checks whether the process is idle
	idleAllocation = 64 << 20        // bytes; a process that allocates more in an interval is busy
	// worthwhileGrowth is how much the process must have grown since memory was last returned, in
	// bytes. The memory that it still needs comes back at once, and is less than that.
	worthwhileGrowth = 24 << 20
)

// Releaser is a component that holds memory which it can return to the system, such as the store.
type Releaser interface {
	ReleaseMemory() error
}

// KeepSmall returns memory of the process and of held to the system whenever the process is idle,
// until the context ends.
func KeepSmall(ctx context.Context, held Releaser, clock clockwork.Clock, logger *slog.Logger) {
	ticker := clock.NewTicker(checkInterval)
	defer ticker.Stop()
	u := usage{allocated: allocated()}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.Chan():
		}
		if now := resident(); u.releaseDue(allocated(), now) {
			if err := releaseMemory(held); err != nil {
				logger.Debug("Some unused memory could not be returned to the system.", "error", err)
			}
			u.least = resident()
			logger.Debug("The appliance returned unused memory to the system.", "before", now, "after", u.least)
		}
	}
}

// usage decides when memory is returned.
type usage struct {
	allocated uint64 // bytes that the process had ever allocated at the last check
	least     int64  // smallest resident size in bytes since memory was last returned
}

// releaseDue reports whether the process is idle and has grown enough to return memory.
func (u *usage) releaseDue(allocated uint64, resident int64) bool {
	idle := allocated-u.allocated <= idleAllocation
	u.allocated = allocated
	u.least = min(u.least, resident)
	return idle && resident-u.least >= worthwhileGrowth
}

func releaseMemory(held Releaser) error {
	err := held.ReleaseMemory()
	runtime.GC() // pooled objects survive the first collection and go with the second one
	debug.FreeOSMemory()
	return errors.Join(err, releaseProgramPages())
}

// allocated returns how many bytes the process has ever allocated.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
