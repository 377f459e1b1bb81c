package engine

import (
	"landfall/appliance/engine/description"
	"landfall/appliance/engine/record"
)

// setUsage records whether a cluster uses a feature, and the data that the API shows for it.
func (c *change) setUsage(row *record.Cluster, name string, used bool, data map[string]any) error {
	text, err := description.SetUsage(row.API.FeatureUsage, name, used, data)
	if err != nil || text == row.API.FeatureUsage {
		return err
	}
	row.API.FeatureUsage = text
	c.saveCluster(row)
	return nil
}
