package lifecycle

import (
	"slices"

	"github.com/openshift/assisted-service/models"
)

// PreparingShare, installingShare and finalizingShare are the shares of the three phases in a
// cluster's total progress, in percent. The Assisted Installer uses the same figures. An installed
// cluster is at 100 percent.
const (
	PreparingShare  = 10
	installingShare = 70
	finalizingShare = 15
)

// TotalProgress returns the total progress of a cluster, in percent.
func TotalProgress(p *models.ClusterProgressInfo) int64 {
	return (PreparingShare*p.PreparingForInstallationStagePercentage + installingShare*p.InstallingStagePercentage +
		finalizingShare*p.FinalizingStagePercentage) / 100
}

// StageProgress returns the progress of a host at one of its stages, in percent.
func StageProgress(stages []models.HostStage, stage models.HostStage) int64 {
	at := slices.Index(stages, stage)
	if stage == models.HostStageDone {
		return 100
	}
	if at < 0 || len(stages) == 0 {
		return 0
	}
	return int64((at + 1) * 100 / len(stages))
}

// CountOperators updates the progress of a cluster with its finished operators. A failed optional
// operator counts as finished, because the cluster is then installed but degraded. The total
// progress never decreases.
func CountOperators(cluster *models.Cluster) {
	finished := 0
	for _, m := range cluster.MonitoredOperators {
		if m.Status == models.OperatorStatusAvailable || m.OperatorType == models.OperatorTypeOlm &&
			m.Status == models.OperatorStatusFailed {
			finished++
		}
	}
	progress := *cluster.Progress
	progress.FinalizingStagePercentage = int64(finished * 100 / max(len(cluster.MonitoredOperators), 1))
	if progress.TotalPercentage = TotalProgress(
		&progress); progress.TotalPercentage >= cluster.Progress.TotalPercentage {
		*cluster.Progress = progress
	}
}
