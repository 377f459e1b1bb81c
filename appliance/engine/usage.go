package engine

import (
	"encoding/json"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/description"
	"landfall/appliance/engine/record"
)

// The features that a cluster uses, which the API shows as feature_usage: a JSON object by name.
// Names are those of the Assisted Installer (internal/usage/consts.go); programs look for them.
const (
	usageCustomManifest   = "Custom manifest"
	usageInstallConfig    = "Install Config Overrides"
	usageIgnitionOverride = "Ignition Config Override"
	usageIgnored          = "Validations have been ignored for this cluster"
	usageDayTwo           = "Day2 hosts"
)

// setUsage notes that a cluster uses a feature, or that it does not any more.
func (c *change) setUsage(row *record.Cluster, name string, used bool) error {
	usages := make(map[string]models.Usage)
	if row.API.FeatureUsage != "" {
		if err := json.Unmarshal([]byte(row.API.FeatureUsage), &usages); err != nil {
			return err
		}
	}
	if _, held := usages[name]; held == used {
		return nil
	}
	if used {
		usages[name] = models.Usage{ID: description.UsageID(name), Name: name}
	} else {
		delete(usages, name)
	}
	text, err := json.Marshal(usages)
	if err != nil {
		return err
	}
	row.API.FeatureUsage = string(text)
	c.saveCluster(row)
	return nil
}
