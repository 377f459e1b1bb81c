package record

import (
	"encoding/json"
	"errors"

	"landfall/appliance/engine/inventory"
	"landfall/store"
)

// The parts of what an agent reports, each a row of its own: one that changes does not rewrite the
// others.
const (
	PartInventory     = "inventory"
	PartConnectivity  = "connectivity"
	PartFreeAddresses = "free-addresses"
	PartNTP           = "ntp"
	PartDomains       = "domains"
	PartTang          = "tang"
	PartAPI           = "api-connectivity"
	PartImages        = "images"
	PartDisks         = "disks"
)

// Part returns the field of the reports that a row holds, or nil for a row of another program's
// making.
func Part(reports *inventory.Reports, name string) *string {
	switch name {
	case PartInventory:
		return &reports.Inventory
	case PartConnectivity:
		return &reports.Connectivity
	case PartFreeAddresses:
		return &reports.FreeAddresses
	case PartNTP:
		return &reports.NTPSources
	case PartDomains:
		return &reports.Domains
	case PartTang:
		return &reports.Tang
	case PartAPI:
		return &reports.APIConnectivity
	case PartImages:
		return &reports.Images
	case PartDisks:
		return &reports.Disks
	}
	return nil
}

// LoadReports returns the reports of a host's agent as the agent sent them.
func LoadReports(tx *store.Tx, key string) (inventory.Reports, error) {
	var reports inventory.Reports
	err := Reports.Each(tx, key+"/", func(row string, text *json.RawMessage) error {
		if field := Part(&reports, row[len(key)+1:]); field != nil {
			*field = TextOf(*text)
		}
		return nil
	})
	return reports, err
}

// DeleteReports deletes all reports of a host's agent.
func DeleteReports(tx *store.Tx, key string) error {
	var rows []string
	err := Reports.Keys(tx, key+"/", func(row string) error { rows = append(rows, row); return nil })
	for _, row := range rows {
		err = errors.Join(err, Reports.Delete(tx, row))
	}
	return err
}

// PutReport writes one part of what a host's agent has said.
func PutReport(tx *store.Tx, key, part, text string) error {
	row := rowOf(text)
	return Reports.Put(tx, key+"/"+part, &row)
}
