package engine

import (
	"testing"
	"time"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

// TestLifecycles plays what happens to hosts and clusters, one scene a story. That every row of
// both tables is taken is what the random walks of walk_test.go show.
func TestLifecycles(t *testing.T) {
	hits := &rowHits{}
	for _, scene := range []struct {
		name string
		play func(*bench)
	}{
		{"a single node is installed and stays so", playInstalled},
		{"three nodes are installed", playThreeNodes},
		{"a cluster without addresses waits for input", playPendingForInput},
		{"a host that is too small is insufficient", playTooSmall},
		{"a host that falls silent is disconnected until it polls again", playDisconnected},
		{"a host of no cluster lives too", playUnbound},
		{"a host is bound, taken back, and taken after its installation", playBinding},
		{"a host loses its image", playMediaLost},
		{"a disk that can't be measured ends the preparation", playDiskFails},
		{"an image that can't be pulled ends the preparation", playImageGone},
		{"a preparation takes too long", playPreparingTimesOut},
		{"the installer fails, then hangs", playInstallerFails},
		{"a preparation is cancelled", playCancelPreparing},
		{"a preparation is reset", playResetPreparing},
		{"an installation is cancelled", playCancelInstalling},
		{"a host starts again in the middle of its installation", playRestarted},
		{"a host falls silent while it is installed", playSilentInstalling},
		{"a stage takes too long", playStageTimesOut},
		{"a host boots from the wrong device and is put right", playBootOrder},
		{"nobody puts the boot order right", playBootOrderStays},
		{"the installer on the host fails; reset and install again", playFailedAndReset},
		{"the controller reports a failure", playCompletionFails},
		{"an installation takes a whole day", playDay},
		{"a cluster does not finish", playFinalizingTimesOut},
		{"hosts of a failed cluster go on living", playCancelAfterFailure},
	} {
		t.Run(scene.name, func(t *testing.T) { scene.play(newBench(t, hits)) })
	}
}

func playInstalled(b *bench) {
	cluster, h := b.installed()
	require.NoError(b, h.register(), "an agent that starts on an installed host")
	h.require(installed)
	require.NoError(b, h.progress(models.HostStageJoined, ""), "a late report")
	require.Equal(b, models.HostStageDone, h.require(installed).Progress.CurrentStage)
	b.pass(48 * time.Hour)
	b.requireCluster(cluster, clusterInstalled)
}

func playThreeNodes(b *bench) {
	cluster, hosts := b.threeNodes(true)
	b.requireCluster(cluster, clusterReady)
	b.press(cluster)
	b.prepareAll()
	b.reportAll(hosts)
	b.requireCluster(cluster, clusterInstalling)
	bootstraps := 0
	for i, h := range hosts {
		if h.require(installing).Bootstrap {
			bootstraps++
		}
		b.requireCluster(cluster, clusterInstalling)
		h.reach(models.HostStageDone)
		h.require(installed)
		if i < len(hosts)-1 {
			b.requireCluster(cluster, clusterInstalling)
		}
	}
	require.Equal(b, 1, bootstraps)
	b.requireCluster(cluster, clusterFinalizing)
}

func playPendingForInput(b *bench) {
	cluster, hosts := b.threeNodes(false)
	hosts[0].require(pendingForInput)
	b.requireCluster(cluster, clusterPending)
	_, err := b.InstallCluster(b.Context(), cluster)
	b.requireRefused(err, Conflict, "install is not possible")
}

func playTooSmall(b *bench) {
	cluster, env := b.singleNode()
	h := b.newHost(env, 1)
	h.memory = 4 << 30
	require.NoError(b, h.register())
	h.require(discovering)
	h.report()
	require.Contains(b, *h.require(insufficient).StatusInfo, "memory")
	b.requireCluster(cluster, clusterInsufficient)
}

func playDisconnected(b *bench) {
	cluster, env := b.singleNode()
	h := b.newHost(env, 1)
	require.NoError(b, h.register())
	b.pass(4 * time.Minute)
	h.require(disconnected)
	h.poll()
	h.require(discovering)
	h.report()
	h.require(known)

	b.pass(3*time.Minute - time.Second)
	h.require(known)
	b.pass(time.Second)
	h.require(disconnected)
	b.requireCluster(cluster, clusterInsufficient)
	h.poll()
	h.require(known)
	b.requireCluster(cluster, clusterReady)
}

func playUnbound(b *bench) {
	env := b.infraEnvOf(nil)
	h := b.newHost(env, 1)
	require.NoError(b, h.register())
	h.require(discoveringUnbound)
	b.pass(4 * time.Minute)
	h.require(disconnectedUnbound)
	h.poll()
	h.require(discoveringUnbound)
	h.report()
	h.require(knownUnbound)
	require.NoError(b, h.register())
	h.require(discoveringUnbound)
	h.memory = 1 << 30
	h.report()
	h.require(insufficientUnbound)
	require.NoError(b, h.reply(&models.StepReply{StepType: models.StepTypeInventory, ExitCode: 256}))
	h.require(disconnectedUnbound)
}

func playBinding(b *bench) {
	cluster, _ := b.singleNode()
	h := b.host(b.infraEnvOf(nil), 1)
	h.require(knownUnbound)
	bind := func() error { _, err := b.BindHost(b.Context(), h.env, h.id, cluster); return err }
	unbind := func() error { _, err := b.UnbindHost(b.Context(), h.env, h.id); return err }
	again := func(status string) {
		require.NoError(b, h.register())
		h.report()
		h.require(status)
	}
	b.requireRefused(unbind(), Conflict, "belongs to no cluster")
	require.NoError(b, bind())
	h.require(binding)
	b.requireRefused(bind(), Conflict, "already belongs")
	again(known)
	b.requireCluster(cluster, clusterReady)
	require.NoError(b, unbind())
	h.require(unbinding)
	b.requireCluster(cluster, clusterPending)
	again(knownUnbound)
	require.NoError(b, bind())
	again(known)
	b.press(cluster)
	b.prepareAll()
	h.report()
	b.requireRefused(unbind(), Conflict, "unbind is not possible")
	h.reach(models.HostStageDone)
	require.NoError(b, unbind())
	h.require(unbindingPending)
	again(knownUnbound)
}

func playMediaLost(b *bench) {
	lost := &models.StepReply{StepType: models.StepTypeInventory, ExitCode: 256, Error: "cannot read the medium"}
	cluster, env := b.singleNode()
	h := b.host(env, 1)
	require.NoError(b, h.reply(lost))
	h.require(disconnected)
	h.poll()
	h.require(disconnected)
	require.NoError(b, h.register())
	h.report()
	h.require(known)

	b.press(cluster)
	h.require(preparing)
	require.NoError(b, h.reply(lost))
	h.require(failed)
	b.requireCluster(cluster, clusterFailed)
	_, err := b.ResetCluster(b.Context(), cluster)
	require.NoError(b, err)
	require.NoError(b, h.register())
	h.report()
	h.require(known)
	b.requireCluster(cluster, clusterReady)
}

func playDiskFails(b *bench) {
	cluster, env := b.singleNode()
	h := b.host(env, 1)
	b.press(cluster)
	b.prepareAll()
	h.diskFails = true
	h.report()
	require.Contains(b, *h.require(insufficient).StatusInfo, "disk")
	b.requireCluster(cluster, clusterInsufficient)
	before := len(b.names(EventFilter{HostIDs: []string{h.id}}))
	b.pass(10*time.Minute, h)
	require.Len(b, b.names(EventFilter{HostIDs: []string{h.id}}), before, "the host stays as it is")

	_, err := b.UpdateHost(b.Context(), h.env, h.id,
		&models.HostUpdateParams{DisksSelectedConfig: []*models.DiskConfigParams{{ID: &secondDisk,
			Role: models.DiskRoleInstall}}})
	require.NoError(b, err)
	h.require(known)
	b.requireCluster(cluster, clusterReady)
}

func playImageGone(b *bench) {
	cluster, env := b.singleNode()
	h := b.host(env, 1)
	b.press(cluster)
	b.prepareAll()
	h.imageGone = true
	h.report()
	require.Contains(b, b.requireCluster(cluster, clusterReady).LastInstallationPreparation.Reason, "can't pull")
	h.require(known)
	h.imageGone = false
	b.press(cluster)
	b.prepareAll()
	h.report()
	b.requireCluster(cluster, clusterInstalling)
}

func playPreparingTimesOut(b *bench) {
	cluster, env := b.singleNode()
	h := b.host(env, 1)
	b.press(cluster)
	b.pass(8*time.Minute-time.Second, h)
	h.require(preparing)
	b.pass(time.Second, h)
	require.Contains(b, b.requireCluster(cluster, clusterReady).LastInstallationPreparation.Reason, "in time")
	h.require(known)
}

func playInstallerFails(b *bench) {
	cluster, env := b.singleNode()
	h := b.host(env, 1)
	b.releases.failure = errNoMachine
	b.press(cluster)
	h.require(preparing)
	b.prepareAll()
	h.require(known)
	got := b.requireCluster(cluster, clusterReady)
	require.Equal(b, models.LastInstallationPreparationStatusFailed, got.LastInstallationPreparation.Status)
	require.Contains(b, got.LastInstallationPreparation.Reason, "no machine has that address")
	require.Contains(b, b.names(EventFilter{ClusterID: cluster}), eventPreparationFailed)

	// The host knows by now what to pull and is prepared; the installer's run does not end.
	b.press(cluster)
	h.report()
	h.require(prepared)
	b.pass(10*time.Minute-time.Second, h)
	b.requireCluster(cluster, clusterPreparing)
	b.pass(time.Second, h)
	require.Contains(b, b.requireCluster(cluster, clusterReady).LastInstallationPreparation.Reason, "too long")
	h.require(known)
	wanted, err := b.unfinishedPreparations()
	require.NoError(b, err)
	require.Empty(b, wanted)
}

func playCancelPreparing(b *bench) {
	cluster, env := b.singleNode()
	h := b.host(env, 1)
	b.press(cluster)
	h.require(preparing)
	_, err := b.CancelInstallation(b.Context(), cluster)
	require.NoError(b, err)
	b.requireCluster(cluster, clusterReady)
	h.require(known)
	_, err = b.CancelInstallation(b.Context(), cluster)
	b.requireRefused(err, Conflict, "cancel is not possible")
}

func playResetPreparing(b *bench) {
	cluster, env := b.singleNode()
	h := b.host(env, 1)
	b.press(cluster)
	_, err := b.ResetCluster(b.Context(), cluster)
	require.NoError(b, err)
	h.require(known)
	b.requireCluster(cluster, clusterReady)
}

func playCancelInstalling(b *bench) {
	cluster, h := b.installing()
	require.NoError(b, h.progress(models.HostStageInstalling, ""))
	_, err := b.CancelInstallation(b.Context(), cluster)
	require.NoError(b, err)
	b.requireCluster(cluster, clusterCancelled)
	h.require(cancelled)
	require.NoError(b, h.progress(models.HostStageWritingImageToDisk, "10%"), "the installer has not heard of it yet")
	h.require(cancelled)
	_, err = b.ResetCluster(b.Context(), cluster)
	require.NoError(b, err)
	h.require(resetPending)
	require.NoError(b, h.register())
	h.report()
	h.require(known)
	b.requireCluster(cluster, clusterReady)
}

func playRestarted(b *bench) {
	cluster, h := b.installing()
	require.NoError(b, h.progress(models.HostStageInstalling, ""))
	require.NoError(b, h.register())
	h.require(failed)
	b.requireCluster(cluster, clusterFailed)
}

func playSilentInstalling(b *bench) {
	cluster, h := b.installing()
	require.NoError(b, h.progress(models.HostStageInstalling, ""))
	b.pass(2*time.Minute, h)
	h.require(inProgress)
	b.pass(3 * time.Minute)
	h.require(failed)
	b.requireCluster(cluster, clusterFailed)
}

func playStageTimesOut(b *bench) {
	_, h := b.installing()
	h.reach(models.HostStageWritingImageToDisk)
	b.pass(20*time.Minute, h)
	require.NoError(b, h.progress(models.HostStageWritingImageToDisk, "20%"), "progress within the stage counts")
	b.pass(29*time.Minute, h)
	h.require(inProgress)
	b.pass(time.Minute, h)
	require.Contains(b, *h.require(failed).StatusInfo, "Writing image to disk")
}

func playBootOrder(b *bench) {
	cluster, h := b.installing()
	h.reach(models.HostStageRebooting)
	require.NoError(b, h.register())
	h.require(pendingUserAction)
	b.requireCluster(cluster, clusterUserAction)
	h.poll()
	b.pass(30 * time.Minute)
	h.require(pendingUserAction)
	b.requireCluster(cluster, clusterUserAction)
	require.NoError(b, h.progress(models.HostStageJoined, ""))
	h.require(inProgress)
	b.requireCluster(cluster, clusterInstalling)
	require.NoError(b, h.progress(models.HostStageDone, ""))
	b.requireCluster(cluster, clusterFinalizing)
}

func playBootOrderStays(b *bench) {
	cluster, h := b.installing()
	h.reach(models.HostStageRebooting)
	b.pass(80*time.Minute - time.Second)
	h.require(inProgress)
	b.pass(time.Second)
	h.require(pendingUserAction)
	b.requireCluster(cluster, clusterUserAction)
	before := b.DB.Revision()
	b.pass(20 * time.Hour)
	h.require(pendingUserAction)
	require.Equal(b, before, b.DB.Revision(),
		"the cluster can't do without the host, so nothing but the end of the day ends it")
	b.pass(4 * time.Hour)
	require.Contains(b, *b.requireCluster(cluster, clusterFailed).StatusInfo, "The installation took too long")
	h.require(failed)
}

func playFailedAndReset(b *bench) {
	cluster, h := b.installing()
	h.reach(models.HostStageWritingImageToDisk)
	require.NoError(b, h.progress(models.HostStageFailed, "coreos-installer: input/output error"))
	require.Contains(b, *h.require(failed).StatusInfo, "input/output error")
	require.Contains(b, *b.requireCluster(cluster, clusterFailed).StatusInfo, "node-1")
	require.NoError(b, h.progress(models.HostStageFailed, "once more"), "it is repeated until it is taken")
	require.NotContains(b, *h.require(failed).StatusInfo, "once more")

	_, err := b.ResetCluster(b.Context(), cluster)
	require.NoError(b, err)
	h.require(resetPending)
	require.NoError(b, h.progress(models.HostStageFailed, "still"))
	h.require(resetPending)
	require.NoError(b, h.register())
	require.Empty(b, h.require(discovering).Inventory, "what the machine was may have changed while it was off")
	h.report()
	b.requireCluster(cluster, clusterReady)
	b.press(cluster)
	b.prepareAll()
	h.report()
	h.reach(models.HostStageDone)
	b.requireCluster(cluster, clusterFinalizing)
}

func playCompletionFails(b *bench) {
	cluster, h := b.installing()
	h.reach(models.HostStageJoined)
	_, err := b.CompleteInstallation(b.Context(), cluster, false, "operator console is degraded")
	require.NoError(b, err)
	require.Contains(b, *b.requireCluster(cluster, clusterFailed).StatusInfo, "operator console is degraded")
	h.require(failed)
}

func playDay(b *bench) {
	cluster, h := b.installing()
	h.reach(models.HostStageWritingImageToDisk)
	for quarter := range 24*4 - 1 {
		b.clock.Advance(15 * time.Minute)
		require.NoError(b, h.progress(models.HostStageWritingImageToDisk, time.Duration(quarter).String()))
		b.handle()
		b.requireCluster(cluster, clusterInstalling)
	}
	b.clock.Advance(15 * time.Minute)
	b.handle()
	require.Contains(b, *b.requireCluster(cluster, clusterFailed).StatusInfo, "The installation took too long")
}

func playFinalizingTimesOut(b *bench) {
	cluster, _ := b.finalizing()
	b.pass(5*time.Hour - time.Second)
	b.requireCluster(cluster, clusterFinalizing)
	b.pass(time.Second)
	require.Contains(b, *b.requireCluster(cluster, clusterFailed).StatusInfo, "in time")
}

func playCancelAfterFailure(b *bench) {
	cluster, hosts := b.threeNodes(true)
	b.press(cluster)
	require.NoError(b, hosts[0].reply(&models.StepReply{StepType: models.StepTypeInventory, ExitCode: 256}))
	b.requireCluster(cluster, clusterFailed)
	hosts[1].require(known)
	b.pass(4*time.Minute, hosts[1])
	hosts[1].require(known)
	hosts[2].require(disconnected)
	_, err := b.CancelInstallation(b.Context(), cluster)
	require.NoError(b, err)
	hosts[0].require(cancelled)
	hosts[1].require(known)
	hosts[2].require(disconnected)
	b.requireCluster(cluster, clusterCancelled)
}

var secondDisk = "/dev/disk/by-id/b"
