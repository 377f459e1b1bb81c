package engine

import (
	"context"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
	"landfall/store"
)

// What a folder of the agent-based installer is made from and compared with, beside what the API
// shows.

// Unshown is what belongs to a cluster and is not shown.
type Unshown struct {
	PullSecret string
	// DerivedMachineNetwork: nobody named the machine network; it is that of the VIPs or hosts.
	DerivedMachineNetwork bool
	// MirrorGapsAccepted: a person wants the cluster installed although the mirror lacks images.
	MirrorGapsAccepted bool
}

// Unshown returns what belongs to a cluster and is not shown.
func (e *Engine) Unshown(id string) (Unshown, error) {
	row, err := e.clusterRow(id)
	if err != nil {
		return Unshown{}, err
	}
	secret, err := e.openSecret(row.PullSecret)
	return Unshown{PullSecret: secret, DerivedMachineNetwork: row.Follows, MirrorGapsAccepted: row.MirrorGapsAccepted},
		err
}

// HostHardware is what a host's agent has reported of the machine; nil if it has reported nothing
// yet. The eligibility of disks is judged.
func (e *Engine) HostHardware(infraEnvID, hostID string) (*models.Inventory, error) {
	var facts *inventory.Facts
	err := e.DB.View(func(tx *store.Tx) error {
		if !hostRows.Exists(tx, infraEnvID+"/"+hostID) {
			return notFound("There is no host %s in infra-env %s.", hostID, infraEnvID)
		}
		reports, err := loadReports(tx, infraEnvID+"/"+hostID)
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

// WarnOfHost writes a warning into a host's events, for a part of the appliance that looks after
// hosts beside the engine.
func (e *Engine) WarnOfHost(ctx context.Context, infraEnvID, hostID, name, message string) error {
	return e.update(ctx, func(c *change) error {
		h, err := c.hostIn(infraEnvID, hostID)
		if err != nil {
			return err
		}
		return c.hostEvent(h, name, models.EventSeverityWarning, "Host %s: %s", c.hostName(h), message)
	})
}
