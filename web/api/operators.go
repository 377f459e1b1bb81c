package api

import (
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/access"
	"landfall/appliance/engine/operator"
	"landfall/appliance/engine/support"
	"landfall/web/operation"
	"landfall/web/problem"
)

// operatorOperations returns the operations on operators and their bundles.
func (s *Service) operatorOperations() []operation.Operation {
	return []operation.Operation{
		{ID: "V2ListBundles", Method: http.MethodGet, Path: "/v2/operators/bundles",
			Access: operation.For(access.Viewer).OfAll(), Handler: s.bundles, FromCopy: true,
			Summary: "List the operator bundles",
			Parameters: []operation.Parameter{
				{Name: "openshift_version"},
				{Name: "cpu_architecture", Values: []string{"x86_64", "aarch64", "arm64", "ppc64le", "s390x", "multi"}},
				{Name: "platform_type", Values: []string{"baremetal", "none", "nutanix", "vsphere", "external"}},
				{Name: "external_platform_name"},
				{Name: "feature_ids", Type: operation.TextList},
			},
			Status: 200, Answer: []support.Bundle{}, Errors: []int{400, 500}},
		{ID: "V2GetBundle", Method: http.MethodGet, Path: "/v2/operators/bundles/:id",
			Access: operation.For(access.Viewer).OfAll(), Handler: s.bundle, FromCopy: true,
			Summary: "Show an operator bundle",
			Parameters: []operation.Parameter{
				{Name: "feature_ids", Type: operation.TextList},
			},
			Status: 200, Answer: support.Bundle{}, Errors: []int{400, 404, 500}},
		{ID: "V2ListSupportedOperators", Method: http.MethodGet, Path: "/v2/supported-operators",
			Access: operation.For(access.Viewer).OfAll(), Handler: s.supportedOperators, FromCopy: true,
			Summary: "List the supported operators",
			Status:  200, Answer: []string{}, Errors: []int{401, 403, 500}},
		{ID: "V2ListOperatorProperties", Method: http.MethodGet, Path: "/v2/supported-operators/:operator_name",
			Access: operation.For(access.Viewer).OfAll(), Handler: s.operatorProperties, FromCopy: true,
			Summary: "List the properties of an operator",
			Status:  200, Answer: models.OperatorProperties{}, Errors: []int{401, 403, 404, 500}},
	}
}

// supportedOperators returns the names of the supported operators.
func (s *Service) supportedOperators(c echo.Context) error {
	return c.JSON(http.StatusOK, support.Operators())
}

// operatorProperties returns an empty list, because no operator has properties.
func (s *Service) operatorProperties(c echo.Context) error {
	name := c.Param("operator_name")
	if !support.IsOperator(name) {
		return problem.NotFound("there is no operator %q", name)
	}
	return c.JSON(http.StatusOK, models.OperatorProperties{})
}

func featureIDs(c echo.Context) []models.FeatureSupportLevelID {
	var ids []models.FeatureSupportLevelID
	for _, id := range list(c, "feature_ids") {
		ids = append(ids, models.FeatureSupportLevelID(id))
	}
	return ids
}

// bundles returns the bundles whose operators are all supported.
func (s *Service) bundles(c echo.Context) error {
	var query *support.Query
	if c.QueryParam("openshift_version") != "" {
		q, err := supportQuery(c)
		if err != nil {
			return err
		}
		if err := q.Check(); err != nil {
			return problem.BadRequest("%s", err)
		}
		query = &q
	}
	return c.JSON(http.StatusOK, support.Bundles(query, featureIDs(c)))
}

func (s *Service) bundle(c echo.Context) error {
	bundle, ok := support.BundleByID(c.Param("id"), featureIDs(c))
	if !ok {
		return problem.NotFound("there is no bundle %q", c.Param("id"))
	}
	return c.JSON(http.StatusOK, bundle)
}

// withBundles adds the operators of the selected bundles to the individually selected operators.
// Without bundles it returns chosen unchanged; nil means that the request names no operators.
func withBundles(chosen []*models.OperatorCreateParams, bundles []*BundleCreateParams,
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
