package engine

import (
	"testing"
	"time"

	"landfall/appliance/engine/lifecycle"

	"github.com/stretchr/testify/require"
)

func TestTheClockWatch(t *testing.T) {
	// A time without a monotonic reading goes with the wall clock; with one, Add moves both. A jump
	// is a wall clock that went another way than the monotonic one, which only a machine that slept
	// or was set can show; so the steps are made by hand.
	w := &clockWatch{}
	began := time.Now()
	require.Zero(t, w.look(began), "the first look has nothing to compare with")
	require.Zero(t, w.look(began.Add(8*time.Hour)), "time that passed is no jump")
	require.Zero(t, w.look(noon), "nor is there one without a monotonic clock")
}

func TestHostsGetTimeToReportAfterTheClockWasSetBack(t *testing.T) {
	b := newBench(t)
	_, env := b.singleNode()
	h := b.host(env, 1)
	h.poll()
	b.clock.Advance(-2 * time.Hour)
	b.Stepper().Jumped(-2 * time.Hour)
	next, waits, err := b.Stepper().Due(t.Context())
	require.NoError(t, err)
	require.True(t, waits)
	require.Equal(t, 3*time.Minute, next.Sub(b.clock.Now()), "and are not waited for until the clock has caught up")
	b.pass(2 * time.Minute)
	h.require(lifecycle.HostKnown)
	b.pass(time.Minute)
	h.require(lifecycle.HostDisconnected)
}

func TestAStageRunsOutInTimeAfterTheClockWasSetBack(t *testing.T) {
	b := newBench(t)
	cluster, h := b.installing()
	require.NoError(t, h.progress("Writing image to disk", "42%"))
	b.clock.Advance(-10 * time.Hour)
	b.Stepper().Jumped(-10 * time.Hour)
	b.handle()
	b.pass(29*time.Minute, h)
	h.require(lifecycle.HostInstallingInProgress)
	b.pass(2*time.Minute, h)
	h.require(lifecycle.HostFailed)
	b.requireCluster(cluster, lifecycle.ClusterFailed)
}
