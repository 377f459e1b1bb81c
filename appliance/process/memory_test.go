package process

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
)

// held counts what it is asked to release.
type held struct{ memory, pages atomic.Int32 }

func (h *held) ReleaseMemory() error { h.memory.Add(1); return nil }
func (h *held) ReleasePages() error  { h.pages.Add(1); return nil }

func TestKeepSmall_startReturnsPagesOnly(t *testing.T) {
	var h held
	much := bytes.Repeat([]byte("much"), worthwhileGrowth/4)
	clock := clockwork.NewFakeClock()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { KeepSmall(ctx, &h, clock, slog.New(slog.DiscardHandler)) })
	require.Eventually(t, func() bool { return h.pages.Load() == 1 }, time.Minute, time.Millisecond)
	cancel()
	running.Wait()
	require.Zero(t, h.memory.Load())
	runtime.KeepAlive(much)
}

func TestUsage_releaseDueWhenIdleAndGrown(t *testing.T) {
	const mib = 1 << 20
	var u usage
	require.False(t, u.releaseDue(100*mib, 200*mib), "start of the process")
	require.True(t, u.releaseDue(101*mib, 200*mib))
	u.least = 90 * mib
	require.False(t, u.releaseDue(103*mib, 100*mib), "little growth")
	require.False(t, u.releaseDue(203*mib, 300*mib), "busy process")
	require.False(t, u.releaseDue(303*mib, 400*mib), "still busy")
	require.True(t, u.releaseDue(304*mib, 400*mib))
	u.least = 150 * mib
	require.False(t, u.releaseDue(305*mib, 60*mib), "the kernel reclaimed pages itself")
	require.True(t, u.releaseDue(306*mib, 120*mib), "growth since the reclaim")
}
