// Package projection writes Kubernetes objects in the transactions of the engine. It chains the
// projectors of clusters and hosts, translates engine events into Kubernetes Events, and records
// changes that are made while the Kubernetes API is disabled.
//
// Design: docs/design.md#the-kubernetes-api-in-the-process.
package projection

import (
	"landfall/appliance/engine"
	"landfall/store"
)

// Chain runs several projectors in order. Each reads the writes of the projectors before it.
type Chain []engine.Projector

// Project implements engine.Projector.
func (c Chain) Project(tx *store.Tx, touched engine.Touched) error {
	for _, each := range c {
		if err := each.Project(tx, touched); err != nil {
			return err
		}
	}
	return nil
}
