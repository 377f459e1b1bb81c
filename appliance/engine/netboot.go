package engine

import (
	"slices"
	"strings"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/store"
)

// CheckNetworkBoot checks whether a machine may boot the discovery image of an infra-env. An error
// of kind NotFound means that the machine is installed and must boot from its disk. Machines that
// are not registered may boot the image. A machine whose row is damaged may be a node of a running
// cluster, so it boots from its disk.
func (e *Engine) CheckNetworkBoot(infraEnvID, mac string) error {
	return e.options.DB.View(func(tx *store.Tx) error {
		return record.Hosts.Keys(tx, infraEnvID+"/", func(key string) error {
			h, err := record.Hosts.Get(tx, key)
			damaged := store.IsDamaged(err)
			if !damaged && (err != nil || !lifecycle.StartsFromDisk(&h.API)) {
				return err
			}
			facts, err := record.LoadFacts(tx, key)
			if err != nil || facts.Inventory == nil || !hasInterface(facts.Inventory, mac) {
				return err
			}
			reason := "its stored data is damaged"
			if !damaged {
				reason = "its state is " + *h.API.Status
			}
			id := strings.TrimPrefix(key, infraEnvID+"/")
			return notFound("Host %s (MAC address %s) boots from its disk, because %s.", id, mac, reason)
		})
	})
}

// hasInterface reports whether a machine has a network interface with a MAC address.
func hasInterface(inv *models.Inventory, mac string) bool {
	return slices.ContainsFunc(inv.Interfaces,
		func(nic *models.Interface) bool { return strings.EqualFold(nic.MacAddress, mac) })
}
