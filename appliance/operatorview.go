package appliance

import (
	"context"

	"landfall/appliance/engine"
	"landfall/web/api"
)

// operatorView is what the console asks of the engine about operators, with errors as clients are
// told them.
type operatorView struct{ *engine.Engine }

// OperatorSupplies is that of the engine.
func (v operatorView) OperatorSupplies(clusterID string) ([]engine.OperatorSupply, error) {
	list, err := v.Engine.OperatorSupplies(clusterID)
	return list, api.Problem(err)
}

// OperatorImageSet is that of the engine.
func (v operatorView) OperatorImageSet(clusterID string) ([]byte, error) {
	text, err := v.Engine.OperatorImageSet(clusterID)
	return text, api.Problem(err)
}

// CheckOperators is that of the engine.
func (v operatorView) CheckOperators(ctx context.Context, clusterID string) ([]engine.OperatorCheck, error) {
	list, err := v.Engine.CheckOperators(ctx, clusterID)
	return list, api.Problem(err)
}
