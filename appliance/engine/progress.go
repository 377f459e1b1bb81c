package engine

import (
	"slices"

	"github.com/openshift/assisted-service/models"
)

// Shares of the three phases in a cluster's total progress, in percent (the Assisted Installer's);
// the rest is for the moment when the cluster is installed.
const (
	preparingShare  = 10
	installingShare = 70
	finalizingShare = 15
)

func total(p *models.ClusterProgressInfo) int64 {
	return (preparingShare*p.PreparingForInstallationStagePercentage + installingShare*p.InstallingStagePercentage +
		finalizingShare*p.FinalizingStagePercentage) / 100
}

func percentage(stages []models.HostStage, stage models.HostStage) int64 {
	at := slices.Index(stages, stage)
	if stage == models.HostStageDone {
		return 100
	}
	if at < 0 || len(stages) == 0 {
		return 0
	}
	return int64((at + 1) * 100 / len(stages))
}

// clusterProgress sums up the hosts' progress in the cluster's.
func (c *change) clusterProgress(id string) error {
	row, err := c.cluster(id)
	if err != nil {
		return err
	}
	hosts, err := c.hostsOf(id)
	if err != nil || len(hosts) == 0 {
		return err
	}
	sum := int64(0)
	for _, h := range hosts {
		sum += h.API.Progress.InstallationPercentage
	}
	share := sum / int64(len(hosts))
	if row.API.Progress.InstallingStagePercentage == share {
		return nil
	}
	row.API.Progress.InstallingStagePercentage = share
	row.API.Progress.TotalPercentage = total(row.API.Progress)
	c.saveCluster(row)
	return nil
}

// noteOperators counts the operators that have come to an end in the cluster's progress: a failed
// one of those that were chosen leaves the cluster degraded, and is not waited for. What was
// reached is never taken back.
func noteOperators(api *models.Cluster) {
	ended := 0
	for _, m := range api.MonitoredOperators {
		if m.Status == models.OperatorStatusAvailable || m.OperatorType == models.OperatorTypeOlm &&
			m.Status == models.OperatorStatusFailed {
			ended++
		}
	}
	progress := *api.Progress
	progress.FinalizingStagePercentage = int64(ended * 100 / max(len(api.MonitoredOperators), 1))
	if progress.TotalPercentage = total(&progress); progress.TotalPercentage >= api.Progress.TotalPercentage {
		*api.Progress = progress
	}
}
