package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/fault"
)

// sixNodes registers a cluster with three control-plane hosts and the given number of workers. The
// cluster is ready.
func (b *harness) sixNodes(workers int) (cluster string, masters, others []*testHost) {
	b.Helper()
	cluster, masters = b.threeNodes(true)
	for _, h := range masters {
		h.become("master")
	}
	for number := 4; number < 4+workers; number++ {
		h := b.member(masters[0].env, number)
		h.become("worker")
		others = append(others, h)
	}
	all := append(append([]*testHost{}, masters...), others...)
	b.reportAll(all)
	b.requireCluster(cluster, lifecycle.ClusterReady)
	return cluster, masters, others
}

func (h *testHost) become(role string) {
	h.b.Helper()
	_, err := h.b.UpdateHost(h.b.Context(), h.env, h.id, &models.HostUpdateParams{HostRole: &role})
	require.NoError(h.b, err)
}

// begin starts the installation of a cluster and its hosts.
func (b *harness) begin(cluster string, hosts ...*testHost) {
	b.Helper()
	b.startInstallation(cluster)
	b.prepareAll()
	for _, h := range hosts {
		h.reportOnce()
	}
	b.requireCluster(cluster, lifecycle.ClusterInstalling)
	for _, h := range hosts {
		h.require(lifecycle.HostInstalling)
	}
}

func TestInstall_waitsForLastHost(t *testing.T) {
	for _, end := range []models.HostStage{models.HostStageDone, models.HostStageFailed} {
		t.Run(string(end), func(t *testing.T) {
			b := newHarness(t)
			cluster, masters, workers := b.sixNodes(3)
			all := append(masters, workers...)
			b.begin(cluster, all...)
			late := workers[2]
			for _, h := range all[:5] {
				h.reportStagesUpTo(models.HostStageDone)
			}
			require.NoError(t, late.progress(models.HostStageRebooting, ""))
			b.requireCluster(cluster, lifecycle.ClusterFinalizing)
			require.NoError(t, b.UploadIngressCert(t.Context(), cluster, b.authority))
			_, err := b.CompleteInstallation(t.Context(), cluster, true, "")
			require.NoError(t, err)
			before := b.requireCluster(cluster, lifecycle.ClusterFinalizing).Progress.TotalPercentage

			require.NoError(t, late.register(), "the host boots the discovery image again")
			late.require(lifecycle.HostPendingUserAction)
			require.LessOrEqual(t, before, b.requireCluster(cluster, lifecycle.ClusterPendingUserAction).
				Progress.TotalPercentage)
			require.NoError(t, late.progress(models.HostStageConfiguring, ""))
			late.require(lifecycle.HostInstallingInProgress)
			b.requireCluster(cluster, lifecycle.ClusterFinalizing)
			require.NoError(t, late.progress(end, "the last word"))
			b.requireCluster(cluster, lifecycle.ClusterInstalled)
		})
	}
}

func TestInstall_oneWorkerOfTwoIsTooFew(t *testing.T) {
	b := newHarness(t)
	cluster, masters, workers := b.sixNodes(2)
	b.begin(cluster, append(masters, workers...)...)
	require.NoError(t, workers[0].progress(models.HostStageFailed, "because some error"))
	require.Contains(t, *b.requireCluster(cluster, lifecycle.ClusterFailed).StatusInfo, "because some error")
}

func TestInstall_progress(t *testing.T) {
	b := newHarness(t)
	created, err := b.RegisterCluster(t.Context(), &models.ClusterCreateParams{
		Name: conv.Pointer("bench"), BaseDNSDomain: "site.test", OpenshiftVersion: conv.Pointer("4.20.8"),
		PullSecret:        conv.Pointer(testPullSecret),
		ControlPlaneCount: conv.Pointer[int64](1), OlmOperators: []*models.OperatorCreateParams{{Name: "lvm"},
			{Name: "metallb"}},
	})
	require.NoError(t, err)
	cluster := created.ID.String()
	shows := func(status string, preparing, installing, finalizing, total int64) {
		t.Helper()
		p := b.requireCluster(cluster, status).Progress
		require.Equal(t, []int64{preparing, installing, finalizing, total},
			[]int64{p.PreparingForInstallationStagePercentage, p.InstallingStagePercentage, p.FinalizingStagePercentage,
				p.TotalPercentage})
	}
	h := b.host(b.infraEnvOf(created.ID), 1)
	shows(lifecycle.ClusterReady, 0, 0, 0, 0)
	b.begin(cluster, h)
	shows(lifecycle.ClusterInstalling, 100, 0, 0, 10)
	h.reportStagesUpTo(models.HostStageWritingImageToDisk)
	half := b.requireCluster(cluster, lifecycle.ClusterInstalling).Progress.InstallingStagePercentage
	require.Greater(t, half, int64(0))
	require.LessOrEqual(t, half, int64(50))
	h.reportStagesUpTo(models.HostStageDone)
	shows(lifecycle.ClusterFinalizing, 100, 100, 0, 80)

	report := func(name string, status models.OperatorStatus) {
		require.NoError(t, b.ReportOperator(t.Context(), cluster, &models.OperatorMonitorReport{Name: name,
			Status: status}))
	}
	report("console", models.OperatorStatusAvailable)
	shows(lifecycle.ClusterFinalizing, 100, 100, 25, 83)
	require.NoError(t, b.RecordFinalizingProgress(t.Context(), cluster,
		models.FinalizingStageWaitingForOlmOperatorsCsv))
	shows(lifecycle.ClusterFinalizing, 100, 100, 25, 83)
	report("cvo", models.OperatorStatusFailed)
	shows(lifecycle.ClusterFinalizing, 100, 100, 25, 83)
	report("cvo", models.OperatorStatusAvailable)
	report("lvm", models.OperatorStatusAvailable)
	shows(lifecycle.ClusterFinalizing, 100, 100, 75, 91)
	// a selected operator that fails does not delay the completion
	report("metallb", models.OperatorStatusFailed)
	shows(lifecycle.ClusterFinalizing, 100, 100, 100, 95)
	report("console", models.OperatorStatusProgressing)
	shows(lifecycle.ClusterFinalizing, 100, 100, 100, 95)
	require.NoError(t, b.UploadIngressCert(t.Context(), cluster, b.authority))
	_, err = b.CompleteInstallation(t.Context(), cluster, true, "")
	require.NoError(t, err)
	shows(lifecycle.ClusterInstalled, 100, 100, 100, 100)
}

// TestInstall_cancelAndResetInEachState cancels and resets installations of three nodes in each of
// their states.
func TestInstall_cancelAndResetInEachState(t *testing.T) {
	b := newHarness(t)
	cluster, hosts := b.threeNodes(true)
	each := func(stage models.HostStage, info string, of ...*testHost) {
		for _, h := range of {
			require.NoError(t, h.progress(stage, info))
		}
	}
	begins := func() {}
	differ := func() {
		each(models.HostStageInstalling, "", hosts[0])
		each(models.HostStageDone, "", hosts[1])
		hosts[0].require(lifecycle.HostInstallingInProgress)
		hosts[1].require(lifecycle.HostInstalled)
	}
	waits := func() {
		each(models.HostStageRebooting, "", hosts[0])
		require.NoError(t, hosts[0].register(), "from the wrong device")
		hosts[0].require(lifecycle.HostPendingUserAction)
		b.requireCluster(cluster, lifecycle.ClusterPendingUserAction)
	}
	finishes := func() {
		each(models.HostStageDone, "", hosts...)
		b.requireCluster(cluster, lifecycle.ClusterFinalizing)
	}
	fails := func() {
		each(models.HostStageFailed, "because some error", hosts[0])
		b.requireCluster(cluster, lifecycle.ClusterFailed)
	}
	for _, stand := range []struct {
		lead   func()
		cancel bool
	}{{begins, true}, {differ, true}, {waits, true}, {finishes, true}, {fails, true}, {begins, false},
		{finishes, false}} {
		b.begin(cluster, hosts...)
		stand.lead()
		if stand.cancel {
			_, err := b.CancelInstallation(t.Context(), cluster)
			require.NoError(t, err)
			b.requireCluster(cluster, lifecycle.ClusterCancelled)
			for _, h := range hosts {
				h.require(lifecycle.HostCancelled)
			}
		}
		_, err := b.ResetCluster(t.Context(), cluster)
		require.NoError(t, err)
		reset := b.requireCluster(cluster, lifecycle.ClusterInsufficient)
		require.Empty(t, reset.OpenshiftClusterID)
		require.Equal(t, &models.ClusterProgressInfo{}, reset.Progress)
		for _, h := range hosts {
			require.Equal(t, &models.HostProgressInfo{}, h.require(lifecycle.HostResettingPendingUserAction).Progress)
			require.Empty(t, h.stepTypes())
			require.NoError(t, h.register())
			h.require(lifecycle.HostDiscovering)
		}
		b.reportAll(hosts)
		for _, h := range hosts {
			require.False(t, h.require(lifecycle.HostKnown).Bootstrap)
		}
		b.requireCluster(cluster, lifecycle.ClusterReady)
	}
}

func TestInstall_resetClearsResultOfPreparation(t *testing.T) {
	b := newHarness(t)
	cluster, _ := b.threeNodes(true)
	before := b.requireCluster(cluster, lifecycle.ClusterReady).LastInstallationPreparation
	_, err := b.InstallCluster(t.Context(), cluster)
	require.NoError(t, err)
	b.requireCluster(cluster, lifecycle.ClusterPreparing)
	_, err = b.ResetCluster(t.Context(), cluster)
	require.NoError(t, err)
	require.Equal(t, before, b.requireCluster(cluster, lifecycle.ClusterReady).LastInstallationPreparation)
}

func TestInstall_cancelAndResetNeedAnInstallation(t *testing.T) {
	b := newHarness(t)
	cluster, _ := b.threeNodes(true)
	_, err := b.CancelInstallation(t.Context(), cluster)
	b.requireRejected(err, fault.Conflict, "cancel is not possible")
	_, err = b.ResetCluster(t.Context(), cluster)
	b.requireRejected(err, fault.Conflict, "reset is not possible")
	b.requireCluster(cluster, lifecycle.ClusterReady)
}

func TestBootstrapHost_isReplaced(t *testing.T) {
	b := newHarness(t)
	cluster, hosts := b.threeNodes(true)
	b.begin(cluster, hosts...)
	var deletedHost *testHost
	for _, h := range hosts {
		if h.require(lifecycle.HostInstalling).Bootstrap {
			deletedHost = h
		}
	}
	_, err := b.ResetCluster(t.Context(), cluster)
	require.NoError(t, err)
	for _, h := range hosts {
		require.NoError(t, h.register())
	}
	b.reportAll(hosts)
	require.NoError(t, b.DeregisterHost(t.Context(), deletedHost.env, deletedHost.id))
	b.requireCluster(cluster, lifecycle.ClusterInsufficient)
	other := b.member(deletedHost.env, 7)
	left := []*testHost{other}
	for _, h := range hosts {
		if h != deletedHost {
			left = append(left, h)
		}
	}
	b.reportAll(left)
	b.requireCluster(cluster, lifecycle.ClusterReady)
	b.begin(cluster, left...)
	bootstraps := 0
	for _, h := range left {
		if h.require(lifecycle.HostInstalling).Bootstrap {
			bootstraps++
		}
	}
	require.Equal(t, 1, bootstraps)
}

func TestLogs_nextInstallationDeletesEarlier(t *testing.T) {
	b := newHarness(t)
	cluster, hosts := b.threeNodes(true)
	requested := models.LogsStateRequested
	note := func(state models.LogsState) {
		for _, h := range hosts {
			require.NoError(t, b.RecordLogsProgress(t.Context(), "", h.env, h.id, state))
		}
		require.NoError(t, b.RecordLogsProgress(t.Context(), cluster, "", "", state))
	}
	note(requested)
	require.Equal(t, requested, b.requireCluster(cluster, lifecycle.ClusterReady).LogsInfo)
	require.False(t, time.Time(hosts[0].require(lifecycle.HostKnown).LogsStartedAt).IsZero())
	b.begin(cluster, hosts...)
	shown := b.requireCluster(cluster, lifecycle.ClusterInstalling)
	require.Equal(t, []any{models.LogsStateEmpty, true, true}, []any{shown.LogsInfo,
		time.Time(shown.ControllerLogsStartedAt).IsZero(), time.Time(shown.ControllerLogsCollectedAt).IsZero()})
	for _, h := range hosts {
		shown := h.require(lifecycle.HostInstalling)
		require.Equal(t, []any{models.LogsStateEmpty, true, true}, []any{shown.LogsInfo,
			time.Time(shown.LogsStartedAt).IsZero(), time.Time(shown.LogsCollectedAt).IsZero()})
	}
	note(requested)
	for _, h := range hosts {
		require.NoError(t, b.RecordLogsProgress(t.Context(), "", h.env, h.id, models.LogsStateCompleted))
		h.reportStagesUpTo(models.HostStageDone)
		require.Equal(t, models.LogsStateCompleted, h.require(lifecycle.HostInstalled).LogsInfo)
	}
	require.Equal(t, requested, b.requireCluster(cluster, lifecycle.ClusterFinalizing).LogsInfo)
	require.NoError(t, b.UploadIngressCert(t.Context(), cluster, b.authority))
	_, err := b.CompleteInstallation(t.Context(), cluster, true, "")
	require.NoError(t, err)
	require.NoError(t, b.RecordLogsProgress(t.Context(), cluster, "", "", models.LogsStateCompleted))
	require.Equal(t, models.LogsStateCompleted, b.requireCluster(cluster, lifecycle.ClusterInstalled).LogsInfo)
}

func TestDiskFailure_affectsOnlyItsHostAndCluster(t *testing.T) {
	for name, failing := range map[string][]int{"first host": {0}, "last host": {2}, "all hosts": {0, 1, 2}} {
		t.Run(name, func(t *testing.T) {
			b := newHarness(t)
			cluster, hosts := b.threeNodes(true)
			for _, i := range failing {
				hosts[i].diskFails = true
			}
			b.startInstallation(cluster)
			b.prepareAll()
			instructions := make([]*models.Steps, len(hosts))
			for i, h := range hosts {
				instructions[i] = h.poll()
			}
			for i, h := range hosts { // the hosts measure their disks at the same time
				for _, step := range instructions[i].Instructions {
					if answer := h.answer(step); answer != nil {
						require.NoError(t, h.reply(answer))
					}
				}
			}
			b.requireCluster(cluster, lifecycle.ClusterInsufficient)
			for _, h := range hosts {
				if h.diskFails {
					h.require(lifecycle.HostInsufficient)
				} else {
					h.require(lifecycle.HostKnown)
				}
			}
		})
	}
}

func TestClusterState_followsRolesOfHosts(t *testing.T) {
	b := newHarness(t)
	cluster, hosts := b.threeNodes(true)
	for _, h := range hosts {
		h.become("worker")
	}
	shown := b.requireCluster(cluster, lifecycle.ClusterInsufficient)
	require.Equal(t, models.Subnet("192.168.10.0/24"), shown.MachineNetworks[0].Cidr)
	require.Len(t, shown.HostNetworks, 1)
	require.Equal(t, "192.168.10.0/24", shown.HostNetworks[0].Cidr)
	for number := 4; number <= 6; number++ {
		hosts = append(hosts, b.member(hosts[0].env, number))
	}
	b.reportAll(hosts)
	var ids []strfmt.UUID
	for _, h := range hosts {
		ids = append(ids, strfmt.UUID(h.id))
	}
	for round, roles := range []struct {
		last  string
		state string
	}{{"worker", lifecycle.ClusterInsufficient}, {"master", lifecycle.ClusterReady},
		{"worker", lifecycle.ClusterInsufficient},
		{"master", lifecycle.ClusterReady}} {
		hosts[3].become("master")
		hosts[4].become("master")
		hosts[5].become(roles.last)
		require.ElementsMatch(t, ids, b.requireCluster(cluster, roles.state).HostNetworks[0].HostIds, round)
	}
	hosts[0].memory = 12 << 30
	b.reportAll(hosts)
	hosts[0].require(lifecycle.HostKnown)
	hosts[0].become("master")
	require.Contains(t, *hosts[0].require(lifecycle.HostInsufficient).StatusInfo, "memory")
}

// TestBootOrder_waitingHostDoesNotTimeOut shows that the time limits of hosts are suspended while
// another host waits for a user action, and start again afterwards.
func TestBootOrder_waitingHostDoesNotTimeOut(t *testing.T) {
	b := newHarness(t)
	cluster, hosts := b.threeNodes(true)
	b.begin(cluster, hosts...)
	bootstrap, wrong, writing := hosts[0], hosts[1], hosts[2]
	for _, h := range hosts {
		if h.require(lifecycle.HostInstalling).Bootstrap {
			bootstrap = h
		}
	}
	for _, h := range hosts {
		if h != bootstrap {
			wrong, writing = writing, h
		}
	}
	bootstrap.reportStagesUpTo(models.HostStageWaitingForControlPlane)
	require.NoError(t, wrong.progress(models.HostStageRebooting, ""))
	require.NoError(t, writing.progress(models.HostStageRebooting, ""))
	require.NoError(t, writing.progress(models.HostStageJoined, ""))
	require.NoError(t, wrong.register(), "the host boots the discovery image again")
	require.True(t, strings.HasPrefix(*wrong.require(lifecycle.HostPendingUserAction).StatusInfo,
		lifecycle.WrongBootOrder), "clients search for this beginning")
	b.requireCluster(cluster, lifecycle.ClusterPendingUserAction)
	for range 8 {
		b.pass(10*time.Minute, bootstrap, wrong)
		require.NoError(t, writing.progress(models.HostStageJoined, b.clock.Now().String()),
			"the controller still reports it")
	}
	bootstrap.require(lifecycle.HostInstallingInProgress)
	b.requireCluster(cluster, lifecycle.ClusterPendingUserAction)

	require.NoError(t, wrong.progress(models.HostStageConfiguring, ""))
	b.requireCluster(cluster, lifecycle.ClusterInstalling)
	b.pass(59*time.Minute, bootstrap)
	bootstrap.require(lifecycle.HostInstallingInProgress)
	b.pass(2*time.Minute, bootstrap)
	require.Contains(t, *bootstrap.require(lifecycle.HostFailed).StatusInfo, "Waiting for control plane",
		"no other host blocks this host any more")
	b.requireCluster(cluster, lifecycle.ClusterFailed)
}
