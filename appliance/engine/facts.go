package engine

import (
	"container/list"
	"encoding/json"
	"errors"
	"sync"

	"landfall/appliance/engine/inventory"
	"landfall/store"
)

// parsedFactsLimit bounds how many hosts' facts are kept parsed: an inventory takes some 40 KiB in memory.
const parsedFactsLimit = 256

// The parts of what an agent reports, each a row of its own: one that changes does not rewrite the others.
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

// part returns the field of the reports that a row holds, or nil for a row of another program's making.
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
			*field = string(*text)
		}
		return nil
	})
	return reports, err
}

// parsedFacts remembers the facts parsed last, so that settling a cluster does not parse the inventories of all its
// hosts for a change of one. The writer keeps it in step with the rows: an entry is what was written last.
type parsedFacts struct {
	mu    sync.Mutex
	limit int
	order *list.List // of *parsedEntry, the latest used first
	byKey map[string]*list.Element
}

type parsedEntry struct {
	key   string
	facts *inventory.Facts
}

func newParsedFacts(limit int) *parsedFacts {
	return &parsedFacts{limit: limit, order: list.New(), byKey: make(map[string]*list.Element)}
}

func (p *parsedFacts) get(key string) (*inventory.Facts, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	held, ok := p.byKey[key]
	if !ok {
		return nil, false
	}
	p.order.MoveToFront(held)
	return held.Value.(*parsedEntry).facts, true
}

func (p *parsedFacts) put(key string, facts *inventory.Facts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(key)
	p.byKey[key] = p.order.PushFront(&parsedEntry{key, facts})
	if p.order.Len() > p.limit {
		p.remove(p.order.Back().Value.(*parsedEntry).key)
	}
}

func (p *parsedFacts) drop(keys ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, key := range keys {
		p.remove(key)
	}
}

func (p *parsedFacts) remove(key string) {
	if held, ok := p.byKey[key]; ok {
		p.order.Remove(held)
		delete(p.byKey, key)
	}
}

// hostFacts returns what the host's agent has said, parsed. It must not be altered: see setReport.
func (c *change) hostFacts(key string) (*inventory.Facts, error) {
	if held, ok := c.e.parsed.get(key); ok {
		return held, nil
	}
	reports, err := loadReports(c.tx, key)
	if err != nil {
		return nil, err
	}
	facts, err := inventory.Parse(reports)
	if err != nil {
		return nil, err
	}
	c.e.parsed.put(key, facts)
	return facts, nil
}

// setReport replaces one part of what a host's agent has said, and what is known parsed with it.
func (c *change) setReport(key, name, text string, parsed func(*inventory.Facts)) error {
	held, err := c.hostFacts(key)
	if err != nil {
		return err
	}
	altered := *held
	parsed(&altered)
	c.reported = append(c.reported, key)
	c.e.parsed.put(key, &altered)
	raw := json.RawMessage(text)
	return reportRows.Put(c.tx, key+"/"+name, &raw)
}

// clearReport forgets one part of what a host's agent has said.
func (c *change) clearReport(key, name string, parsed func(*inventory.Facts)) error {
	held, err := c.hostFacts(key)
	if err != nil {
		return err
	}
	altered := *held
	parsed(&altered)
	c.reported = append(c.reported, key)
	c.e.parsed.put(key, &altered)
	return reportRows.Delete(c.tx, key+"/"+name)
}

// clearReports forgets what a host's agent has said.
func (c *change) clearReports(key string) error {
	var rows []string
	err := reportRows.Keys(c.tx, key+"/", func(row string) error { rows = append(rows, row); return nil })
	for _, row := range rows {
		err = errors.Join(err, reportRows.Delete(c.tx, row))
	}
	c.reported = append(c.reported, key)
	c.e.parsed.put(key, &inventory.Facts{})
	return err
}

// inventoryHost joins a host and its facts for the rules.
func (c *change) inventoryHost(h *hostRecord) (*inventory.Host, error) {
	facts, err := c.hostFacts(hostKey(h))
	if err != nil {
		return nil, err
	}
	return inventory.NewHost(&h.API, facts), nil
}
