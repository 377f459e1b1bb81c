package engine

import (
	"encoding/json"
	"testing"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/fault"
)

// arriving returns a host that registers for an installed cluster.
func (b *harness) arriving() (cluster string, h *testHost) {
	b.Helper()
	cluster, first := b.installed()
	_, err := b.AllowAddHosts(b.Context(), cluster)
	require.NoError(b, err)
	h = b.newHost(first.env, 2)
	h.balancedTo = 1
	require.NoError(b, h.register())
	return cluster, h
}

// joining returns a host that joins an installed cluster and is about to be installed.
func (b *harness) joining() (cluster string, h *testHost) {
	b.Helper()
	cluster, h = b.arriving()
	h.report()
	h.require(lifecycle.HostKnown)
	_, err := b.InstallHost(b.Context(), h.env, h.id)
	require.NoError(b, err)
	require.Equal(b, models.HostRoleWorker, h.require(lifecycle.HostInstalling).Role)
	return cluster, h
}

func TestJoiningHost_changedDuringItsStart(t *testing.T) {
	b := newHarness(t)
	cluster, first := b.installed()
	_, err := b.AllowAddHosts(t.Context(), cluster)
	require.NoError(t, err)
	require.NoError(t, b.update(t.Context(), func(c *change) error {
		row, err := c.cluster(cluster)
		if err != nil {
			return err
		}
		row.Release = nil // as in an imported cluster, whose release is read when a host is installed
		c.saveCluster(row)
		return nil
	}))
	h := b.newHost(first.env, 2)
	h.balancedTo = 1
	require.NoError(t, h.register())
	h.report()
	b.releases.onPayload = func() {
		b.releases.onPayload = nil
		_, err := b.UpdateHost(t.Context(), h.env, h.id, &models.HostUpdateParams{HostName: conv.Pointer("renamed")})
		require.NoError(t, err)
	}
	_, err = b.InstallHost(t.Context(), h.env, h.id)
	b.requireRejected(err, fault.Conflict, "Host renamed was changed while its installation was being started")
	h.require(lifecycle.HostKnown)
	_, err = b.InstallHost(t.Context(), h.env, h.id)
	require.NoError(t, err)
	config, err := b.ReadHostIgnition(h.env, h.id)
	require.NoError(t, err)
	require.Contains(t, config, "cmVuYW1lZA==", "the new name in base64")
}

func TestJoiningHost_resetInEachState(t *testing.T) {
	for name, c := range map[string]struct {
		until func(*testing.T, *testHost)
		state string
	}{
		"before the installer starts": {func(*testing.T, *testHost) {}, lifecycle.HostInstalling},
		"during the installation": {func(t *testing.T, h *testHost) {
			require.NoError(t, h.progress(models.HostStageStartingInstallation, ""))
		}, lifecycle.HostInstallingInProgress},
		"installer did not start": {func(t *testing.T, h *testHost) {
			require.NoError(t, h.reply(&models.StepReply{StepType: models.StepTypeInstall, StepID: "install",
				ExitCode: 125, Output: "blabla", Error: "Some random error"}))
		}, lifecycle.HostFailed},
		"installer failed": {func(t *testing.T, h *testHost) {
			require.NoError(t, h.progress(models.HostStageWritingImageToDisk, "12%"))
			require.NoError(t, h.progress(models.HostStageFailed, "input/output error"))
		}, lifecycle.HostFailed},
		"installed": {func(t *testing.T, h *testHost) {
			require.NoError(t, h.progress(models.HostStageStartingInstallation, ""))
			require.NoError(t, h.progress(models.HostStageRebooting, ""))
		}, lifecycle.HostAdded},
		"reset before": {func(t *testing.T, h *testHost) {
			_, err := h.b.ResetHost(t.Context(), h.env, h.id)
			require.NoError(t, err)
		}, lifecycle.HostResettingPendingUserAction},
	} {
		t.Run(name, func(t *testing.T) {
			b := newHarness(t)
			cluster, h := b.joining()
			c.until(t, h)
			h.require(c.state)
			b.requireCluster(cluster, lifecycle.ClusterAddingHosts)
			_, err := b.ResetHost(t.Context(), h.env, h.id)
			if c.state == lifecycle.HostResettingPendingUserAction {
				b.requireRejected(err, fault.Conflict, "has no installation to reset")
			} else {
				require.NoError(t, err)
			}
			reset := h.require(lifecycle.HostResettingPendingUserAction)
			require.Empty(t, reset.Progress.CurrentStage)
			require.Empty(t, h.stepTypes(), "the host only waits for its restart")
			require.NoError(t, h.register())
			h.require(lifecycle.HostDiscovering)
			h.report()
			h.require(lifecycle.HostKnown)
			_, err = b.InstallHost(t.Context(), h.env, h.id)
			require.NoError(t, err, "the host can be installed again")
			h.require(lifecycle.HostInstalling)
			b.requireCluster(cluster, lifecycle.ClusterAddingHosts)
		})
	}
}

// TestJoiningHost_progress checks the progress of the host. The cluster is already installed.
func TestJoiningHost_progress(t *testing.T) {
	b := newHarness(t)
	cluster, h := b.arriving()
	stages := []models.HostStage{
		models.HostStageStartingInstallation, models.HostStageInstalling, models.HostStageWritingImageToDisk,
		models.HostStageWaitingForControlPlane, models.HostStageRebooting,
	}
	joins := h.require(lifecycle.HostDiscovering)
	require.Equal(t, []any{models.HostRoleWorker, "worker", stages}, []any{joins.Role, joins.MachineConfigPoolName,
		joins.ProgressStages})
	h.report()
	_, err := b.InstallHost(t.Context(), h.env, h.id)
	require.NoError(t, err)
	for i, stage := range stages {
		require.NoError(t, h.progress(stage, ""))
		shown := h.require("")
		require.Equal(t, stages, shown.ProgressStages)
		require.EqualValues(t, 20*(i+1), shown.Progress.InstallationPercentage)
		require.EqualValues(t, 100, b.requireCluster(cluster, lifecycle.ClusterAddingHosts).Progress.TotalPercentage)
	}
	h.require(lifecycle.HostAdded)

	id := strfmt.UUID("6e9d7b8e-3c5a-4c39-a4ac-5a8a0a9fbd31")
	imported, err := b.ImportCluster(t.Context(), &models.ImportClusterParams{
		APIVipDnsname: conv.Pointer("api.others.example.com"), Name: conv.Pointer("others"), OpenshiftClusterID: &id,
		OpenshiftVersion: "4.20.8",
	})
	require.NoError(t, err)
	late := b.host(b.infraEnvOf(nil), 3)
	_, err = b.BindHost(t.Context(), late.env, late.id, imported.ID.String())
	require.NoError(t, err)
	require.NoError(t, late.register())
	require.Equal(t, models.HostKindAddToExistingClusterHost, *late.require(lifecycle.HostDiscovering).Kind)
	late.become("master")
	require.NoError(t, late.register())
	require.Equal(t, models.HostRoleMaster, late.require(lifecycle.HostDiscovering).Role,
		"the user's settings stay")
	require.Equal(t, []models.StepType{models.StepTypeInventory, models.StepTypeNtpSynchronizer,
		models.StepTypeDomainResolution}, late.stepTypes())
	_, err = b.InstallHost(t.Context(), late.env, late.id)
	b.requireRejected(err, fault.Conflict, "can't be installed now")
}

func TestJoiningHost_poolFollowsRole(t *testing.T) {
	b := newHarness(t)
	_, h := b.arriving()
	h.report()
	requirePool := func(pool, config string) {
		t.Helper()
		require.Equal(t, pool, h.require("").MachineConfigPoolName)
		var request models.APIVipConnectivityRequest
		for _, step := range h.poll().Instructions {
			if step.StepType == models.StepTypeAPIVipConnectivityCheck {
				require.NoError(t, json.Unmarshal([]byte(step.Args[0]), &request))
			}
		}
		require.Contains(t, *request.URL, ":22624/config/"+config)
	}
	requirePool("worker", "worker")
	h.become("master")
	requirePool("master", "master")
	h.become("auto-assign")
	requirePool("", "worker")
	h.become("worker")
	requirePool("worker", "worker")
	_, err := b.UpdateHost(t.Context(), h.env, h.id, &models.HostUpdateParams{HostRole: conv.Pointer("master"),
		MachineConfigPoolName: conv.Pointer("infra")})
	require.NoError(t, err)
	requirePool("infra", "infra")
	h.become("worker")
	requirePool("infra", "infra")
}

// A host that writes its disk must not lose its cluster.
func TestDeleteCluster_keepsJoiningHost(t *testing.T) {
	for name, own := range map[string]bool{"infra-env of the cluster": true, "infra-env without cluster": false} {
		t.Run(name, func(t *testing.T) {
			b := newHarness(t)
			cluster, first := b.installed()
			_, err := b.AllowAddHosts(t.Context(), cluster)
			require.NoError(t, err)
			h := b.newHost(first.env, 2)
			h.balancedTo = 1
			if !own {
				h.env = b.infraEnvOf(nil)
			}
			require.NoError(t, h.register())
			if !own {
				h.report()
				_, err = b.BindHost(t.Context(), h.env, h.id, cluster)
				require.NoError(t, err)
				require.NoError(t, h.register())
			}
			h.report()
			_, err = b.InstallHost(t.Context(), h.env, h.id)
			require.NoError(t, err)
			const want = "Host node-2 is installing, because it joins cluster bench; reset the host first."
			b.requireRejected(b.DeregisterCluster(t.Context(), cluster, false), fault.Conflict, want)
			b.requireRejected(b.DeregisterHost(t.Context(), h.env, h.id), fault.Conflict, want)
			h.require(lifecycle.HostInstalling)
			_, err = b.ResetHost(t.Context(), h.env, h.id)
			require.NoError(t, err)
			require.NoError(t, b.DeregisterCluster(t.Context(), cluster, false))
		})
	}
}
