package engine

import (
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/ams/outbox"
	"landfall/appliance/engine/event"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/fault"
)

// These tests cover hosts and clusters outside a first installation.

func (h *testHost) stepTypes() []models.StepType {
	h.b.Helper()
	var types []models.StepType
	for _, step := range h.poll().Instructions {
		types = append(types, step.StepType)
	}
	return types
}

func TestJoiningHost_joinsAnInstalledCluster(t *testing.T) {
	b := newHarness(t)
	cluster, first := b.installed()
	_, err := b.AllowAddHosts(t.Context(), cluster)
	require.NoError(t, err)
	b.requireCluster(cluster, lifecycle.ClusterAddingHosts)
	first.require(lifecycle.HostInstalled)

	h := b.newHost(first.env, 2)
	h.balancedTo = 1
	require.NoError(t, h.register())
	require.Equal(t, models.HostKindAddToExistingClusterHost, *h.require(lifecycle.HostDiscovering).Kind)
	h.report()
	h.require(lifecycle.HostKnown)
	_, err = b.InstallHost(t.Context(), h.env, h.id)
	require.NoError(t, err)
	h.require(lifecycle.HostInstalling)
	require.NoError(t, h.progress(models.HostStageWritingImageToDisk, "50%"))
	h.require(lifecycle.HostInstallingInProgress)
	require.NoError(t, h.progress(models.HostStageRebooting, ""))
	got := h.require(lifecycle.HostAdded)
	require.Equal(t, models.HostStageDone, got.Progress.CurrentStage)
	require.EqualValues(t, 100, got.Progress.InstallationPercentage)
	b.requireCluster(cluster, lifecycle.ClusterAddingHosts)

	require.NoError(t, h.register(), "the host boots the discovery image instead of its disk")
	h.require(lifecycle.HostPendingUserAction)
	b.pass(5 * time.Hour)
	h.require(lifecycle.HostPendingUserAction)
	require.Contains(t, *h.require("").StatusInfo, "delete it here")
	_, err = b.UnbindHost(t.Context(), h.env, h.id)
	b.requireRejected(err, fault.Conflict, "remove the host, and boot it from the image of another infra-env")
	require.NoError(t, h.progress(models.HostStageDone, ""))
	h.require(lifecycle.HostAdded)
	_, err = b.ResetHost(t.Context(), h.env, h.id)
	require.NoError(t, err)
	require.NoError(t, h.register())
	h.report()
	h.require(lifecycle.HostKnown)
}

func TestReclaim(t *testing.T) {
	reclaimed := func(t *testing.T) (*harness, *testHost) {
		b := newHarness(t)
		cluster, _ := b.singleNode()
		h := b.host(b.infraEnvOf(nil), 1)
		_, err := b.BindHost(t.Context(), h.env, h.id, cluster)
		require.NoError(t, err)
		require.NoError(t, h.register())
		h.report()
		b.startInstallation(cluster)
		b.prepareAll()
		h.report()
		h.reportStagesUpTo(models.HostStageDone)
		b.complete(cluster)
		_, err = b.ReclaimHost(t.Context(), h.env, h.id)
		require.NoError(t, err)
		require.Nil(t, h.require(lifecycle.HostReclaiming).ClusterID)
		require.Empty(t, h.require(lifecycle.HostReclaiming).Progress.CurrentStage)
		return b, h
	}
	answer := func(kind models.StepType, code int64) *models.StepReply {
		return &models.StepReply{StepType: kind, ExitCode: code, Error: "no space left on device"}
	}
	t.Run("boots without help", func(t *testing.T) {
		_, h := reclaimed(t)
		step := h.poll().Instructions[0]
		require.Equal(t, models.StepTypeDownloadBootArtifacts, step.StepType)
		require.Contains(t, step.Args[0], "/boot-artifacts/kernel?arch=x86_64")
		require.Contains(t, step.Args[0], h.env+"/pxe-initrd")
		require.NoError(t, h.reply(answer(step.StepType, 0)))
		h.require(lifecycle.HostReclaimingRebooting)
		require.Equal(t, []models.StepType{models.StepTypeRebootForReclaim}, h.stepTypes())
		require.Equal(t, models.StepsPostStepActionExit, *h.poll().PostStepAction)
		require.NoError(t, h.reply(answer(step.StepType, 0)), "repeated reply")
		h.require(lifecycle.HostReclaimingRebooting)
		require.NoError(t, h.register())
		h.report()
		h.require(lifecycle.HostKnownUnbound)
		require.NoError(t, h.reply(answer(step.StepType, 1)), "a reply that was sent before the restart")
		h.require(lifecycle.HostKnownUnbound)
	})
	t.Run("can't fetch the image", func(t *testing.T) {
		b, h := reclaimed(t)
		require.NoError(t, h.reply(answer(models.StepTypeDownloadBootArtifacts, 1)))
		h.require(lifecycle.HostUnbindingPendingUserAction)
		require.Contains(t, b.names(event.Filter{HostIDs: []string{h.id}}), "host_step_failed")
	})
	t.Run("does not come back", func(t *testing.T) {
		b, h := reclaimed(t)
		b.pass(time.Hour - time.Second)
		h.require(lifecycle.HostReclaiming)
		b.pass(time.Second)
		h.require(lifecycle.HostUnbindingPendingUserAction)
	})
}

func TestPreparation_restartedHostContinues(t *testing.T) {
	b := newHarness(t)
	cluster, env := b.singleNode()
	h := b.host(env, 1)
	b.startInstallation(cluster)
	b.prepareAll()
	h.report()
	b.requireCluster(cluster, lifecycle.ClusterInstalling)
	_, err := b.CancelInstallation(t.Context(), cluster)
	require.NoError(t, err)
	_, err = b.ResetCluster(t.Context(), cluster)
	require.NoError(t, err)
	require.NoError(t, h.register())
	h.report()
	b.startInstallation(cluster)
	h.require(lifecycle.HostPreparing)
	require.NoError(t, h.register())
	h.require(lifecycle.HostPreparing)
	b.requireCluster(cluster, lifecycle.ClusterPreparing)
	b.prepareAll()
	require.Contains(t, h.stepTypes(), models.StepTypeContainerImageAvailability, "the pulled images were in memory")
	h.report()
	h.require(lifecycle.HostInstalling)
}

func TestTimeouts_warningsOnly(t *testing.T) {
	b := newHarness(t)
	b.Engine.options.Timeouts.WarnOnly = true
	cluster, h := b.installing()
	h.reportStagesUpTo(models.HostStageWritingImageToDisk)
	b.pass(31*time.Minute, h)
	require.True(t, h.require(lifecycle.HostInstallingInProgress).Progress.StageTimedOut)
	require.Contains(t, b.names(event.Filter{HostIDs: []string{h.id}}), event.StageTimedOut)
	before := b.options.DB.Revision()
	b.pass(2*time.Hour, h)
	require.Equal(t, before, b.options.DB.Revision(), "one event")

	b.pass(4 * time.Minute)
	require.True(t, h.require(lifecycle.HostInstallingInProgress).ConnectionTimedOut)
	require.NoError(t, h.progress(lifecycle.StageCopyingRegistry, ""))
	got := h.require(lifecycle.HostInstallingInProgress)
	require.False(t, got.Progress.StageTimedOut)
	require.False(t, got.ConnectionTimedOut)
	h.reportStagesUpTo(models.HostStageDone)
	b.requireCluster(cluster, lifecycle.ClusterFinalizing)
	require.NoError(t, b.RecordFinalizingProgress(t.Context(), cluster, models.FinalizingStageAddingRouterCa))
	b.pass(71 * time.Minute)
	require.True(t, b.requireCluster(cluster, lifecycle.ClusterFinalizing).Progress.FinalizingStageTimedOut)
	b.pass(24 * time.Hour)
	b.requireCluster(cluster, lifecycle.ClusterFailed)
}

func TestTimeouts_controllerStages(t *testing.T) {
	b := newHarness(t)
	cluster, _ := b.finalizing()
	require.NoError(t, b.RecordFinalizingProgress(t.Context(), cluster, models.FinalizingStageApplyingOlmManifests))
	b.pass(11 * time.Minute)
	require.True(t, b.requireCluster(cluster, lifecycle.ClusterFinalizing).Progress.FinalizingStageTimedOut,
		"operators may still become available")
	require.Contains(t, b.names(event.Filter{ClusterID: cluster}), event.FinalizingTimedOut)
	require.NoError(t, b.RecordFinalizingProgress(t.Context(), cluster,
		models.FinalizingStageWaitingForOLMOperatorSetupJobs))
	b.pass(10*time.Minute - time.Second)
	require.False(t, b.requireCluster(cluster, lifecycle.ClusterFinalizing).Progress.FinalizingStageTimedOut)
	b.pass(time.Second)
	require.Contains(t, *b.requireCluster(cluster, lifecycle.ClusterFailed).StatusInfo, "setup jobs")
}

func TestTimeouts_missingLogs(t *testing.T) {
	b := newHarness(t)
	cluster, h := b.installing()
	require.NoError(t, h.progress(models.HostStageFailed, "broken"))
	b.pass(2*time.Minute - time.Second)
	require.Equal(t, models.LogsStateEmpty, h.require(lifecycle.HostFailed).LogsInfo)
	b.pass(time.Second)
	require.Equal(t, models.LogsStateTimeout, h.require(lifecycle.HostFailed).LogsInfo)
	b.pass(8 * time.Minute)
	require.Equal(t, models.LogsStateTimeout, b.requireCluster(cluster, lifecycle.ClusterFailed).LogsInfo)
	_, err := b.ResetCluster(t.Context(), cluster)
	require.NoError(t, err)
	require.Equal(t, models.LogsStateEmpty, h.require(lifecycle.HostResettingPendingUserAction).LogsInfo)
}

func TestHost_returnsAfterMonths(t *testing.T) {
	b := newHarness(t)
	cluster, env := b.singleNode()
	h := b.host(env, 1)
	b.pass(10 * time.Minute)
	h.require(lifecycle.HostDisconnected)
	b.clock.Advance(120 * 24 * time.Hour)
	b.handle()
	h.require(lifecycle.HostDisconnected)
	require.NoError(t, h.register())
	h.require(lifecycle.HostDiscovering)
	h.report()
	h.require(lifecycle.HostKnown)
	b.requireCluster(cluster, lifecycle.ClusterReady)

	installedCluster, old := b.installedHost(2)
	b.clock.Advance(200 * 24 * time.Hour)
	b.handle()
	require.NoError(t, old.register(), "an installed node boots the image that is still in its drive")
	old.require(lifecycle.HostInstalled)
	b.requireCluster(installedCluster, lifecycle.ClusterInstalled)
}

// installedHost installs a further single-node cluster completely.
func (b *harness) installedHost(number int) (cluster string, h *testHost) {
	b.Helper()
	cluster, env := b.singleNode()
	h = b.host(env, number)
	b.startInstallation(cluster)
	b.prepareAll()
	h.report()
	h.reportStagesUpTo(models.HostStageDone)
	require.NoError(b, b.UploadIngressCert(b.Context(), cluster, b.authority))
	_, err := b.CompleteInstallation(b.Context(), cluster, true, "")
	require.NoError(b, err)
	b.requireCluster(cluster, lifecycle.ClusterInstalled)
	return cluster, h
}

func TestInstall_workerFails(t *testing.T) {
	b := newHarness(t)
	cluster, hosts := b.threeNodes(true)
	worker := b.member(hosts[0].env, 4)
	hosts = append(hosts, worker)
	b.reportAll(hosts)
	b.requireCluster(cluster, lifecycle.ClusterReady)
	b.startInstallation(cluster)
	b.prepareAll()
	b.reportAll(hosts)
	b.requireCluster(cluster, lifecycle.ClusterInstalling)
	for _, h := range hosts {
		if h.require(lifecycle.HostInstalling).Role == models.HostRoleWorker {
			worker = h
			require.NoError(t, h.progress(models.HostStageFailed, "a broken fan"))
			h.require(lifecycle.HostFailed)
		}
	}
	b.requireCluster(cluster, lifecycle.ClusterInstalling)
	for _, h := range hosts {
		if h != worker {
			h.reportStagesUpTo(models.HostStageDone)
		}
	}
	b.requireCluster(cluster, lifecycle.ClusterFinalizing)
	_, err := b.UpdateHost(t.Context(), worker.env, worker.id, &models.HostUpdateParams{
		HostRole: conv.Pointer("master")})
	b.requireRejected(err, fault.Conflict, "its name, role and disks can't be changed now")
	b.requireCluster(cluster, lifecycle.ClusterFinalizing)
	b.complete(cluster)
	require.Contains(t, *b.requireCluster(cluster, lifecycle.ClusterInstalled).StatusInfo, "without host")

	require.NoError(t, worker.register())
	worker.require(lifecycle.HostFailed)
	_, err = b.ResetHost(t.Context(), worker.env, worker.id)
	b.requireRejected(err, fault.Conflict, "can't be reset: cluster bench was installed without it. Let the cluster "+
		"accept more hosts, and boot the host from the discovery image again")
	_, err = b.InstallHost(t.Context(), worker.env, worker.id)
	b.requireRejected(err, fault.Conflict, "can't be installed: cluster bench was installed without it")
	_, err = b.AllowAddHosts(t.Context(), cluster)
	require.NoError(t, err)
	require.NoError(t, worker.register())
	require.Equal(t, models.HostKindAddToExistingClusterHost, *worker.require(lifecycle.HostDiscovering).Kind)
	worker.report()
	worker.require(lifecycle.HostKnown)
	_, err = b.InstallHost(t.Context(), worker.env, worker.id)
	require.NoError(t, err)
	worker.require(lifecycle.HostInstalling)
}

// The installation needs its hosts until its end.
func TestDeleteHost_keepsHostsOfRunningInstallation(t *testing.T) {
	b := newHarness(t)
	cluster, hosts := b.threeNodes(true)
	spare := b.member(hosts[0].env, 4)
	hosts = append(hosts, spare)
	b.reportAll(hosts)
	b.begin(cluster, hosts...)
	b.reportAll(hosts)
	other := b.infraEnvOf(nil)
	var master *testHost
	requireKept := func(h *testHost) {
		t.Helper()
		b.requireRejected(b.DeregisterHost(t.Context(), h.env, h.id), fault.Conflict,
			"the installation of cluster bench needs it")
		elsewhere := *h
		elsewhere.env = other
		b.requireRejected(elsewhere.register(), fault.Unavailable, "is being installed")
	}
	for _, h := range hosts {
		if h.require(lifecycle.HostInstalling).Role == models.HostRoleWorker {
			require.NoError(t, h.progress(models.HostStageFailed, "a broken fan"))
			require.NoError(t, b.DeregisterHost(t.Context(), h.env, h.id), "the failed host is not needed")
			continue
		}
		master = h
		h.reportStagesUpTo(models.HostStageDone)
		h.require(lifecycle.HostInstalled)
		requireKept(h)
	}
	b.requireCluster(cluster, lifecycle.ClusterFinalizing)
	requireKept(master)
	b.complete(cluster)
	require.NoError(t, b.DeregisterHost(t.Context(), master.env, master.id))
}

func TestUnbindHost_keepsHostsOfRunningInstallation(t *testing.T) {
	b := newHarness(t)
	cluster, _ := b.singleNode()
	h := b.host(b.infraEnvOf(nil), 1)
	_, err := b.BindHost(t.Context(), h.env, h.id, cluster)
	require.NoError(t, err)
	require.NoError(t, h.register())
	h.report()
	b.begin(cluster, h)
	h.report()
	h.reportStagesUpTo(models.HostStageDone)
	b.requireCluster(cluster, lifecycle.ClusterFinalizing)
	_, err = b.UnbindHost(t.Context(), h.env, h.id)
	b.requireRejected(err, fault.Conflict, "the installation of cluster bench needs it")
	_, err = b.ReclaimHost(t.Context(), h.env, h.id)
	b.requireRejected(err, fault.Conflict, "the installation of cluster bench needs it")
	b.complete(cluster)
	_, err = b.UnbindHost(t.Context(), h.env, h.id)
	require.NoError(t, err)
}

// AMS keeps the results of an installation until another installation replaces them. A later change
// of the cluster's name does not change the address of its console.
func TestOutbox_resetsAndLaterRenames(t *testing.T) {
	b := newHarness(t)
	cluster, _ := b.installed()
	require.NoError(t, b.ReportOperator(t.Context(), cluster, &models.OperatorMonitorReport{Name: "console",
		Status: models.OperatorStatusAvailable}))
	was := *b.subscriptionOf(cluster)
	require.Equal(t, outbox.ClusterOf(b.requireCluster(cluster, lifecycle.ClusterInstalled).AmsSubscriptionID.String()),
		cluster)
	_, err := b.AllowAddHosts(t.Context(), cluster)
	require.NoError(t, err)
	_, err = b.UpdateCluster(t.Context(), cluster, &models.V2ClusterUpdateParams{Name: conv.Pointer("renamed")})
	require.NoError(t, err)
	now := *b.subscriptionOf(cluster)
	require.Equal(t, "renamed", now.DisplayName)
	require.Equal(t, was.ConsoleURL, now.ConsoleURL)
	require.Equal(t, was.ExternalClusterID, now.ExternalClusterID)
	require.NotEmpty(t, now.ConsoleURL)
	require.Equal(t, outbox.Active, now.Phase)
}

func TestOutbox_skipsImportedClusters(t *testing.T) {
	b := newHarness(t)
	id := strfmt.UUID("6e9d7b8e-3c5a-4c39-a4ac-5a8a0a9fbd31")
	imported, err := b.ImportCluster(t.Context(), &models.ImportClusterParams{
		APIVipDnsname: conv.Pointer("api.others.example.com"), Name: conv.Pointer("others"), OpenshiftClusterID: &id,
		OpenshiftVersion: "4.19",
	})
	require.NoError(t, err)
	elsewhere, err := b.RegisterDisconnectedCluster(t.Context(), "elsewhere", "4.19")
	require.NoError(t, err)
	_, err = b.UpdateCluster(t.Context(), imported.ID.String(),
		&models.V2ClusterUpdateParams{Name: conv.Pointer("renamed")})
	require.NoError(t, err)
	require.Empty(t, imported.AmsSubscriptionID)
	require.NoError(t, b.DeregisterCluster(t.Context(), imported.ID.String(), false))
	require.NoError(t, b.DeregisterCluster(t.Context(), elsewhere.ID.String(), false))
	require.Empty(t, b.outboxKeys())
}

func TestAgentUpgrade_otherVersionIsReplaced(t *testing.T) {
	b := newHarness(t)
	b.Engine.options.Images.Agent = "quay.io/parts/agent:new"
	_, env := b.singleNode()
	h := b.newHost(env, 1)
	require.NoError(t, h.register())
	require.Equal(t, []models.StepType{models.StepTypeUpgradeAgent}, h.stepTypes(),
		"the agent gets no other step before its upgrade")
	step := h.poll().Instructions[0]
	require.JSONEq(t, `{"agent_image":"quay.io/parts/agent:new"}`, step.Args[0])
	require.NoError(t, h.reply(&models.StepReply{StepType: step.StepType,
		Output: `{"agent_image":"quay.io/parts/agent:new","result":"failure"}`}))
	require.Contains(t, b.names(event.Filter{HostIDs: []string{h.id}}), "host_step_failed")
	require.Contains(t, h.require(lifecycle.HostDiscovering).ValidationsInfo,
		`runs agent \"quay.io/parts/agent\" instead of \"quay.io/parts/agent:new\"`)

	h.agent = "quay.io/parts/agent:new"
	require.NoError(t, h.register())
	h.report()
	h.require(lifecycle.HostKnown)
}
