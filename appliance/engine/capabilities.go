package engine

import "github.com/openshift/assisted-service/models"

// Capabilities of an organization that enable features. They are checked only if [Options].Capable
// is set.
const (
	capabilityMultiarch         = "bare_metal_installer_multiarch"
	capabilitySoftTimeouts      = "bare_metal_installer_soft_timeouts"
	capabilityIgnoreValidations = "ignore_validations"
)

// requireCapability returns an error if the organization lacks a capability that a feature
// requires.
func (e *Engine) requireCapability(capability, feature string) error {
	if e.options.Capable == nil || e.options.Capable(capability) {
		return nil
	}
	return invalid("The organization lacks the capability for %s; set its label capability.organization.%s to true, "+
		"or "+
		"capabilities.enforce to false in the configuration.", feature, capability)
}

// softTimeouts reports whether the time limits of new clusters only warn, because the organization
// has the capability.
func (e *Engine) softTimeouts() bool {
	return e.options.Capable != nil && e.options.Capable(capabilitySoftTimeouts)
}

// WarnsOnly reports whether the time limits of a cluster and its hosts only warn.
func (e *Engine) WarnsOnly(cluster *models.Cluster) bool {
	return e.options.Timeouts.WarnOnly || cluster != nil && cluster.OrgSoftTimeoutsEnabled
}
