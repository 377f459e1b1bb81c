package engine

import (
	"testing"
	"time"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/event"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/fault"
)

// TestLifecycles runs one scenario of hosts and clusters in each case. The random walks of
// walk_test.go show that every row of both tables is taken.
func TestLifecycles(t *testing.T) {
	for _, test := range []struct {
		name string
		run  func(*harness)
	}{
		{"single node stays installed", testInstallation},
		{"three nodes", testThreeNodes},
		{"cluster without addresses waits for input", testPendingForInput},
		{"small host is insufficient", testInsufficientHost},
		{"silent host is disconnected until it polls", testDisconnectedHost},
		{"host without cluster", testUnboundHost},
		{"bound, unbound, and unbound after installation", testBinding},
		{"host loses its image", testMediaLost},
		{"failed disk check ends preparation", testDiskCheckFails},
		{"failed image pull ends preparation", testImageCheckFails},
		{"preparation times out", testPreparationTimesOut},
		{"installer fails, then hangs", testInstallerFails},
		{"preparation cancelled", testCancelOfPreparation},
		{"preparation reset", testResetOfPreparation},
		{"installation cancelled", testCancelOfInstallation},
		{"host restarts during installation", testRestartDuringInstallation},
		{"host silent during installation", testSilenceDuringInstallation},
		{"stage times out", testStageTimesOut},
		{"wrong boot device, corrected", testBootOrder},
		{"wrong boot device, not corrected", testBootOrderNotCorrected},
		{"host installer fails; reset and install again", testFailureAndReset},
		{"controller reports a failure", testCompletionFails},
		{"installation times out", testInstallationTimesOut},
		{"finalizing times out", testFinalizingTimesOut},
		{"hosts of a failed cluster continue", testCancelAfterFailure},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(newHarness(t)) })
	}
}

func testInstallation(b *harness) {
	cluster, h := b.installed()
	require.NoError(b, h.register(), "an agent starts on an installed host")
	h.require(lifecycle.HostInstalled)
	require.NoError(b, h.progress(models.HostStageJoined, ""), "a late report")
	require.Equal(b, models.HostStageDone, h.require(lifecycle.HostInstalled).Progress.CurrentStage)
	b.pass(48 * time.Hour)
	b.requireCluster(cluster, lifecycle.ClusterInstalled)
}

func testThreeNodes(b *harness) {
	cluster, hosts := b.threeNodes(true)
	b.requireCluster(cluster, lifecycle.ClusterReady)
	b.startInstallation(cluster)
	b.prepareAll()
	b.reportAll(hosts)
	b.requireCluster(cluster, lifecycle.ClusterInstalling)
	bootstraps := 0
	for i, h := range hosts {
		if h.require(lifecycle.HostInstalling).Bootstrap {
			bootstraps++
		}
		b.requireCluster(cluster, lifecycle.ClusterInstalling)
		h.reportStagesUpTo(models.HostStageDone)
		h.require(lifecycle.HostInstalled)
		if i < len(hosts)-1 {
			b.requireCluster(cluster, lifecycle.ClusterInstalling)
		}
	}
	require.Equal(b, 1, bootstraps)
	b.requireCluster(cluster, lifecycle.ClusterFinalizing)
}

func testPendingForInput(b *harness) {
	cluster, hosts := b.threeNodes(false)
	hosts[0].require(lifecycle.HostPendingForInput)
	b.requireCluster(cluster, lifecycle.ClusterPendingForInput)
	_, err := b.InstallCluster(b.Context(), cluster)
	b.requireRejected(err, fault.Conflict, "install is not possible")
}

func testInsufficientHost(b *harness) {
	cluster, env := b.singleNode()
	h := b.newHost(env, 1)
	h.memory = 4 << 30
	require.NoError(b, h.register())
	h.require(lifecycle.HostDiscovering)
	h.report()
	require.Contains(b, *h.require(lifecycle.HostInsufficient).StatusInfo, "memory")
	b.requireCluster(cluster, lifecycle.ClusterInsufficient)
}

func testDisconnectedHost(b *harness) {
	cluster, env := b.singleNode()
	h := b.newHost(env, 1)
	require.NoError(b, h.register())
	b.pass(4 * time.Minute)
	h.require(lifecycle.HostDisconnected)
	h.poll()
	h.require(lifecycle.HostDiscovering)
	h.report()
	h.require(lifecycle.HostKnown)

	b.pass(3*time.Minute - time.Second)
	h.require(lifecycle.HostKnown)
	b.pass(time.Second)
	h.require(lifecycle.HostDisconnected)
	b.requireCluster(cluster, lifecycle.ClusterInsufficient)
	h.poll()
	h.require(lifecycle.HostKnown)
	b.requireCluster(cluster, lifecycle.ClusterReady)
}

func testUnboundHost(b *harness) {
	env := b.infraEnvOf(nil)
	h := b.newHost(env, 1)
	require.NoError(b, h.register())
	h.require(lifecycle.HostDiscoveringUnbound)
	b.pass(4 * time.Minute)
	h.require(lifecycle.HostDisconnectedUnbound)
	h.poll()
	h.require(lifecycle.HostDiscoveringUnbound)
	h.report()
	h.require(lifecycle.HostKnownUnbound)
	require.NoError(b, h.register())
	h.require(lifecycle.HostDiscoveringUnbound)
	h.memory = 1 << 30
	h.report()
	h.require(lifecycle.HostInsufficientUnbound)
	require.NoError(b, h.reply(&models.StepReply{StepType: models.StepTypeInventory, ExitCode: 256}))
	h.require(lifecycle.HostDisconnectedUnbound)
}

func testBinding(b *harness) {
	cluster, _ := b.singleNode()
	h := b.host(b.infraEnvOf(nil), 1)
	h.require(lifecycle.HostKnownUnbound)
	bind := func() error { _, err := b.BindHost(b.Context(), h.env, h.id, cluster); return err }
	unbind := func() error { _, err := b.UnbindHost(b.Context(), h.env, h.id); return err }
	again := func(status string) {
		require.NoError(b, h.register())
		h.report()
		h.require(status)
	}
	b.requireRejected(unbind(), fault.Conflict, "belongs to no cluster")
	require.NoError(b, bind())
	h.require(lifecycle.HostBinding)
	b.requireRejected(bind(), fault.Conflict, "already belongs")
	again(lifecycle.HostKnown)
	b.requireCluster(cluster, lifecycle.ClusterReady)
	require.NoError(b, unbind())
	h.require(lifecycle.HostUnbinding)
	b.requireCluster(cluster, lifecycle.ClusterPendingForInput)
	again(lifecycle.HostKnownUnbound)
	require.NoError(b, bind())
	again(lifecycle.HostKnown)
	b.startInstallation(cluster)
	b.prepareAll()
	h.report()
	b.requireRejected(unbind(), fault.Conflict, "the installation of cluster bench needs it")
	h.reportStagesUpTo(models.HostStageDone)
	b.complete(cluster)
	require.NoError(b, unbind())
	h.require(lifecycle.HostUnbindingPendingUserAction)
	again(lifecycle.HostKnownUnbound)
}

func testMediaLost(b *harness) {
	lost := &models.StepReply{StepType: models.StepTypeInventory, ExitCode: 256, Error: "cannot read the medium"}
	cluster, env := b.singleNode()
	h := b.host(env, 1)
	require.NoError(b, h.reply(lost))
	h.require(lifecycle.HostDisconnected)
	h.poll()
	h.require(lifecycle.HostDisconnected)
	require.NoError(b, h.register())
	h.report()
	h.require(lifecycle.HostKnown)

	b.startInstallation(cluster)
	h.require(lifecycle.HostPreparing)
	require.NoError(b, h.reply(lost))
	h.require(lifecycle.HostFailed)
	b.requireCluster(cluster, lifecycle.ClusterFailed)
	_, err := b.ResetCluster(b.Context(), cluster)
	require.NoError(b, err)
	require.NoError(b, h.register())
	h.report()
	h.require(lifecycle.HostKnown)
	b.requireCluster(cluster, lifecycle.ClusterReady)
}

func testDiskCheckFails(b *harness) {
	cluster, env := b.singleNode()
	h := b.host(env, 1)
	b.startInstallation(cluster)
	b.prepareAll()
	h.diskFails = true
	h.report()
	require.Contains(b, *h.require(lifecycle.HostInsufficient).StatusInfo, "disk")
	b.requireCluster(cluster, lifecycle.ClusterInsufficient)
	before := len(b.names(event.Filter{HostIDs: []string{h.id}}))
	b.pass(10*time.Minute, h)
	require.Len(b, b.names(event.Filter{HostIDs: []string{h.id}}), before, "the host stays as it is")

	_, err := b.UpdateHost(b.Context(), h.env, h.id,
		&models.HostUpdateParams{DisksSelectedConfig: []*models.DiskConfigParams{{ID: &secondDisk,
			Role: models.DiskRoleInstall}}})
	require.NoError(b, err)
	h.require(lifecycle.HostKnown)
	b.requireCluster(cluster, lifecycle.ClusterReady)
}

func testImageCheckFails(b *harness) {
	cluster, env := b.singleNode()
	h := b.host(env, 1)
	b.startInstallation(cluster)
	b.prepareAll()
	h.imageGone = true
	h.report()
	require.Contains(b, b.requireCluster(cluster, lifecycle.ClusterReady).LastInstallationPreparation.Reason,
		"can't pull")
	h.require(lifecycle.HostKnown)
	h.imageGone = false
	b.startInstallation(cluster)
	b.prepareAll()
	h.report()
	b.requireCluster(cluster, lifecycle.ClusterInstalling)
}

func testPreparationTimesOut(b *harness) {
	cluster, env := b.singleNode()
	h := b.host(env, 1)
	b.startInstallation(cluster)
	b.pass(8*time.Minute-time.Second, h)
	h.require(lifecycle.HostPreparing)
	b.pass(time.Second, h)
	require.Contains(b, b.requireCluster(cluster, lifecycle.ClusterReady).LastInstallationPreparation.Reason,
		"took too long")
	h.require(lifecycle.HostKnown)
}

func testInstallerFails(b *harness) {
	cluster, env := b.singleNode()
	h := b.host(env, 1)
	b.releases.failure = errNoMachine
	b.startInstallation(cluster)
	h.require(lifecycle.HostPreparing)
	b.prepareAll()
	h.require(lifecycle.HostKnown)
	got := b.requireCluster(cluster, lifecycle.ClusterReady)
	require.Equal(b, models.LastInstallationPreparationStatusFailed, got.LastInstallationPreparation.Status)
	require.Contains(b, got.LastInstallationPreparation.Reason, "no machine has that address")
	require.Contains(b, b.names(event.Filter{ClusterID: cluster}), event.PreparationFailed)

	// The host has pulled its images and is prepared. The run of the installer does not end.
	b.startInstallation(cluster)
	h.report()
	h.require(lifecycle.HostPrepared)
	b.pass(10*time.Minute-time.Second, h)
	b.requireCluster(cluster, lifecycle.ClusterPreparing)
	b.pass(time.Second, h)
	require.Contains(b, b.requireCluster(cluster, lifecycle.ClusterReady).LastInstallationPreparation.Reason,
		"too long")
	h.require(lifecycle.HostKnown)
	wanted, err := b.unfinishedPreparations()
	require.NoError(b, err)
	require.Empty(b, wanted)
}

func testCancelOfPreparation(b *harness) {
	cluster, env := b.singleNode()
	h := b.host(env, 1)
	b.startInstallation(cluster)
	h.require(lifecycle.HostPreparing)
	_, err := b.CancelInstallation(b.Context(), cluster)
	require.NoError(b, err)
	b.requireCluster(cluster, lifecycle.ClusterReady)
	h.require(lifecycle.HostKnown)
	_, err = b.CancelInstallation(b.Context(), cluster)
	b.requireRejected(err, fault.Conflict, "cancel is not possible")
}

func testResetOfPreparation(b *harness) {
	cluster, env := b.singleNode()
	h := b.host(env, 1)
	b.startInstallation(cluster)
	_, err := b.ResetCluster(b.Context(), cluster)
	require.NoError(b, err)
	h.require(lifecycle.HostKnown)
	b.requireCluster(cluster, lifecycle.ClusterReady)
}

func testCancelOfInstallation(b *harness) {
	cluster, h := b.installing()
	require.NoError(b, h.progress(models.HostStageInstalling, ""))
	_, err := b.CancelInstallation(b.Context(), cluster)
	require.NoError(b, err)
	b.requireCluster(cluster, lifecycle.ClusterCancelled)
	h.require(lifecycle.HostCancelled)
	require.NoError(b, h.progress(models.HostStageWritingImageToDisk, "10%"),
		"the installer reports a stage before it stops")
	h.require(lifecycle.HostCancelled)
	_, err = b.ResetCluster(b.Context(), cluster)
	require.NoError(b, err)
	h.require(lifecycle.HostResettingPendingUserAction)
	require.NoError(b, h.register())
	h.report()
	h.require(lifecycle.HostKnown)
	b.requireCluster(cluster, lifecycle.ClusterReady)
}

func testRestartDuringInstallation(b *harness) {
	cluster, h := b.installing()
	require.NoError(b, h.progress(models.HostStageInstalling, ""))
	require.NoError(b, h.register())
	h.require(lifecycle.HostFailed)
	b.requireCluster(cluster, lifecycle.ClusterFailed)
}

func testSilenceDuringInstallation(b *harness) {
	cluster, h := b.installing()
	require.NoError(b, h.progress(models.HostStageInstalling, ""))
	b.pass(2*time.Minute, h)
	h.require(lifecycle.HostInstallingInProgress)
	b.pass(3 * time.Minute)
	h.require(lifecycle.HostFailed)
	b.requireCluster(cluster, lifecycle.ClusterFailed)
}

func testStageTimesOut(b *harness) {
	_, h := b.installing()
	h.reportStagesUpTo(models.HostStageWritingImageToDisk)
	b.pass(20*time.Minute, h)
	require.NoError(b, h.progress(models.HostStageWritingImageToDisk, "20%"), "progress within the stage counts")
	b.pass(29*time.Minute, h)
	h.require(lifecycle.HostInstallingInProgress)
	b.pass(time.Minute, h)
	require.Contains(b, *h.require(lifecycle.HostFailed).StatusInfo, "Writing image to disk")
}

func testBootOrder(b *harness) {
	cluster, h := b.installing()
	h.reportStagesUpTo(models.HostStageRebooting)
	require.NoError(b, h.register())
	h.require(lifecycle.HostPendingUserAction)
	b.requireCluster(cluster, lifecycle.ClusterPendingUserAction)
	h.poll()
	b.pass(30 * time.Minute)
	h.require(lifecycle.HostPendingUserAction)
	b.requireCluster(cluster, lifecycle.ClusterPendingUserAction)
	require.NoError(b, h.progress(models.HostStageJoined, ""))
	h.require(lifecycle.HostInstallingInProgress)
	b.requireCluster(cluster, lifecycle.ClusterInstalling)
	require.NoError(b, h.progress(models.HostStageDone, ""))
	b.requireCluster(cluster, lifecycle.ClusterFinalizing)
}

func testBootOrderNotCorrected(b *harness) {
	cluster, h := b.installing()
	h.reportStagesUpTo(models.HostStageRebooting)
	b.pass(80*time.Minute - time.Second)
	h.require(lifecycle.HostInstallingInProgress)
	b.pass(time.Second)
	h.require(lifecycle.HostPendingUserAction)
	b.requireCluster(cluster, lifecycle.ClusterPendingUserAction)
	before := b.options.DB.Revision()
	b.pass(20 * time.Hour)
	h.require(lifecycle.HostPendingUserAction)
	require.Equal(b, before, b.options.DB.Revision(),
		"the cluster needs the host, so only the time-out of the installation ends the wait")
	b.pass(4 * time.Hour)
	require.Contains(b, *b.requireCluster(cluster, lifecycle.ClusterFailed).StatusInfo,
		"The installation took too long")
	h.require(lifecycle.HostFailed)
}

func testFailureAndReset(b *harness) {
	cluster, h := b.installing()
	h.reportStagesUpTo(models.HostStageWritingImageToDisk)
	require.NoError(b, h.progress(models.HostStageFailed, "coreos-installer: input/output error"))
	require.Contains(b, *h.require(lifecycle.HostFailed).StatusInfo, "input/output error")
	require.Contains(b, *b.requireCluster(cluster, lifecycle.ClusterFailed).StatusInfo, "node-1")
	require.NoError(b, h.progress(models.HostStageFailed, "once more"),
		"the installer repeats the report until the engine accepts it")
	require.NotContains(b, *h.require(lifecycle.HostFailed).StatusInfo, "once more")

	_, err := b.ResetCluster(b.Context(), cluster)
	require.NoError(b, err)
	h.require(lifecycle.HostResettingPendingUserAction)
	require.NoError(b, h.progress(models.HostStageFailed, "still"))
	h.require(lifecycle.HostResettingPendingUserAction)
	require.NoError(b, h.register())
	require.Empty(b, h.require(lifecycle.HostDiscovering).Inventory,
		"the machine may have been changed while it was off")
	h.report()
	b.requireCluster(cluster, lifecycle.ClusterReady)
	b.startInstallation(cluster)
	b.prepareAll()
	h.report()
	h.reportStagesUpTo(models.HostStageDone)
	b.requireCluster(cluster, lifecycle.ClusterFinalizing)
}

func testCompletionFails(b *harness) {
	cluster, h := b.installing()
	h.reportStagesUpTo(models.HostStageJoined)
	_, err := b.CompleteInstallation(b.Context(), cluster, false, "operator console is degraded")
	require.NoError(b, err)
	require.Contains(b, *b.requireCluster(cluster, lifecycle.ClusterFailed).StatusInfo, "operator console is degraded")
	h.require(lifecycle.HostFailed)
}

func testInstallationTimesOut(b *harness) {
	cluster, h := b.installing()
	h.reportStagesUpTo(models.HostStageWritingImageToDisk)
	for quarter := range 24*4 - 1 {
		b.clock.Advance(15 * time.Minute)
		require.NoError(b, h.progress(models.HostStageWritingImageToDisk, time.Duration(quarter).String()))
		b.handle()
		b.requireCluster(cluster, lifecycle.ClusterInstalling)
	}
	b.clock.Advance(15 * time.Minute)
	b.handle()
	require.Contains(b, *b.requireCluster(cluster, lifecycle.ClusterFailed).StatusInfo,
		"The installation took too long")
}

func testFinalizingTimesOut(b *harness) {
	cluster, _ := b.finalizing()
	b.pass(5*time.Hour - time.Second)
	b.requireCluster(cluster, lifecycle.ClusterFinalizing)
	b.pass(time.Second)
	require.Contains(b, *b.requireCluster(cluster, lifecycle.ClusterFailed).StatusInfo, "in time")
}

func testCancelAfterFailure(b *harness) {
	cluster, hosts := b.threeNodes(true)
	b.startInstallation(cluster)
	require.NoError(b, hosts[0].reply(&models.StepReply{StepType: models.StepTypeInventory, ExitCode: 256}))
	b.requireCluster(cluster, lifecycle.ClusterFailed)
	hosts[1].require(lifecycle.HostKnown)
	b.pass(4*time.Minute, hosts[1])
	hosts[1].require(lifecycle.HostKnown)
	hosts[2].require(lifecycle.HostDisconnected)
	_, err := b.CancelInstallation(b.Context(), cluster)
	require.NoError(b, err)
	hosts[0].require(lifecycle.HostCancelled)
	hosts[1].require(lifecycle.HostKnown)
	hosts[2].require(lifecycle.HostDisconnected)
	b.requireCluster(cluster, lifecycle.ClusterCancelled)
}

var secondDisk = "/dev/disk/by-id/b"
