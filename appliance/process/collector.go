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
)

// TuneCollector tunes the garbage collector of this process until stop is called. After each
// collection, it sets the percentage (see debug.SetGCPercent) according to the size of the live
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
