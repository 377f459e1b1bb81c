package engine

import (
	"slices"
	"strings"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
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
			if store.SkipDamaged(err) != nil || err == nil && !lifecycle.StartsFromDisk(&h.API) {
				return store.SkipDamaged(err)
			}
			reports, err := record.LoadReports(tx, key)
			if err != nil {
				return err
			}
			facts, err := inventory.Parse(reports)
			if err != nil || facts.Inventory == nil || !hasInterface(facts.Inventory, mac) {
				return err
			}
			if damaged {
				return notFound("Host %s (MAC address %s) boots from its disk, because its stored data is damaged.",
					key[len(infraEnvID)+1:], mac)
			}
			return notFound("Host %s (MAC address %s) boots from its disk, because its state is %s.", h.API.ID, mac,
				*h.API.Status)
		})
	})
}

// hasInterface reports whether a machine has a network interface with a MAC address.
func hasInterface(inv *models.Inventory, mac string) bool {
	return slices.ContainsFunc(inv.Interfaces,
		func(nic *models.Interface) bool { return strings.EqualFold(nic.MacAddress, mac) })
}
