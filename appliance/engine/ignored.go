package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/description"
	"landfall/appliance/engine/event"
	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/appliance/engine/validation"
)

// IgnoredValidations returns the validations that a cluster's installation ignores: ids of cluster
// validations and ids of host validations, each as a JSON list.
func (e *Engine) IgnoredValidations(id string) (*models.IgnoredValidations, error) {
	row, err := record.ReadCluster(e.options.DB, id)
	if err != nil {
		return nil, err
	}
	return shownIgnored(row), nil
}

func shownIgnored(row *record.Cluster) *models.IgnoredValidations {
	return &models.IgnoredValidations{ClusterValidationIds: row.API.IgnoredClusterValidations,
		HostValidationIds: row.API.IgnoredHostValidations}
}

// IgnoreValidations replaces the ignored validations of a cluster and of its hosts. Each is a JSON
// list of ids, ["all"], or "" for none. It fails with kind Invalid for unknown ids, for validations
// that cannot be ignored, and once the installation has begun.
func (e *Engine) IgnoreValidations(ctx context.Context, id string,
	wanted *models.IgnoredValidations) (*models.IgnoredValidations, error) {
	if err := e.requireCapability(capabilityIgnoreValidations, "ignored validations"); err != nil {
		return nil, err
	}
	var shown *models.IgnoredValidations
	err := e.update(ctx, func(c *change) error {
		row, err := c.cluster(id)
		if err != nil {
			return err
		}
		if !slices.Contains([]string{lifecycle.ClusterPendingForInput, lifecycle.ClusterReady,
			lifecycle.ClusterInsufficient, lifecycle.ClusterAddingHosts}, *row.API.Status) {
			return invalid("Cluster %s is %s; validations can be ignored before its installation only.", row.API.Name,
				*row.API.Status)
		}
		if err := description.CheckIgnored(wanted); err != nil {
			return err
		}
		row.API.IgnoredClusterValidations, row.API.IgnoredHostValidations = wanted.ClusterValidationIds,
			wanted.HostValidationIds
		c.saveCluster(row)
		c.settleCluster(id)
		shown = shownIgnored(row)
		some := description.IgnoresAny(wanted.ClusterValidationIds) || description.IgnoresAny(wanted.HostValidationIds)
		message := "Cluster %s: no validation is ignored."
		if some {
			message = "Cluster %s: some or all validations are ignored on request."
		}
		return errors.Join(
			c.setUsage(row, description.UsageIgnored, some, nil),
			c.clusterEvent(row, event.ValidationsIgnored, models.EventSeverityInfo, message, row.API.Name),
		)
	})
	return shown, err
}

// ResetHostValidation deletes a host's result of one of the two checks that run once per host: disk
// speed and image availability. The check runs again at the next preparation.
func (e *Engine) ResetHostValidation(ctx context.Context, infraEnvID, hostID, id string) (*models.Host, error) {
	return e.changeHost(ctx, infraEnvID, hostID, func(c *change) error {
		h, err := c.hostIn(infraEnvID, hostID)
		if err != nil {
			return err
		}
		if h.API.ClusterID == nil {
			return conflict("Host %s belongs to no cluster; its validations can't be reset.", c.hostName(h))
		}
		switch validation.ID(id) {
		case validation.SufficientInstallationDiskSpeed:
			h.DiskOK, h.DiskError = false, ""
			err = c.clearReport(h, record.PartDisks, func(f *inventory.Facts) { f.Disks = nil })
		case validation.ContainerImagesAvailable:
			h.ImagesOK, h.ImagesError = false, ""
			err = c.clearReport(h, record.PartImages, func(f *inventory.Facts) { f.Images = nil })
		default:
			return invalid("The validation %q can't be reset; %s and %s can.", id,
				validation.SufficientInstallationDiskSpeed, validation.ContainerImagesAvailable)
		}
		c.saveHost(h)
		c.settleLater(h)
		return err
	})
}
