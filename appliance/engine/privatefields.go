package engine

import (
	"context"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/record"
	"landfall/store"
)

// PrivateFields are the fields of a cluster that the API does not show.
type PrivateFields struct {
	PullSecret string
	// DerivedMachineNetwork is true if the machine network is derived from the VIPs or the hosts.
	DerivedMachineNetwork bool
	// MirrorGapsAccepted is true if the cluster may be installed although the mirror lacks images.
	MirrorGapsAccepted bool
}

// PrivateFields returns the fields of a cluster that the API does not show.
func (e *Engine) PrivateFields(id string) (PrivateFields, error) {
	row, err := e.clusterRow(id)
	if err != nil {
		return PrivateFields{}, err
	}
	secret, err := record.OpenSecret(e.options.Secrets, row.PullSecret)
	return PrivateFields{PullSecret: secret, DerivedMachineNetwork: row.Follows,
		MirrorGapsAccepted: row.MirrorGapsAccepted}, err
}

// HostHardware returns the inventory that a host's agent reported, with the eligibility of its
// disks; nil if it has reported nothing yet.
func (e *Engine) HostHardware(infraEnvID, hostID string) (*models.Inventory, error) {
	var facts *inventory.Facts
	err := e.options.DB.View(func(tx *store.Tx) error {
		if !record.Hosts.Exists(tx, infraEnvID+"/"+hostID) {
			return notFound("There is no host %s in infra-env %s.", hostID, infraEnvID)
		}
		reports, err := record.LoadReports(tx, infraEnvID+"/"+hostID)
		if err != nil {
			return err
		}
		facts, err = inventory.Parse(reports)
		return err
	})
	if err != nil || facts == nil {
		return nil, err
	}
	return facts.Inventory, nil
}

// AddHostWarning adds a warning to the events of a host.
func (e *Engine) AddHostWarning(ctx context.Context, infraEnvID, hostID, name, message string) error {
	return e.update(ctx, func(c *change) error {
		h, err := c.hostIn(infraEnvID, hostID)
		if err != nil {
			return err
		}
		return c.hostEvent(h, name, models.EventSeverityWarning, "Host %s: %s", c.hostName(h), message)
	})
}
