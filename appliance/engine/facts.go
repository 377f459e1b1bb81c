package engine

import (
	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/record"
)

// parsedFactsLimit is the maximum number of hosts in the cache of parsed facts. An inventory takes
// about 40 KiB of memory.
const parsedFactsLimit = 256

// hostFacts returns the parsed reports of a host's agent. The result must not be changed; use
// setReport.
func (c *change) hostFacts(h *record.Host) (*inventory.Facts, error) {
	key := record.HostKey(h)
	if held, ok := c.facts[key]; ok {
		return held, nil
	}
	facts, ok := c.e.parsed.Get(key, h.Reported)
	if !ok {
		var err error
		if facts, err = record.LoadFacts(c.tx, key); err != nil {
			return nil, err
		}
		if c.reading {
			c.e.parsed.Put(key, h.Reported, facts)
		}
	}
	c.facts[key] = facts
	return facts, nil
}

// setReport replaces one report of a host's agent and its parsed form.
func (c *change) setReport(h *record.Host, name, text string, parsed func(*inventory.Facts)) error {
	if err := c.alterFacts(h, parsed); err != nil {
		return err
	}
	return record.PutReport(c.tx, record.HostKey(h), name, text)
}

// clearReport deletes one report of a host's agent and its parsed form.
func (c *change) clearReport(h *record.Host, name string, parsed func(*inventory.Facts)) error {
	if err := c.alterFacts(h, parsed); err != nil {
		return err
	}
	return record.Reports.Delete(c.tx, record.HostKey(h)+"/"+name)
}

func (c *change) alterFacts(h *record.Host, alter func(*inventory.Facts)) error {
	held, err := c.hostFacts(h)
	if err != nil {
		return err
	}
	altered := *held
	alter(&altered)
	c.replaceFacts(h, &altered)
	return nil
}

func (c *change) replaceFacts(h *record.Host, facts *inventory.Facts) {
	h.Reported = c.tx.Next()
	c.facts[record.HostKey(h)] = facts
	c.saveHost(h)
}

// clearReports deletes all reports of a host's agent.
func (c *change) clearReports(h *record.Host) error {
	c.replaceFacts(h, &inventory.Facts{})
	return record.DeleteReports(c.tx, record.HostKey(h))
}

// inventoryHost combines a host and its facts for validations and steps.
func (c *change) inventoryHost(h *record.Host) (*inventory.Host, error) {
	facts, err := c.hostFacts(h)
	if err != nil {
		return nil, err
	}
	return inventory.NewHost(&h.API, facts), nil
}
