package view

import (
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/store"
)

// PrivateFields are the fields of a cluster that the API does not show.
type PrivateFields struct {
	PullSecret string
	// DerivedMachineNetwork is true if the machine network is derived from the VIPs or the hosts.
	DerivedMachineNetwork bool
	// MirrorGapsAccepted is true if the cluster may be installed even if the mirror lacks images.
	MirrorGapsAccepted bool
}

// PrivateFields returns the fields of a cluster that the API does not show.
func (r *Reader) PrivateFields(id string) (PrivateFields, error) {
	row, err := record.ReadCluster(r.db, id)
	if err != nil {
		return PrivateFields{}, err
	}
	secret, err := record.OpenSecret(r.secrets, row.PullSecret)
	return PrivateFields{PullSecret: secret, DerivedMachineNetwork: row.Follows,
		MirrorGapsAccepted: row.MirrorGapsAccepted}, err
}

// HostHardware returns the inventory that a host's agent reported, with the eligibility of its
// disks, or nil before the first report.
func (r *Reader) HostHardware(infraEnvID, hostID string) (*models.Inventory, error) {
	var facts *inventory.Facts
	err := r.db.View(func(tx *store.Tx) error {
		if !record.Hosts.Exists(tx, infraEnvID+"/"+hostID) {
			return fault.New(fault.NotFound, "There is no host %s in infra-env %s.", hostID, infraEnvID)
		}
		var err error
		facts, err = record.LoadFacts(tx, infraEnvID+"/"+hostID)
		return err
	})
	if err != nil || facts == nil {
		return nil, err
	}
	return facts.Inventory, nil
}

// UISettings returns the settings that the browser stores for a cluster.
func (r *Reader) UISettings(id string) (string, error) {
	row, err := record.ReadCluster(r.db, id)
	if err != nil {
		return "", err
	}
	return row.UISettings, nil
}
