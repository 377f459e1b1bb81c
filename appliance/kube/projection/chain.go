// Package projection decides when changes of the engine are written to Kubernetes objects: in the
// engine's transaction, before the next request for objects, or when the Kubernetes API is enabled
// again. It chains the projectors of clusters and hosts, and translates engine events into
// Kubernetes Events.
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
