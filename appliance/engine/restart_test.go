package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/fault"
)

// readyNode returns a cluster of one node that is ready to be installed.
func (b *harness) readyNode() (cluster, env string, h *testHost) {
	b.Helper()
	cluster, env = b.singleNode()
	h = b.host(env, 1)
	h.require(lifecycle.HostKnown)
	b.requireCluster(cluster, lifecycle.ClusterReady)
	return cluster, env, h
}

func TestRestart_installWaitsForRegistration(t *testing.T) {
	b := newHarness(t)
	cluster, env, h := b.readyNode()
	require.NoError(t, b.RestartHost(t.Context(), env, h.id))
	require.Equal(t, lifecycle.InfoRestarting, *h.require(lifecycle.HostDisconnected).StatusInfo)

	h.report() // the host is still running
	h.require(lifecycle.HostDisconnected)
	_, err := b.InstallCluster(t.Context(), cluster)
	b.requireRejected(err, fault.Conflict, "")
	b.pass(2*time.Minute, h)
	require.Equal(t, lifecycle.InfoRestarting, *h.require(lifecycle.HostDisconnected).StatusInfo)

	require.NoError(t, h.register())
	h.require(lifecycle.HostDiscovering)
	h.report()
	h.require(lifecycle.HostKnown)
	_, err = b.InstallCluster(t.Context(), cluster)
	require.NoError(t, err)
}

func TestRestart_cancelledHostCountsAgain(t *testing.T) {
	b := newHarness(t)
	cluster, env, h := b.readyNode()
	require.NoError(t, b.RestartHost(t.Context(), env, h.id))
	b.pass(4*time.Minute, h)
	h.require(lifecycle.HostKnown)
	b.requireCluster(cluster, lifecycle.ClusterReady)
}

func TestRestart_missingHostIsLost(t *testing.T) {
	b := newHarness(t)
	_, env, h := b.readyNode()
	require.NoError(t, b.RestartHost(t.Context(), env, h.id))
	b.pass(4 * time.Minute)
	require.Equal(t, lifecycle.InfoSilent, *h.require(lifecycle.HostDisconnected).StatusInfo)
}

func TestRestart_rejectedDuringInstallation(t *testing.T) {
	b := newHarness(t)
	cluster, env, h := b.readyNode()
	b.startInstallation(cluster)
	h.require(lifecycle.HostPreparing)
	b.requireRejected(b.RestartHost(t.Context(), env, h.id), fault.Conflict, "preparing-for-installation")
	h.require(lifecycle.HostPreparing)
}
