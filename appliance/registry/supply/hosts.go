package supply

import (
	"fmt"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/record"
	"landfall/appliance/registry/traffic"
	"landfall/store"
)

// Hosts returns the hosts of the site by the addresses of their interfaces.
func Hosts(db *store.DB) (map[string]*inventory.Host, error) {
	found := map[string]*inventory.Host{}
	err := db.View(func(tx *store.Tx) error {
		return record.Hosts.Each(tx, "", func(_ string, row *record.Host) error {
			facts, _, err := inventory.ParseInventory(row.API.Inventory)
			if err != nil {
				return nil // the host has not reported its interfaces yet
			}
			host := inventory.NewHost(&row.API, &inventory.Facts{Inventory: facts})
			for _, nic := range facts.Interfaces {
				for _, prefix := range inventory.Addresses(nic) {
					found[prefix.Addr().String()] = host
				}
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read the addresses of the hosts: %w", err)
	}
	return found, nil
}

// NameClients sets the names of the hosts among the clients of the registry.
func NameClients(db *store.DB, clients []traffic.Client) error {
	if len(clients) == 0 {
		return nil
	}
	hosts, err := Hosts(db)
	if err != nil {
		return err
	}
	for i := range clients {
		if host := hosts[clients[i].Address]; host != nil {
			clients[i].Host = host.Name()
		}
	}
	return nil
}
