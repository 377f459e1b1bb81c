package installer

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
)

// baselines matches the names of capability sets: None, the current set, or the set of a version.
var baselines = regexp.MustCompile(`^(None|vCurrent|v4\.[0-9]+)$`)

// checkCapabilities checks the capabilities and the CPU partitioning.
func (c *installConfig) checkCapabilities(p *problems) {
	if !slices.Contains([]string{"", "None", "AllNodes"}, c.CPUPartitioningMode) {
		p.invalid("cpuPartitioningMode", c.CPUPartitioningMode, `supported values: "AllNodes", "None"`)
	}
	if !slices.Contains([]string{"", "Default", "TechPreviewNoUpgrade", "DevPreviewNoUpgrade", "CustomNoUpgrade"},
		c.FeatureSet) {
		p.invalid("featureSet", c.FeatureSet,
			`supported values: "CustomNoUpgrade", "Default", "DevPreviewNoUpgrade", "TechPreviewNoUpgrade"`)
	}
	if len(c.FeatureGates) > 0 && c.FeatureSet != "CustomNoUpgrade" {
		p.invalid("featureGates", len(c.FeatureGates),
			"featureGates can only be used with the CustomNoUpgrade feature set")
	}
	if len(c.Capabilities) == 0 || string(c.Capabilities) == "null" {
		return
	}
	var wanted struct {
		Baseline   string   `json:"baselineCapabilitySet"`
		Additional []string `json:"additionalEnabledCapabilities"`
	}
	if err := json.Unmarshal(c.Capabilities, &wanted); err != nil {
		p.invalid("capabilities", "?", err.Error())
		return
	}
	if wanted.Baseline != "" && !baselines.MatchString(wanted.Baseline) {
		p.invalid("capabilities.baselineCapabilitySet", wanted.Baseline,
			"supported values are None, vCurrent and those of versions")
	}
	for needed, by := range map[string]bool{"baremetal": c.Platform.BareMetal != nil,
		"MachineAPI": c.Platform.BareMetal != nil} {
		if by && wanted.Baseline == "None" && !slices.Contains(wanted.Additional, needed) {
			p.invalid("additionalEnabledCapabilities", wanted.Additional,
				fmt.Sprintf("platform baremetal requires the %s capability", needed))
		}
	}
	if slices.Contains(wanted.Additional, "marketplace") && wanted.Baseline == "None" &&
		!slices.Contains(wanted.Additional, "OperatorLifecycleManager") {
		p.invalid("additionalEnabledCapabilities", wanted.Additional,
			"the marketplace capability requires the OperatorLifecycleManager capability")
	}
}
