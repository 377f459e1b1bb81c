package appliance

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/jonboulle/clockwork"
)

// When the process has rest it gives back the memory that it took for what it did: garbage and what
// the collector keeps in hand, buffers that wait in pools, and pages of the program and of the
// database that were read once.
const (
	restEvery  = 3 * time.Second // how often it is looked whether there is rest
	restAmount = 64 << 20        // bytes: who allocates more in that time has no rest
	// bytes that the process must have grown by since the last time; what it needs comes back at
	// once, and is less
	restWorth = 24 << 20
)

// KeepSmall gives back memory whenever the appliance has rest, until the context ends.
func (a *Appliance) KeepSmall(ctx context.Context, clock clockwork.Clock) {
	ticker := clock.NewTicker(restEvery)
	defer ticker.Stop()
	r := rest{allocated: allocated()}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.Chan():
		}
		if now := resident(); r.due(allocated(), now) {
			if err := a.releaseMemory(); err != nil {
				a.log.Debug("Memory that the appliance does not need stays with it.", "error", err)
			}
			r.least = resident()
			a.log.Debug("The appliance gave memory back.", "before", now, "after", r.least)
		}
	}
}

// rest tells when memory is to be given back.
type rest struct {
	allocated uint64 // bytes that had ever been allocated when it was looked last
	least     int64  // bytes that the process had in memory after it gave back what it did not need, or since
}

func (r *rest) due(allocated uint64, resident int64) bool {
	quiet := allocated-r.allocated <= restAmount
	r.allocated = allocated
	r.least = min(r.least, resident)
	return quiet && resident-r.least >= restWorth
}

func (a *Appliance) releaseMemory() error {
	err := a.db.ReleaseMemory()
	runtime.GC() // what waits in pools goes with the second collection
	debug.FreeOSMemory()
	return errors.Join(err, releaseProgramPages())
}

// allocated is how many bytes the process has ever allocated.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
