package engine

import "landfall/appliance/engine/lifecycle"

// clusterProgress computes the progress of a cluster from the progress of its hosts.
func (c *change) clusterProgress(id string) error {
	row, err := c.cluster(id)
	if err != nil {
		return err
	}
	hosts, _, err := c.readableHostsOf(id)
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
	row.API.Progress.TotalPercentage = lifecycle.TotalProgress(row.API.Progress)
	c.saveCluster(row)
	return nil
}
