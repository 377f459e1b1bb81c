package scenario

import (
	"errors"
	"fmt"
	"slices"

	"landfall/appliance/fault"
	"landfall/appliance/hosted/arm"
	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/maestro"
	"landfall/appliance/hosted/provider"
	"landfall/appliance/hosted/record"
	"landfall/store"
)

// caller is who asks for hosted clusters.
var caller = provider.Caller{Name: "people", Version: arm.DefaultVersion}

func (h *hosted) id(name string) (arm.ID, error) {
	seeded, err := h.provider.Seeded()
	if err != nil {
		return arm.ID{}, err
	}
	return arm.ID{Subscription: seeded.ID, Group: "site", Cluster: name}, nil
}

// wanted returns the names of the hosted clusters that are not being deleted.
func (h *hosted) wanted() (names []string) {
	if !h.up() {
		return nil
	}
	h.site.fail(h.db.View(func(tx *store.Tx) error {
		return record.EachCluster(tx, "", "", func(c *record.Cluster) error {
			if c.State != record.Deleting {
				names = append(names, c.ID.Cluster)
			}
			return nil
		})
	}))
	slices.Sort(names)
	return names
}

// one returns a name, or that of any hosted cluster if it is "".
func (h *hosted) one(name string) string {
	names := h.wanted()
	switch {
	case name != "" || len(names) == 0:
		return name
	default:
		return names[h.site.rng.IntN(len(names))]
	}
}

// ask sends a request about a hosted cluster. A request that is refused, because another one runs,
// is counted.
func (h *hosted) ask(what, name string, request func(arm.ID) error) {
	if name == "" || !h.up() {
		return
	}
	id, err := h.id(name)
	if err == nil {
		err = request(id)
	}
	var refused *arm.Error
	if errors.As(err, &refused) || fault.KindOf(err) != 0 {
		h.site.stats.count("refused requests about hosted clusters")
		return
	}
	if h.site.fail(err); err == nil {
		h.site.stats.count(what)
	}
	h.exchange(false)
	h.site.after(workTime, func() { h.exchange(true) })
}

// create creates a hosted cluster with a node pool.
func (h *hosted) create(name string) {
	if name == "" {
		h.created++
		name = fmt.Sprintf("h%d", h.created)
	}
	h.ask("hosted clusters that were created", name, func(id arm.ID) error {
		pool := arm.Document{"location": "site"}
		pool.Set("properties.platform.vmSize", "large")
		pool.Set("properties.replicas", int64(2))
		_, err := h.provider.CreateCluster(h.site.ctx, caller, id, arm.Document{"location": "site"},
			[]provider.NewNodePool{{Name: "workers", Body: pool}})
		if err != nil {
			return err
		}
		return h.db.View(func(tx *store.Tx) error {
			c, err := record.FindCluster(tx, id)
			if err == nil && c != nil {
				h.names[c.CID] = name
			}
			return err
		})
	})
}

// scale changes the number of nodes of a hosted cluster; 0: a random one.
func (h *hosted) scale(name string, nodes int) {
	if nodes == 0 {
		nodes = 1 + h.site.rng.IntN(5)
	}
	h.ask("hosted clusters that were scaled", h.one(name), func(id arm.ID) error {
		id.Child, id.ChildType = "workers", arm.NodePools
		body := arm.Document{}
		body.Set("properties.replicas", int64(nodes))
		_, err := h.provider.PatchNodePool(h.site.ctx, caller, id, body)
		return err
	})
}

// remove deletes a hosted cluster.
func (h *hosted) remove(name string) {
	if name = h.one(name); name != "" && h.up() {
		h.asked[name] = true
	}
	h.ask("hosted clusters that were deleted", name, func(id arm.ID) error {
		_, err := h.provider.DeleteCluster(h.site.ctx, caller, id)
		return err
	})
}

// decide lets a person decide about all that is held.
func (h *hosted) decide() {
	if !h.up() {
		return
	}
	for _, m := range h.clusters {
		for range 100 {
			decided, err := h.decideOne(m)
			if h.site.fail(err); err != nil {
				return
			}
			if !decided {
				break
			}
			h.exchange(false)
		}
	}
}

// decideOne decides about a finding of a management cluster, or ends its hold. It reports whether
// there was one.
func (h *hosted) decideOne(m *managementCluster) (bool, error) {
	var hold *maestro.Hold
	var open *maestro.Finding
	if err := h.db.View(func(tx *store.Tx) (err error) {
		if hold, err = maestro.GetHold(tx, m.name); err != nil || hold == nil {
			return err
		}
		return maestro.EachFinding(tx, m.name, func(f *maestro.Finding) error {
			if f.Decision == "" {
				open = f
				return store.ErrStop
			}
			return nil
		})
	}); err != nil || hold == nil {
		return false, err
	}
	s := h.site
	if open == nil {
		if hold.Cause == maestro.HoldCopied && m.steps == nil {
			return false, nil // its agent can confirm the rows when it is connected
		}
		s.stats.count("holds that people ended")
		return true, h.maestro.Release(s.ctx, m.name, "people")
	}
	decision := maestro.Adopt
	name := h.names[open.Labels[bundle.LabelCluster]]
	if open.Kind == maestro.Unknown && name != "" && s.rng.IntN(4) == 0 {
		decision = maestro.DeleteThere
	}
	err := h.maestro.Decide(s.ctx, m.name, open.ID, decision, open.ID, "people")
	if err == nil && decision == maestro.DeleteThere {
		h.asked[name] = true
	}
	if fault.KindOf(err) == fault.Conflict { // its objects have not been reported yet
		decision = maestro.Ignore
		err = h.maestro.Decide(s.ctx, m.name, open.ID, decision, "", "people")
	}
	s.stats.count("decisions: " + string(decision))
	return true, err
}
