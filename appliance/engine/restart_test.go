package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// readyNode is a cluster of one node that could be installed.
func (b *bench) readyNode() (cluster, env string, h *testHost) {
	b.Helper()
	cluster, env = b.singleNode()
	h = b.host(env, 1)
	h.require(known)
	b.requireCluster(cluster, clusterReady)
	return cluster, env, h
}

func TestAHostThatIsRestartedFromANewerImageIsNotInstalledUntilItRegistersAgain(t *testing.T) {
	b := newBench(t, nil)
	cluster, env, h := b.readyNode()
	require.NoError(t, b.RestartHost(t.Context(), env, h.id))
	require.Equal(t, sentenceRestarts, *h.require(disconnected).StatusInfo)

	h.report() // it is not switched off yet
	h.require(disconnected)
	_, err := b.InstallCluster(t.Context(), cluster)
	b.requireRefused(err, Conflict, "")
	b.pass(2*time.Minute, h)
	require.Equal(t, sentenceRestarts, *h.require(disconnected).StatusInfo)

	require.NoError(t, h.register())
	h.require(discovering)
	h.report()
	h.require(known)
	_, err = b.InstallCluster(t.Context(), cluster)
	require.NoError(t, err)
}

func TestAHostThatWasToBeRestartedAndWasNotCountsAgain(t *testing.T) {
	b := newBench(t, nil)
	cluster, env, h := b.readyNode()
	require.NoError(t, b.RestartHost(t.Context(), env, h.id))
	b.pass(4*time.Minute, h)
	h.require(known)
	b.requireCluster(cluster, clusterReady)
}

func TestAHostThatWasRestartedAndDoesNotComeBackIsLost(t *testing.T) {
	b := newBench(t, nil)
	_, env, h := b.readyNode()
	require.NoError(t, b.RestartHost(t.Context(), env, h.id))
	b.pass(4 * time.Minute)
	require.Equal(t, sentenceLost, *h.require(disconnected).StatusInfo)
}

func TestAHostThatAnInstallationHasIsNotRestarted(t *testing.T) {
	b := newBench(t, nil)
	cluster, env, h := b.readyNode()
	b.press(cluster)
	h.require(preparing)
	b.requireRefused(b.RestartHost(t.Context(), env, h.id), Conflict, "preparing-for-installation")
	h.require(preparing)
}
