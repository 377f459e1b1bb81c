package console

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"landfall/appliance/engine/catalog"
	"landfall/appliance/engine/support"
	"landfall/web/problem"
)

// Operators is what the console asks about the operators that clusters can be installed with; its
// errors are fit for problem.From.
type Operators interface {
	// OperatorAvailability reports what each operator that a cluster could have needs from the
	// mirror.
	OperatorAvailability(clusterID string) ([]catalog.Availability, error)
	// OperatorAvailabilityFor reports the same for an OpenShift version.
	OperatorAvailabilityFor(version string) []catalog.Availability
	// OperatorImageSet is what oc-mirror is to be given for the operators of a cluster, as YAML.
	OperatorImageSet(clusterID string) ([]byte, error)
	// CheckOperators reads the catalogs of a cluster's operators and asks the mirror for every
	// image that they need.
	CheckOperators(ctx context.Context, clusterID string) ([]catalog.CheckResult, error)
}

type operatorSupplies struct{ Operators }

func (s operatorSupplies) register(router *echo.Echo) {
	router.GET(BasePath+"/operators", func(c echo.Context) error {
		version := c.QueryParam("openshift_version")
		if err := support.CheckVersion(version); err != nil {
			return problem.BadRequest("the parameter openshift_version: %s", err)
		}
		return answer(c, s.OperatorAvailabilityFor(version))
	})
	router.GET(BasePath+"/clusters/:cluster_id/operators", func(c echo.Context) error {
		list, err := s.OperatorAvailability(c.Param("cluster_id"))
		if err != nil {
			return problem.From(err)
		}
		return answer(c, list)
	})
	router.POST(BasePath+"/clusters/:cluster_id/operators/check", func(c echo.Context) error {
		list, err := s.CheckOperators(c.Request().Context(), c.Param("cluster_id"))
		if err != nil {
			return problem.From(err)
		}
		return answer(c, list)
	})
	router.GET(BasePath+"/clusters/:cluster_id/operators/imageset-config.yaml", func(c echo.Context) error {
		text, err := s.OperatorImageSet(c.Param("cluster_id"))
		if err != nil {
			return problem.From(err)
		}
		c.Response().Header().Set("Cache-Control", "no-store")
		return c.Blob(http.StatusOK, "application/yaml", text)
	})
}
