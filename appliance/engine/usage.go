package engine

import (
	"landfall/appliance/engine/description"
	"landfall/appliance/engine/record"
)

// setUsage records whether a cluster uses a feature.
func (c *change) setUsage(row *record.Cluster, name string, used bool) error {
	text, err := description.SetUsage(row.API.FeatureUsage, name, used)
	if err != nil || text == row.API.FeatureUsage {
		return err
	}
	row.API.FeatureUsage = text
	c.saveCluster(row)
	return nil
}
