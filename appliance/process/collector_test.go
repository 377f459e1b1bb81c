package process

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGarbagePercent(t *testing.T) {
	for live, percent := range map[uint64]int{0: 300, 10 << 20: 300, 24 << 20: 300, 36 << 20: 200, 72 << 20: 100,
		144 << 20: 50, 1 << 40: 50} {
		require.Equal(t, percent, garbagePercent(live, startAllocation), "of %d bytes", live)
	}
	for live, percent := range map[uint64]int{0: 800, 8 << 20: 800, 16 << 20: 400, 64 << 20: 100, 128 << 20: 50,
		1 << 40: 50} {
		require.Equal(t, percent, garbagePercent(live, startAllocation-1), "of %d bytes at the start", live)
	}
}

func TestTuneCollector_afterEachCollection(t *testing.T) {
	percent := func() int {
		held := debug.SetGCPercent(-1)
		debug.SetGCPercent(held)
		return held
	}
	before := percent()
	stop := TuneCollector()
	require.Equal(t, startGarbagePercent, percent())
	much := make([]byte, 190<<20)
	require.Eventually(t, func() bool { runtime.GC(); return percent() < 60 }, time.Minute, time.Millisecond,
		"190 MiB are live")
	runtime.KeepAlive(much)
	require.Eventually(t, func() bool { runtime.GC(); return percent() > 60 }, time.Minute, time.Millisecond,
		"the 190 MiB are garbage")
	stop()
	require.Equal(t, before, percent())
}
