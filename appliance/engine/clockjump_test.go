package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/presence"
	"landfall/store"
)

func TestClockJump_hostsGetTimeToReport(t *testing.T) {
	b := newHarness(t)
	_, env := b.singleNode()
	h := b.host(env, 1)
	h.poll()
	b.clock.Advance(-2 * time.Hour)
	b.Stepper().Jumped(-2 * time.Hour)
	next, waits, err := b.Stepper().Due(t.Context())
	require.NoError(t, err)
	require.True(t, waits)
	require.Equal(t, 3*time.Minute, next.Sub(b.clock.Now()), "the deadline follows the clock that was set back")
	b.pass(2 * time.Minute)
	h.require(lifecycle.HostKnown)
	b.pass(time.Minute)
	h.require(lifecycle.HostDisconnected)
}

func TestClockJump_stageEndsInTime(t *testing.T) {
	b := newHarness(t)
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

// stall lets time pass in which no change reaches the disk, although both clocks go on.
func (b *harness) stall(d time.Duration) {
	b.Helper()
	began := b.clock.Now()
	b.options.Pulse = presence.NewPulse(b.clock, b.options.Timeouts.HostDisconnected,
		func() time.Time { return began })
	for end := began.Add(d); b.clock.Now().Before(end); {
		b.clock.Advance(time.Minute)
		b.checkClock() // the pulse beats
		b.handle()
	}
	b.options.Pulse = nil
}

func TestInterruption_hostsGetTimeToReport(t *testing.T) {
	b := newHarness(t)
	_, env := b.singleNode()
	h := b.host(env, 1)
	h.poll()
	b.stall(10 * time.Minute)
	h.require(lifecycle.HostKnown)
	b.pass(2 * time.Minute)
	h.require(lifecycle.HostKnown)
	b.pass(time.Minute)
	h.require(lifecycle.HostDisconnected)
}

// TestInterruption_changeWaits pauses the machine while a change waits for its transaction.
func TestInterruption_changeWaits(t *testing.T) {
	b := newHarness(t)
	_, h := b.installing()
	began := b.clock.Now()
	b.options.Pulse = presence.NewPulse(b.clock, b.options.Timeouts.HostDisconnected,
		func() time.Time { return began })
	require.NoError(t, b.options.DB.Update(t.Context(), func(tx *store.Tx) error {
		b.clock.Advance(10 * time.Minute)
		c := newChange(t.Context(), b.Engine, tx)
		found, err := c.host(h.env + "/" + h.id)
		require.NoError(t, err)
		require.True(t, c.connected(found))
		return nil
	}))
}

func TestInterruption_stageGetsItsTimeAgain(t *testing.T) {
	b := newHarness(t)
	_, h := b.installing()
	require.NoError(t, h.progress("Writing image to disk", "42%"))
	b.stall(2 * time.Hour)
	h.require(lifecycle.HostInstallingInProgress)
	b.pass(29*time.Minute, h)
	h.require(lifecycle.HostInstallingInProgress)
	b.pass(2*time.Minute, h)
	h.require(lifecycle.HostFailed)
}

// TestSleep_installationGetsItsTimeAgain lets the machine sleep over a weekend while a cluster
// finishes by itself.
func TestSleep_installationGetsItsTimeAgain(t *testing.T) {
	b := newHarness(t)
	cluster, _ := b.finalizing()
	b.clock.Advance(60 * time.Hour)
	b.Stepper().Jumped(60 * time.Hour)
	b.handle()
	b.requireCluster(cluster, lifecycle.ClusterFinalizing)
	require.NoError(t, b.UploadIngressCert(t.Context(), cluster, b.authority))
	_, err := b.CompleteInstallation(t.Context(), cluster, true, "")
	require.NoError(t, err)
	b.requireCluster(cluster, lifecycle.ClusterInstalled)
}

// TestSleep_installationEndsInTime lets the machine sleep at night while an installation hangs
// whose other limits only warn. Its certificates expire in the morning.
func TestSleep_installationEndsInTime(t *testing.T) {
	b := newHarness(t)
	b.Engine.options.Timeouts.WarnOnly = true
	cluster, _ := b.finalizing()
	b.pass(8 * time.Hour)
	b.clock.Advance(16 * time.Hour)
	b.Stepper().Jumped(16 * time.Hour)
	b.pass(4 * time.Hour)
	b.requireCluster(cluster, lifecycle.ClusterFinalizing)
	b.pass(4 * time.Hour)
	b.requireCluster(cluster, lifecycle.ClusterFailed)
}
