package console

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/engine/catalog"
	"landfall/appliance/engine/support"
	"landfall/web/operation"
	"landfall/web/problem"
)

// Operators reports which operators clusters can have, and which images the mirror needs for them.
type Operators interface {
	// OperatorAvailability returns the mirror content that each operator of a cluster needs.
	OperatorAvailability(clusterID string) ([]catalog.Availability, error)
	// OperatorAvailabilityFor returns the mirror content that each operator of an OpenShift version
	// needs.
	OperatorAvailabilityFor(version string) []catalog.Availability
	// OperatorImageSet returns the configuration of oc-mirror (YAML) for the operators of a
	// cluster.
	OperatorImageSet(clusterID string) ([]byte, error)
	// CheckOperators reads the catalogs of a cluster's operators and checks that the mirror has
	// every image of these operators.
	CheckOperators(ctx context.Context, clusterID string) ([]catalog.CheckResult, error)
}

type operators struct{ Operators }

// OperatorOperations returns the operations on operators.
func OperatorOperations(source Operators) []operation.Operation {
	o := operators{source}
	return []operation.Operation{
		{ID: "listOperatorAvailability", Method: http.MethodGet, Path: BasePath + "/operators",
			Access: operation.For(access.Viewer).OfAll(), Handler: o.listForVersion,
			Summary:    "List the mirror content that the operators of an OpenShift version need",
			Parameters: []operation.Parameter{{Name: "openshift_version", Required: true}},
			Status:     http.StatusOK, Answer: []catalog.Availability{}, Errors: []int{400}},
		{ID: "listClusterOperatorAvailability", Method: http.MethodGet, Path: clusterPath + "/operators",
			Access: operation.For(access.Viewer), Handler: o.listForCluster,
			Summary: "List the mirror content that the operators of a cluster need",
			Status:  http.StatusOK, Answer: []catalog.Availability{}, Errors: []int{404}},
		{ID: "checkClusterOperators", Method: http.MethodPost, Path: clusterPath + "/operators/check",
			Access: operation.For(access.Operator), Handler: o.check,
			Summary: "Check that the mirror has the images of a cluster's operators",
			Status:  http.StatusOK, Answer: []catalog.CheckResult{}, Errors: []int{404}},
		{ID: "getClusterOperatorImageSet", Method: http.MethodGet,
			Path:   clusterPath + "/operators/imageset-config.yaml",
			Access: operation.For(access.Viewer), Handler: o.imageSet,
			Summary: "Download the oc-mirror configuration for a cluster's operators",
			Status:  http.StatusOK, Answer: operation.File{}, Errors: []int{404}},
	}
}

func (o operators) listForVersion(c echo.Context) error {
	version := c.QueryParam("openshift_version")
	if err := support.CheckVersion(version); err != nil {
		return problem.BadRequest("the parameter openshift_version: %s", err)
	}
	return answer(c, o.OperatorAvailabilityFor(version), nil)
}

func (o operators) listForCluster(c echo.Context) error {
	list, err := o.OperatorAvailability(c.Param("cluster_id"))
	return answer(c, list, err)
}

func (o operators) check(c echo.Context) error {
	list, err := o.CheckOperators(c.Request().Context(), c.Param("cluster_id"))
	return answer(c, list, err)
}

func (o operators) imageSet(c echo.Context) error {
	text, err := o.OperatorImageSet(c.Param("cluster_id"))
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	return c.Blob(http.StatusOK, "application/yaml", text)
}
