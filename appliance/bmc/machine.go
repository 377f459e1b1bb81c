package bmc

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"

	"landfall/appliance/fault"
	"landfall/store"
)

// machine identifies the machine of a server. Two servers with the same machine would change its
// power and media against each other.
type machine struct {
	host string // host and port of the BMC; without the port if it is the scheme's default
	path string // path of the system; "" if the BMC has only one system
	mac  string // boot MAC address; may be ""
}

// machine returns the machine of a server.
func (d Desired) machine() machine {
	found := machine{mac: d.BootMAC}
	address, err := ParseAddress(d.Address)
	if err != nil {
		return found
	}
	found.path = address.System
	if parsed, err := url.Parse(address.URL); err == nil {
		found.host = strings.ToLower(parsed.Host)
		if parsed.Scheme == "https" && parsed.Port() == "443" || parsed.Scheme == "http" && parsed.Port() == "80" {
			found.host = strings.TrimSuffix(found.host, ":"+parsed.Port())
		}
	}
	return found
}

// shared returns the property by which two servers have the same machine, or "". An address without
// the path of a system means any system of its BMC.
func (m machine) shared(other machine) string {
	switch {
	case m.mac != "" && m.mac == other.mac:
		return "the boot MAC address " + m.mac
	case m.host == "" || m.host != other.host:
		return ""
	case m.path == other.path:
		return "the BMC address " + m.host + m.path
	case m.path == "" || other.path == "":
		return "the BMC address " + m.host + ", and only one of the two addresses has the path of a system"
	}
	return ""
}

// machines holds the machine of each server. It may also hold machines of changes that were not
// committed, so that its users compare the stored rows.
type machines struct {
	mu sync.Mutex
	of map[string]machine // by the server's id; nil until it is loaded
}

// set sets the machine of a server.
func (x *machines) set(id string, m machine) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.of != nil {
		x.of[id] = m
	}
}

// add sets the machine of a server that has none yet: its row was damaged when all machines were
// loaded.
func (x *machines) add(id string, m machine) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, known := x.of[id]; !known && x.of != nil {
		x.of[id] = m
	}
}

// candidates returns the ids of the servers that may have a machine. It loads all machines once.
func (x *machines) candidates(tx *store.Tx, m machine) ([]string, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.of == nil {
		of := map[string]machine{}
		if err := serverRows.Each(tx, "", func(id string, r *row) error {
			of[id] = r.machine()
			return nil
		}); err != nil {
			return nil, fmt.Errorf("read the addresses of the servers: %w", err)
		}
		x.of = of
	}
	var ids []string
	for id, other := range x.of {
		if other.shared(m) != "" {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// sharing returns the other servers that have the machine of the server with this id.
func (m *Manager) sharing(tx *store.Tx, id string, wanted machine) ([]*row, error) {
	ids, err := m.machines.candidates(tx, wanted)
	if err != nil {
		return nil, err
	}
	var found []*row
	for _, other := range ids {
		if other == id {
			continue
		}
		r, err := serverRows.Get(tx, other)
		if errors.Is(err, store.ErrNotFound) || store.IsDamaged(err) {
			continue // deleted, never committed, or damaged
		}
		if err != nil {
			return nil, err
		}
		if r.machine().shared(wanted) != "" {
			found = append(found, r)
		}
	}
	return found, nil
}

// checkMachine returns a *DuplicateError if another server has the machine. A server that is being
// removed does not count; the new server waits until it is gone.
func (m *Manager) checkMachine(tx *store.Tx, id string, desired Desired) error {
	wanted := desired.machine()
	others, err := m.sharing(tx, id, wanted)
	if err != nil {
		return err
	}
	for _, other := range others {
		if other.State != Deleting {
			return &DuplicateError{Name: desired.Name, Other: other.Name, Shared: wanted.shared(other.machine())}
		}
	}
	return nil
}

// controller returns the server that controls the machine of r: r itself, or another server with
// the same machine.
func (m *Manager) controller(tx *store.Tx, r *row) (*row, error) {
	others, err := m.sharing(tx, r.ID, r.machine())
	if err != nil {
		return nil, err
	}
	first := r
	for _, other := range others {
		if other.precedes(first) {
			first = other
		}
	}
	return first, nil
}

// precedes reports whether r controls a machine rather than o: the server that was booted last,
// which has to eject the image, otherwise the older one.
func (r *row) precedes(o *row) bool {
	if booted, other := r.Operations.Provision.Start, o.Operations.Provision.Start; !booted.Equal(other) {
		return booted.After(other)
	}
	if !r.Created.Equal(o.Created) {
		return r.Created.Before(o.Created)
	}
	return r.ID < o.ID
}

// Check returns the error of adding a server with this desired state, without adding it.
func (m *Manager) Check(desired Desired) error {
	desired, err := desired.validated()
	if err != nil {
		return err
	}
	return m.options.DB.View(func(tx *store.Tx) error {
		if err := checkName(tx, desired.Name, ""); err != nil {
			return err
		}
		return m.checkMachine(tx, "", desired)
	})
}

// DuplicateError reports that another server already has the machine of a server.
type DuplicateError struct {
	Name, Other string // names of the servers
	Shared      string // the property that both have
}

// Error implements error.
func (e *DuplicateError) Error() string {
	return fmt.Sprintf("The server %s would be the same machine as the server %s: both have %s. Correct the address, "+
		"or remove %s first.", e.Name, e.Other, e.Shared, e.Other)
}

// FaultKind implements fault.Classified.
func (*DuplicateError) FaultKind() fault.Kind { return fault.Conflict }
