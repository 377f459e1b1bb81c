package provider

import (
	"context"
	"errors"
	"strings"

	"landfall/appliance/hosted/arm"
	"landfall/store"
)

// PreflightResource is a resource of a deployment that has not started.
type PreflightResource struct {
	ID   arm.ID
	Body arm.Document
}

// Preflight returns the errors that the creation of resources would have, in their order. It makes
// all of them in a transaction that is rolled back, so a node pool may belong to a cluster of the
// same deployment.
func (s *Service) Preflight(ctx context.Context, subscription string, resources []PreflightResource) ([]*arm.Error,
	error) {
	var failures []*arm.Error
	err := s.DB.Update(store.DryRun(ctx), func(tx *store.Tx) error {
		if _, err := checkSubscription(tx, subscription, true); err != nil {
			return err
		}
		for _, resource := range resources {
			err := resource.ID.Check()
			if err == nil {
				err = s.try(tx, resource)
			}
			failure := new(arm.Error)
			switch {
			case err == nil:
			case errors.As(err, &failure):
				failures = append(failures, failure)
			default:
				return err
			}
		}
		return nil
	})
	if errors.Is(err, store.ErrDryRun) {
		err = nil
	}
	return failures, err
}

// try makes a resource in a transaction.
func (s *Service) try(tx *store.Tx, resource PreflightResource) error {
	ch := &change{s: s, tx: tx, now: s.now()}
	if resource.ID.Child == "" {
		_, err := ch.putCluster(resource.ID, resource.Body)
		return err
	}
	if !strings.EqualFold(resource.ID.ChildType, arm.NodePools) {
		_, err := arm.ExternalAuth.Create(resource.Body, identification(resource.ID))
		return err
	}
	_, err := ch.putNodePool(resource.ID, resource.Body)
	return err
}
