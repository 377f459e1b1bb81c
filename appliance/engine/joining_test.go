package engine

import (
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

// joining is a host that joins an installed cluster and was ordered to install.
func (b *bench) joining() (cluster string, h *testHost) {
	b.Helper()
	cluster, first := b.installed()
	_, err := b.AllowAddHosts(b.Context(), cluster)
	require.NoError(b, err)
	h = b.newHost(first.env, 2)
	h.balancedTo = 1
	require.NoError(b, h.register())
	h.report()
	h.require(known)
	_, err = b.InstallHost(b.Context(), h.env, h.id)
	require.NoError(b, err)
	require.Equal(b, models.HostRoleWorker, h.require(installing).Role)
	return cluster, h
}

func TestAHostThatJoinsIsResetInEachStateOfItsInstallation(t *testing.T) {
	for name, c := range map[string]struct {
		until func(*testing.T, *testHost)
		state string
	}{
		"before the installer has started": {func(*testing.T, *testHost) {}, installing},
		"while it is installed": {func(t *testing.T, h *testHost) {
			require.NoError(t, h.progress(models.HostStageStartingInstallation, ""))
		}, inProgress},
		"the installer could not be started": {func(t *testing.T, h *testHost) {
			require.NoError(t, h.reply(&models.StepReply{StepType: models.StepTypeInstall, StepID: "install", ExitCode: 125, Output: "blabla", Error: "Some random error"}))
		}, failed},
		"the installer has failed": {func(t *testing.T, h *testHost) {
			require.NoError(t, h.progress(models.HostStageWritingImageToDisk, "12%"))
			require.NoError(t, h.progress(models.HostStageFailed, "input/output error"))
		}, failed},
		"it is installed": {func(t *testing.T, h *testHost) {
			require.NoError(t, h.progress(models.HostStageStartingInstallation, ""))
			require.NoError(t, h.progress(models.HostStageRebooting, ""))
		}, added},
		"it was reset before": {func(t *testing.T, h *testHost) {
			_, err := h.b.ResetHost(t.Context(), h.env, h.id)
			require.NoError(t, err)
		}, resetPending},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			cluster, h := b.joining()
			c.until(t, h)
			h.require(c.state)
			b.requireCluster(cluster, clusterAddingHosts)
			_, err := b.ResetHost(t.Context(), h.env, h.id)
			if c.state == resetPending {
				b.requireRefused(err, Conflict, "there is nothing to reset")
			} else {
				require.NoError(t, err)
			}
			reset := h.require(resetPending)
			require.Empty(t, reset.Progress.CurrentStage)
			require.Empty(t, h.stepTypes(), "nothing is left to do but to restart it")
			require.NoError(t, h.register())
			h.require(discovering)
			h.report()
			h.require(known)
			_, err = b.InstallHost(t.Context(), h.env, h.id)
			require.NoError(t, err, "it can be installed again")
			h.require(installing)
			b.requireCluster(cluster, clusterAddingHosts)
		})
	}
}
