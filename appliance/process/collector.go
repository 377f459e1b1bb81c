package process

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// These constants limit the garbage in the heap. The heap of an idle appliance is about 10 MiB. If
// it may grow to several times this size, a busy appliance needs a sixth less CPU time. At a site
// with a thousand hosts, several times the heap would be too much for a laptop.
const (
	maxGarbagePercent = 300      // of the live heap
	minGarbagePercent = 50       // of the live heap, even above garbageLimit
	garbageLimit      = 72 << 20 // bytes, unless minGarbagePercent allows more
	// startGarbageLimit and startGarbagePercent apply until the process has allocated
	// startAllocation bytes. Most of what a start allocates is garbage soon. With them, a start
	// with 1,000 clusters takes 20 ms less, and its peak is 15 MiB higher.
	startGarbageLimit   = 64 << 20
	startGarbagePercent = 800
	startAllocation     = 192 << 20
)

// TuneCollector tunes the garbage collector of this process until stop is called. After each
// collection, it sets the percentage (see debug.SetGCPercent) according to the size of the live
// heap. Do not call it if the environment sets GOGC.
func TuneCollector() (stop func()) {
	before := debug.SetGCPercent(startGarbagePercent)
	var stopped atomic.Bool
	tuneAfterNextCollection(&stopped)
	return func() {
		stopped.Store(true)
		debug.SetGCPercent(before)
	}
}

// tuneAfterNextCollection allocates an unreachable object, whose cleanup runs after the next
// collection.
func tuneAfterNextCollection(stopped *atomic.Bool) {
	type unreachable struct{ _ *byte }
	runtime.AddCleanup(&unreachable{}, func(stopped *atomic.Bool) {
		if stopped.Load() {
			return
		}
		heap := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
		metrics.Read(heap)
		debug.SetGCPercent(garbagePercent(heap[0].Value.Uint64(), heap[1].Value.Uint64()))
		tuneAfterNextCollection(stopped)
	}, stopped)
}

// garbagePercent returns the percentage for a heap with the given number of live bytes. allocated
// is the number of bytes that the process has allocated since its start.
func garbagePercent(live, allocated uint64) int {
	limit, percent := uint64(garbageLimit), uint64(maxGarbagePercent)
	if allocated < startAllocation {
		limit, percent = startGarbageLimit, startGarbagePercent
	}
	return int(min(max(limit*100/max(live, 1), minGarbagePercent), percent))
}
