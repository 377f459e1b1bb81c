package engine

import "github.com/openshift/assisted-service/models"

// The capabilities of an organization that gate features, where the site says that they do
// (Options.Capable).
const (
	capabilityMultiarch         = "bare_metal_installer_multiarch"
	capabilitySoftTimeouts      = "bare_metal_installer_soft_timeouts"
	capabilityIgnoreValidations = "ignore_validations"
)

// requireCapability is nil where features are not gated, or the organization has the capability.
func (e *Engine) requireCapability(capability, feature string) error {
	if e.options.Capable == nil || e.options.Capable(capability) {
		return nil
	}
	return invalid("The organization may not have %s; set its label capability.organization.%s to true, or "+
		"capabilities.enforce to false in the configuration.", feature, capability)
}

// softTimeouts tells whether a cluster that is made now has time-outs that only warn, because its
// organization may.
func (e *Engine) softTimeouts() bool {
	return e.options.Capable != nil && e.options.Capable(capabilitySoftTimeouts)
}

// WarnsOnly reports whether the limits of stages only warn for a cluster and its hosts.
func (e *Engine) WarnsOnly(cluster *models.Cluster) bool {
	return e.options.Timeouts.WarnOnly || cluster != nil && cluster.OrgSoftTimeoutsEnabled
}
