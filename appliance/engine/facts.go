package engine

import (
	"encoding/json"
	"errors"

	"landfall/appliance/engine/inventory"
	"landfall/store"
)

// parsedFactsLimit bounds how many hosts' facts are kept parsed: an inventory takes some 40 KiB in
// memory.
const parsedFactsLimit = 256

// The parts of what an agent reports, each a row of its own: one that changes does not rewrite the
// others.
const (
	partInventory     = "inventory"
	partConnectivity  = "connectivity"
	partFreeAddresses = "free-addresses"
	partNTP           = "ntp"
	partDomains       = "domains"
	partTang          = "tang"
	partAPI           = "api-connectivity"
	partImages        = "images"
	partDisks         = "disks"
)

// part returns the field of the reports that a row holds, or nil for a row of another program's
// making.
func part(reports *inventory.Reports, name string) *string {
	switch name {
	case partInventory:
		return &reports.Inventory
	case partConnectivity:
		return &reports.Connectivity
	case partFreeAddresses:
		return &reports.FreeAddresses
	case partNTP:
		return &reports.NTPSources
	case partDomains:
		return &reports.Domains
	case partTang:
		return &reports.Tang
	case partAPI:
		return &reports.APIConnectivity
	case partImages:
		return &reports.Images
	case partDisks:
		return &reports.Disks
	}
	return nil
}

// loadReports reads what a host's agent has said, as it said it.
func loadReports(tx *store.Tx, key string) (inventory.Reports, error) {
	var reports inventory.Reports
	err := reportRows.Each(tx, key+"/", func(row string, text *json.RawMessage) error {
		if field := part(&reports, row[len(key)+1:]); field != nil {
			*field = textOf(*text)
		}
		return nil
	})
	return reports, err
}

// hostFacts returns what the host's agent has said, parsed. It must not be altered: see setReport.
func (c *change) hostFacts(h *hostRecord) (*inventory.Facts, error) {
	key := hostKey(h)
	if held, ok := c.facts[key]; ok {
		return held, nil
	}
	facts, ok := c.e.parsed.Get(key, h.Reported)
	if !ok {
		reports, err := loadReports(c.tx, key)
		if err != nil {
			return nil, err
		}
		if facts, err = inventory.Parse(reports); err != nil {
			return nil, err
		}
		if c.reading {
			c.e.parsed.Put(key, h.Reported, facts)
		}
	}
	c.facts[key] = facts
	return facts, nil
}

// setReport replaces one part of what a host's agent has said, and what is known parsed with it.
func (c *change) setReport(h *hostRecord, name, text string, parsed func(*inventory.Facts)) error {
	if err := c.alterFacts(h, parsed); err != nil {
		return err
	}
	row := rowOf(text)
	return reportRows.Put(c.tx, hostKey(h)+"/"+name, &row)
}

// clearReport forgets one part of what a host's agent has said.
func (c *change) clearReport(h *hostRecord, name string, parsed func(*inventory.Facts)) error {
	if err := c.alterFacts(h, parsed); err != nil {
		return err
	}
	return reportRows.Delete(c.tx, hostKey(h)+"/"+name)
}

func (c *change) alterFacts(h *hostRecord, alter func(*inventory.Facts)) error {
	held, err := c.hostFacts(h)
	if err != nil {
		return err
	}
	altered := *held
	alter(&altered)
	c.replaceFacts(h, &altered)
	return nil
}

func (c *change) replaceFacts(h *hostRecord, facts *inventory.Facts) {
	h.Reported = c.tx.Next()
	c.facts[hostKey(h)] = facts
	c.saveHost(h)
}

// clearReports forgets what a host's agent has said.
func (c *change) clearReports(h *hostRecord) error {
	c.replaceFacts(h, &inventory.Facts{})
	return c.removeReports(hostKey(h))
}

func (c *change) removeReports(key string) error {
	var rows []string
	err := reportRows.Keys(c.tx, key+"/", func(row string) error { rows = append(rows, row); return nil })
	for _, row := range rows {
		err = errors.Join(err, reportRows.Delete(c.tx, row))
	}
	return err
}

// inventoryHost joins a host and its facts for the rules.
func (c *change) inventoryHost(h *hostRecord) (*inventory.Host, error) {
	facts, err := c.hostFacts(h)
	if err != nil {
		return nil, err
	}
	return inventory.NewHost(&h.API, facts), nil
}
