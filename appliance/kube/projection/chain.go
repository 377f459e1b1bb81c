package projection

import (
	"landfall/appliance/engine"
	"landfall/store"
)

// Chain is several projectors as one. Each sees what the projectors before it have written.
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
