package record

import (
	"encoding/json"
	"errors"

	"landfall/appliance/engine/inventory"
	"landfall/store"
)

// The parts of an agent's reports. Each part is a row of its own, so that a change of one part does
// not rewrite the others.
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

// Part returns the field of the reports that a row holds. It returns nil for an unknown row.
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

// LoadReports returns the reports of a host's agent.
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

// LoadFacts returns the parsed reports of a host's agent.
func LoadFacts(tx *store.Tx, key string) (*inventory.Facts, error) {
	reports, err := LoadReports(tx, key)
	if err != nil {
		return nil, err
	}
	return inventory.Parse(reports)
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

// PutReport writes one part of the reports of a host's agent.
func PutReport(tx *store.Tx, key, part, text string) error {
	row := rowOf(text)
	return Reports.Put(tx, key+"/"+part, &row)
}
