package console

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/overview"
	"landfall/web/operation"
)

// OverviewRoute is the route of the overview of the site.
const OverviewRoute = BasePath + "/overview"

// Overview summarizes the site.
type Overview interface {
	Overview() (*overview.Overview, error)
}

// OverviewOperations returns the operation on the overview of the site.
func OverviewOperations(of Overview) []operation.Operation {
	return []operation.Operation{
		{ID: "getOverview", Method: http.MethodGet, Path: OverviewRoute, Access: operation.For(access.Viewer),
			Handler: func(c echo.Context) error {
				shown, err := of.Overview()
				return answer(c, shown, err)
			},
			Summary: "Count clusters, hosts and servers by state, and list installations, disk usage and what needs " +
				"a person",
			Status: http.StatusOK, Answer: overview.Overview{}},
	}
}
