package appliance

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// How much garbage the process of an appliance may hold. The heap at rest is some ten MiB: letting
// it grow to several times that takes a sixth of the work off a busy appliance. Several times the
// heap of a site with a thousand hosts would be too much for a laptop.
const (
	garbagePercent      = 300      // of what is alive, at most
	garbageLeastPercent = 50       // of what is alive, however much that is
	garbageLimit        = 72 << 20 // bytes, unless that is less than the least
)

// TuneCollector has the garbage collector of this process run as often as suits an appliance, until
// it is stopped. After each collection the percentage (see debug.SetGCPercent) is set anew, from
// what was found alive. It is not to be called where a person has set GOGC.
func TuneCollector() (stop func()) {
	before := debug.SetGCPercent(garbagePercent)
	var stopped atomic.Bool
	tuneAfterNextCollection(&stopped)
	return func() {
		stopped.Store(true)
		debug.SetGCPercent(before)
	}
}

// tuneAfterNextCollection leaves an object behind that nobody holds, for the next collection to
// find.
func tuneAfterNextCollection(stopped *atomic.Bool) {
	type nobodys struct{ _ *byte }
	runtime.AddCleanup(&nobodys{}, func(stopped *atomic.Bool) {
		if stopped.Load() {
			return
		}
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		debug.SetGCPercent(garbageShare(live[0].Value.Uint64()))
		tuneAfterNextCollection(stopped)
	}, stopped)
}

// garbageShare is the percentage for a heap of which so many bytes are alive.
func garbageShare(live uint64) int {
	return int(min(max(garbageLimit*100/max(live, 1), garbageLeastPercent), garbagePercent))
}
