package process

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// These constants limit the garbage in the process. The heap of an idle appliance is about 10 MiB.
// Letting it grow to several times that size saves a busy appliance a sixth of its work. Several
// times the heap of a site with a thousand hosts would be too much for a laptop.
const (
	maxGarbagePercent = 300      // of the live heap
	minGarbagePercent = 50       // of the live heap, even above garbageLimit
	garbageLimit      = 72 << 20 // bytes, unless minGarbagePercent allows more
)

// TuneCollector adapts the garbage collector of this process to an appliance until stop is called.
// After each collection it sets the percentage (see debug.SetGCPercent) by the size of the live
// heap. Do not call it if the environment sets GOGC.
func TuneCollector() (stop func()) {
	before := debug.SetGCPercent(maxGarbagePercent)
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
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		debug.SetGCPercent(garbagePercent(live[0].Value.Uint64()))
		tuneAfterNextCollection(stopped)
	}, stopped)
}

// garbagePercent returns the percentage for a heap with the given number of live bytes.
func garbagePercent(live uint64) int {
	return int(min(max(garbageLimit*100/max(live, 1), minGarbagePercent), maxGarbagePercent))
}
