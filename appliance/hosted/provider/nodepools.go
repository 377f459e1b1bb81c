package provider

import (
	"context"
	"errors"
	"slices"
	"strings"

	"landfall/appliance/hosted/arm"
	"landfall/appliance/hosted/record"
	"landfall/store"
)

// withCluster runs a change of a child resource with its cluster, which must permit it.
func (s *Service) withCluster(ctx context.Context, caller Caller, id arm.ID, writes bool,
	fn func(*change, *record.Cluster) error) error {
	return s.update(ctx, id, caller, writes, func(ch *change) error {
		c, err := ch.parent(id, writes)
		if err != nil {
			return err
		}
		return fn(ch, c)
	})
}

// parent returns the cluster of a child resource, which must permit the change.
func (ch *change) parent(id arm.ID, writes bool) (*record.Cluster, error) {
	c, err := record.FindCluster(ch.tx, id)
	switch {
	case err != nil:
		return nil, err
	case c == nil:
		return nil, notFound(id.Parent())
	case c.State == record.Deleting, writes && c.State == record.Provisioning:
		return nil, conflict("The cluster %s is in the state %s; wait until its operation has ended.", c.ID.Cluster,
			c.State)
	}
	return c, nil
}

// PutNodePool creates or replaces a node pool.
func (s *Service) PutNodePool(ctx context.Context, caller Caller, id arm.ID, body arm.Document) (*Result, error) {
	var result *Result
	err := s.update(ctx, id, caller, true, func(ch *change) (err error) {
		result, err = ch.putNodePool(id, body)
		return err
	})
	return result, err
}

func (ch *change) putNodePool(id arm.ID, body arm.Document) (*Result, error) {
	return ch.changeNodePool(id, true, func(p *record.NodePool, shown arm.Document) (arm.Document, error) {
		if p == nil {
			return arm.NodePool.Create(body, shown)
		}
		return arm.NodePool.Replace(p.Document, body, shown)
	})
}

// PatchNodePool changes fields of a node pool.
func (s *Service) PatchNodePool(ctx context.Context, caller Caller, id arm.ID, body arm.Document) (*Result, error) {
	var result *Result
	err := s.update(ctx, id, caller, true, func(ch *change) (err error) {
		result, err = ch.changeNodePool(id, false, func(p *record.NodePool, shown arm.Document) (arm.Document, error) {
			return arm.NodePool.Patch(p.Document, withoutOtherScaling(body), shown)
		})
		return err
	})
	return result, err
}

// withoutOtherScaling returns a patch that also removes replicas if it sets autoScaling, and the
// other way round.
func withoutOtherScaling(patch arm.Document) arm.Document {
	const replicas, scaling = "properties.replicas", "properties.autoScaling"
	properties, _ := patch["properties"].(map[string]any)
	_, setsReplicas := properties["replicas"]
	_, setsScaling := properties["autoScaling"]
	patch = patch.Clone()
	if setsReplicas && !setsScaling {
		patch.Set(scaling, nil)
	}
	if setsScaling && !setsReplicas && properties["autoScaling"] != nil {
		patch.Set(replicas, nil)
	}
	return patch
}

func (ch *change) changeNodePool(id arm.ID, creates bool,
	alter func(*record.NodePool, arm.Document) (arm.Document, error)) (*Result, error) {
	c, err := ch.parent(id, true)
	if err != nil {
		return nil, err
	}
	p, err := record.GetNodePool(ch.tx, c.CID, id.Child)
	if err != nil {
		return nil, err
	}
	created, kind, shown := p == nil, record.Update, identification(id)
	switch {
	case created && !creates:
		return nil, notFound(id)
	case !created && p.State == record.Deleting:
		return nil, conflict("The node pool %s is in the state %s; wait until its operation has ended.", p.ID.Child,
			p.State)
	case !created:
		shown = showing(&p.Resource)
	}
	document, err := alter(p, shown)
	if err != nil {
		return nil, err
	}
	if created {
		kind = record.Create
		p = &record.NodePool{Resource: record.Resource{ID: id}, CID: c.CID}
		p.ID.ChildType = arm.NodePools
	}
	if err := ch.checkNodePool(c, p, document); err != nil {
		return nil, err
	}
	// A node pool without enough hosts would otherwise never accept a smaller number of nodes.
	if err := ch.end(&p.Resource, record.Canceled, arm.Errorf(0, arm.CodeCanceled,
		"The operation was superseded by a newer change.")); err != nil {
		return nil, err
	}
	p.Document, p.State, p.Reason = document, record.Accepted, ""
	ch.stamp(&p.Resource, created)
	operation, err := ch.begin(&p.Resource, kind)
	if err != nil {
		return nil, err
	}
	if err := record.PutNodePool(ch.tx, p); err != nil {
		return nil, err
	}
	if err := ch.settle(c); err != nil {
		return nil, err
	}
	if p, err = record.GetNodePool(ch.tx, c.CID, id.Child); err != nil || p == nil {
		return nil, err
	}
	return &Result{showing(&p.Resource), operation, created}, nil
}

// checkNodePool checks what the document of a node pool refers to, and sets its release. A new node
// pool without a version has that of its cluster.
func (ch *change) checkNodePool(c *record.Cluster, p *record.NodePool, document arm.Document) (err error) {
	if document.Text("properties.version.id") == "" && p.Release.Version == "" {
		document.Set("properties.version.id", minorOf(c.Release.Version))
		if p.Release = c.Release; p.Release.Image == "" {
			return conflict("The release of the cluster %s is not known.", c.ID.Cluster)
		}
	} else if p.Release, err = ch.s.release(document, p.Release); err != nil {
		return err
	}
	if compareVersions(p.Release.Version, c.Release.Version) > 0 {
		return arm.Fieldf("properties.version.id", "The version %s is newer than that of the cluster, %s; update the "+
			"cluster first.", p.Release.Version, c.Release.Version)
	}
	m, err := record.GetManagement(ch.tx, c.Consumer)
	if err != nil || m == nil {
		return err
	}
	return checkProfile(document, m)
}

// checkProfile returns an error if a management cluster has no hosts for a node pool.
func checkProfile(document arm.Document, m *record.Management) error {
	profile := document.Text("properties.platform.vmSize")
	if len(m.Profiles) > 0 && !slices.Contains(m.Profiles, profile) {
		return arm.Fieldf("properties.platform.vmSize", "The management cluster %s has no hosts with the hardware "+
			"profile %q; its profiles are %s.", m.Consumer, profile, strings.Join(m.Profiles, ", "))
	}
	return nil
}

// DeleteNodePool deletes a node pool. The result is nil if the node pool does not exist.
func (s *Service) DeleteNodePool(ctx context.Context, caller Caller, id arm.ID) (*Result, error) {
	var result *Result
	err := s.withCluster(ctx, caller, id, false, func(ch *change, c *record.Cluster) error {
		p, err := record.GetNodePool(ch.tx, c.CID, id.Child)
		if err != nil || p == nil {
			return err
		}
		if p.State == record.Deleting {
			return conflict("The node pool %s is already being deleted.", p.ID.Child)
		}
		operation, err := ch.beginDeletion(&p.Resource, false)
		if err != nil {
			return err
		}
		result = &Result{showing(&p.Resource), operation, false}
		if err := record.PutNodePool(ch.tx, p); err != nil {
			return err
		}
		return ch.settle(c)
	})
	return withoutParent(result, err)
}

// withoutParent returns no error for a deletion in a cluster that does not exist.
func withoutParent(result *Result, err error) (*Result, error) {
	if e, ok := errors.AsType[*arm.Error](err); ok && e.Code == arm.CodeResourceNotFound {
		return nil, nil
	}
	return result, err
}

// ShowChild returns a node pool or an external auth as clients see it.
func (s *Service) ShowChild(id arm.ID) (shown arm.Document, err error) {
	err = s.view(id, func(tx *store.Tx) error {
		c, err := record.FindCluster(tx, id)
		if err != nil {
			return err
		}
		if c != nil {
			if shown, err = s.showResource(tx, c, id); err != nil {
				return err
			}
		}
		if shown == nil {
			return notFound(id)
		}
		return nil
	})
	return shown, err
}

// ListChildren returns the node pools or the external auths of a cluster, at most limit of them
// with names in lower case that are greater than after.
func (s *Service) ListChildren(id arm.ID, after string, limit int) (shown []arm.Document, next string, err error) {
	shown = []arm.Document{}
	err = s.view(id.Parent(), func(tx *store.Tx) error {
		c, err := record.FindCluster(tx, id)
		if err != nil {
			return err
		}
		if c == nil {
			return notFound(id.Parent())
		}
		var all []*record.Resource
		if arm.IsNodePoolType(id.ChildType) {
			pools, err := record.NodePools(tx, c.CID)
			if err != nil {
				return err
			}
			for _, p := range pools {
				all = append(all, &p.Resource)
			}
		} else {
			auths, err := record.ExternalAuths(tx, c.CID)
			if err != nil {
				return err
			}
			for _, a := range auths {
				all = append(all, &a.Resource)
			}
		}
		last := ""
		for _, resource := range all {
			name := strings.ToLower(resource.ID.Child)
			if name <= after {
				continue
			}
			if len(shown) == limit {
				next = last
				return nil
			}
			last = name
			shown = append(shown, showing(resource))
		}
		return nil
	})
	return shown, next, err
}
