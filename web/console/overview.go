package console

import (
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/overview"
	"landfall/web/operation"
)

// Routes of the overview of the site.
const (
	OverviewRoute = BasePath + "/overview"
	ClustersRoute = BasePath + "/clusters"
)

// Overview summarizes the site.
type Overview interface {
	Overview() (*overview.Overview, error)
	Clusters(wanted func(id string) bool) ([]overview.Cluster, error)
}

// OverviewOperations returns the operations on the overview of the site.
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
		{ID: "listAllClusters", Method: http.MethodGet, Path: ClustersRoute,
			Access: operation.For(access.Viewer).OfOwn(), FromCopy: true,
			Handler: func(c echo.Context) error {
				scope, ids := access.From(c.Request().Context()).Scope, c.QueryParams()["cluster_id"]
				rows, err := of.Clusters(func(id string) bool {
					return scope.Cluster(id) && (len(ids) == 0 || slices.Contains(ids, id))
				})
				return answer(c, map[string]any{"clusters": rows}, err)
			},
			Summary:    "List all clusters in a few facts each; with cluster_id, only these clusters",
			Parameters: []operation.Parameter{{Name: "cluster_id", Type: operation.UUIDList}},
			Status:     http.StatusOK, Answer: map[string][]overview.Cluster{}, Errors: []int{400}},
	}
}
