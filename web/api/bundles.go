package api

import (
	"slices"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/operator"
	"landfall/web/api/description"
	"landfall/web/problem"
)

// withBundles adds the operators of the chosen bundles to those that were chosen one by one.
// Without any bundles the operators stay as they are, nil for none that were named.
func withBundles(chosen []*models.OperatorCreateParams, bundles []*description.BundleCreateParams,
	singleNode bool) ([]*models.OperatorCreateParams, error) {
	if bundles == nil {
		return chosen, nil
	}
	all := append([]*models.OperatorCreateParams{}, chosen...)
	known := operator.Bundles(singleNode)
	for _, wanted := range bundles {
		at := slices.IndexFunc(known, func(b operator.Bundle) bool { return b.ID == wanted.ID })
		if at < 0 {
			return nil, problem.BadRequest("there is no bundle %q", wanted.ID)
		}
		for _, name := range wanted.OptionalOperators {
			if !slices.Contains(known[at].Optional, name) {
				return nil, problem.BadRequest("the bundle %s has no optional operator %q", wanted.ID, name)
			}
		}
		for _, name := range slices.Concat(known[at].Operators, wanted.OptionalOperators) {
			if !slices.ContainsFunc(all, func(o *models.OperatorCreateParams) bool { return o.Name == name }) {
				all = append(all, &models.OperatorCreateParams{Name: name})
			}
		}
	}
	return all, nil
}
