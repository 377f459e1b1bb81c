package engine

import (
	"strings"

	"landfall/appliance/engine/description"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/store"
)

// noteFeatures updates the list of features that a cluster uses. Features are derived from the
// descriptions of the cluster, its infra-envs and its hosts.
func (c *change) noteFeatures(m *clusterMembers) error {
	api := &m.row.API
	seen := description.ClusterUses(api)
	named, virtual := 0, []any{}
	for i, h := range m.records {
		if h.API.RequestedHostname != "" {
			named++
		}
		if found := m.hosts[i].Inventory; found != nil && found.SystemVendor != nil && found.SystemVendor.Virtual {
			virtual = append(virtual, h.API.ID.String())
		}
	}
	seen.AddHosts(api, named, virtual)
	if err := c.addInfraEnvUses(api.ID.String(), seen); err != nil {
		return err
	}
	text, err := seen.Merge(api.FeatureUsage)
	if err != nil || text == api.FeatureUsage {
		return err
	}
	api.FeatureUsage = text
	c.saveCluster(m.row)
	return nil
}

// addInfraEnvUses adds the features that the infra-envs of a cluster use.
func (c *change) addInfraEnvUses(clusterID string, seen description.Uses) error {
	return record.ClusterInfraEnvs.Keys(c.tx, clusterID+"/", func(key string) error {
		env, err := c.infraEnv(strings.TrimPrefix(key, clusterID+"/"))
		if fault.KindOf(err) == fault.NotFound || store.IsDamaged(err) {
			return nil
		}
		if err != nil {
			return err
		}
		seen.AddInfraEnv(&env.API)
		return nil
	})
}
