package appliance

import (
	"context"

	"landfall/appliance/engine"
	"landfall/appliance/engine/catalog"
	"landfall/web/api"
)

// operatorView is what the console asks of the engine about operators, with errors as clients are
// told them.
type operatorView struct{ *engine.Engine }

// OperatorAvailability is that of the engine.
func (v operatorView) OperatorAvailability(clusterID string) ([]catalog.Availability, error) {
	list, err := v.Engine.OperatorAvailability(clusterID)
	return list, api.Problem(err)
}

// OperatorImageSet is that of the engine.
func (v operatorView) OperatorImageSet(clusterID string) ([]byte, error) {
	text, err := v.Engine.OperatorImageSet(clusterID)
	return text, api.Problem(err)
}

// CheckOperators is that of the engine.
func (v operatorView) CheckOperators(ctx context.Context, clusterID string) ([]catalog.CheckResult, error) {
	list, err := v.Engine.CheckOperators(ctx, clusterID)
	return list, api.Problem(err)
}
