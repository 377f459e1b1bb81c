package lifecycle

import (
	"slices"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"
)

// Limit is a time limit and its start. The zero Limit never expires.
type Limit struct {
	Began strfmt.DateTime
	For   time.Duration
}

// Host returns the limit of a host's state or stage. Restarting is the time at which a restart of
// the host was requested, or zero.
func (t *Timeouts) Host(host *models.Host, restarting time.Time, singleNode bool) Limit {
	limit := Limit{Began: host.StatusUpdatedAt}
	switch *host.Status {
	case HostPreparing:
		limit.For = t.HostPreparing
	case HostInstalling:
		limit.For = t.HostStarting
	case HostInstallingInProgress:
		if host.Progress.StageTimedOut && host.Progress.CurrentStage != models.HostStageRebooting {
			return Limit{} // an event has already warned, and the installation must not fail
		}
		return Limit{host.StageUpdatedAt, t.Stage(host.Progress.CurrentStage, singleNode)}
	case HostDisconnected, HostDisconnectedUnbound:
		if !restarting.IsZero() {
			return Limit{strfmt.DateTime(restarting), t.HostDisconnected}
		}
	case HostPendingUserAction:
		limit.For = t.UserAction
	case HostResetting:
		limit.For = t.Resetting
	case HostReclaiming, HostReclaimingRebooting:
		limit.For = t.Reclaiming
	case HostFailed, HostCancelled:
		return logsLimit(host.LogsInfo, host.StatusUpdatedAt, host.LogsStartedAt, host.LogsCollectedAt,
			t.HostLogsPending, t.HostLogs, t.HostLogsPending)
	}
	return limit
}

// Cluster returns the limit of a cluster's state.
func (t *Timeouts) Cluster(cluster *models.Cluster) Limit {
	switch *cluster.Status {
	case ClusterPreparing:
		return Limit{cluster.StatusUpdatedAt, t.ClusterPreparing}
	case ClusterFinalizing:
		return Limit{cluster.StatusUpdatedAt, t.Finalizing}
	case ClusterFailed, ClusterCancelled:
		return logsLimit(cluster.LogsInfo, cluster.StatusUpdatedAt, cluster.ControllerLogsStartedAt,
			cluster.ControllerLogsCollectedAt, t.ClusterLogsPending, t.ClusterLogs, t.ClusterLogs)
	}
	return Limit{}
}

// WholeInstallation returns the end of the limit of a whole installation. since is its beginning,
// or the later time since which the appliance runs again. After a downtime, the controller in the
// cluster has the time of the state finalizing for its report. The limit does not start again then,
// because the certificates of the installation expire meanwhile, and an appliance that stops every
// day would wait for ever.
func (t *Timeouts) WholeInstallation(began, since time.Time) time.Time {
	if !since.After(began) {
		return since.Add(t.Installation)
	}
	return slices.MaxFunc([]time.Time{began.Add(t.Installation), since.Add(min(t.Installation, t.Finalizing))},
		time.Time.Compare)
}

// CurrentFinalizingStage returns the limit of the stage that the controller in a cluster reported.
// The limit starts again when the cluster returns to the state finalizing: the time that it waited
// for a user does not count.
func (t *Timeouts) CurrentFinalizingStage(cluster *models.Cluster) Limit {
	progress := cluster.Progress
	if *cluster.Status != ClusterFinalizing || progress.FinalizingStage == "" || progress.FinalizingStageTimedOut {
		return Limit{}
	}
	limit := Limit{progress.FinalizingStageStartedAt, t.FinalizingStage(progress.FinalizingStage,
		cluster.MonitoredOperators)}
	if entered := cluster.StatusUpdatedAt; time.Time(entered).After(time.Time(limit.Began)) {
		limit.Began = entered
	}
	return limit
}

// logsLimit returns the time limit for logs after an installation ended: first for their
// announcement, then for each part. It is zero if no more logs are expected.
func logsLimit(state models.LogsState, ended, announced, collected strfmt.DateTime, pending, whole,
	part time.Duration) Limit {
	switch {
	case state == models.LogsStateEmpty && time.Time(announced).IsZero():
		return Limit{ended, pending}
	case state == models.LogsStateRequested && time.Time(collected).IsZero():
		return Limit{announced, whole}
	case state == models.LogsStateRequested:
		return Limit{collected, whole}
	case state == models.LogsStateCollecting:
		return Limit{collected, part}
	}
	return Limit{}
}
