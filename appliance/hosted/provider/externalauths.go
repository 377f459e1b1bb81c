package provider

import (
	"context"

	"landfall/appliance/hosted/arm"
	"landfall/appliance/hosted/record"
)

// PutExternalAuth creates or replaces an external auth. The HostedCluster gets it with its next
// version.
func (s *Service) PutExternalAuth(ctx context.Context, caller Caller, id arm.ID, body arm.Document) (*Result, error) {
	return s.changeExternalAuth(ctx, caller, id, body, false)
}

// PatchExternalAuth changes fields of an external auth.
func (s *Service) PatchExternalAuth(ctx context.Context, caller Caller, id arm.ID, body arm.Document) (*Result,
	error) {
	return s.changeExternalAuth(ctx, caller, id, body, true)
}

func (s *Service) changeExternalAuth(ctx context.Context, caller Caller, id arm.ID, body arm.Document, patch bool) (
	*Result, error) {
	var result *Result
	err := s.withCluster(ctx, caller, id, true, func(ch *change, c *record.Cluster) error {
		a, err := record.GetExternalAuth(ch.tx, c.CID, id.Child)
		if err != nil {
			return err
		}
		created, kind := a == nil, record.Update
		var document arm.Document
		switch {
		case created && patch:
			return notFound(id)
		case created:
			if err := ch.checkOnlyAuth(c); err != nil {
				return err
			}
			kind = record.Create
			a = &record.ExternalAuth{Resource: record.Resource{ID: id}, CID: c.CID}
			a.ID.ChildType = arm.ExternalAuths
			document, err = arm.ExternalAuth.Create(body, identification(id))
		case !record.IsTerminal(a.State):
			return conflict("The external auth %s is in the state %s; wait until its operation has ended.", a.ID.Child,
				a.State)
		case patch:
			document, err = arm.ExternalAuth.Patch(a.Document, body, showing(&a.Resource))
		default:
			document, err = arm.ExternalAuth.Replace(a.Document, body, showing(&a.Resource))
		}
		if err != nil {
			return err
		}
		a.Document, a.State, a.Reason = document, record.Accepted, ""
		ch.stamp(&a.Resource, created)
		operation, err := ch.begin(&a.Resource, kind)
		if err != nil {
			return err
		}
		result = &Result{showing(&a.Resource), operation, created}
		if err := record.PutExternalAuth(ch.tx, a); err != nil {
			return err
		}
		return ch.settle(c)
	})
	return result, err
}

// checkOnlyAuth returns an error if a cluster has an external auth. OpenShift accepts one provider,
// and would refuse each further change of the HostedCluster.
func (ch *change) checkOnlyAuth(c *record.Cluster) error {
	all, err := record.ExternalAuths(ch.tx, c.CID)
	if err != nil {
		return err
	}
	for _, other := range all {
		if other.State != record.Deleting {
			return conflict("The cluster %s already has the external auth %s, and can have one only; change or delete "+
				"that one.", c.ID.Cluster, other.ID.Child)
		}
	}
	return nil
}

// DeleteExternalAuth deletes an external auth. The result is nil if it does not exist.
func (s *Service) DeleteExternalAuth(ctx context.Context, caller Caller, id arm.ID) (*Result, error) {
	var result *Result
	err := s.withCluster(ctx, caller, id, false, func(ch *change, c *record.Cluster) error {
		a, err := record.GetExternalAuth(ch.tx, c.CID, id.Child)
		if err != nil || a == nil {
			return err
		}
		if a.State == record.Deleting {
			return conflict("The external auth %s is already being deleted.", a.ID.Child)
		}
		operation, err := ch.beginDeletion(&a.Resource, false)
		if err != nil {
			return err
		}
		result = &Result{showing(&a.Resource), operation, false}
		if err := record.PutExternalAuth(ch.tx, a); err != nil {
			return err
		}
		return ch.settle(c)
	})
	return withoutParent(result, err)
}
