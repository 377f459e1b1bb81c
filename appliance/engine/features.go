package engine

import (
	"reflect"
	"slices"
	"strings"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/description"
	"landfall/appliance/engine/record"
	"landfall/store/fastjson"
)

// noteFeatures updates the features that a cluster uses, as far as the descriptions of the cluster,
// its infra-envs and its hosts show them.
func (c *change) noteFeatures(w *clusterMembers) error {
	api := &w.row.API
	seen := description.ClusterUses(api)
	named, virtual := 0, []any{}
	for i, h := range w.records {
		if h.API.RequestedHostname != "" {
			named++
		}
		if found := w.hosts[i].Inventory; found != nil && found.SystemVendor != nil && found.SystemVendor.Virtual {
			virtual = append(virtual, h.API.ID.String())
		}
	}
	seen.AddHosts(api, named, virtual)
	if err := c.addInfraEnvUses(api.ID.String(), seen); err != nil {
		return err
	}
	usages := make(map[string]models.Usage, len(seen))
	for name, data := range seen {
		usages[name] = models.Usage{ID: description.UsageID(name), Name: name, Data: data}
	}
	if text, err := fastjson.Marshal(usages); err != nil || string(text) == api.FeatureUsage {
		return err // unchanged, and no other features are recorded
	}
	held := make(map[string]models.Usage)
	if api.FeatureUsage != "" {
		if err := fastjson.UnmarshalOwn([]byte(api.FeatureUsage), &held); err != nil {
			return err
		}
	}
	visible := description.VisibleFeatures()
	for name, usage := range held {
		if !slices.Contains(visible, name) {
			usages[name] = usage
		}
	}
	if reflect.DeepEqual(held, usages) {
		return nil
	}
	text, err := fastjson.Marshal(usages)
	if err != nil {
		return err
	}
	api.FeatureUsage = string(text)
	c.saveCluster(w.row)
	return nil
}

// addInfraEnvUses adds the features that the infra-envs of a cluster's hosts use.
func (c *change) addInfraEnvUses(clusterID string, seen description.Uses) error {
	return record.ClusterInfraEnvs.Keys(c.tx, clusterID+"/", func(key string) error {
		env, err := c.infraEnv(strings.TrimPrefix(key, clusterID+"/"))
		if KindOf(err) == NotFound {
			return nil
		}
		if err != nil {
			return err
		}
		seen.AddInfraEnv(&env.API)
		return nil
	})
}
