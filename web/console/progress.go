package console

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/progress"
	"landfall/web/operation"
)

// Installations explains the installations of clusters.
type Installations interface {
	Progress(clusterID string) (*progress.Progress, error)
}

// ProgressOperations returns the operation on the installation of a cluster.
func ProgressOperations(of Installations) []operation.Operation {
	return []operation.Operation{
		{ID: "getInstallationProgress", Method: http.MethodGet, Path: clusterPath + "/progress",
			Access: operation.For(access.Viewer), FromCopy: true,
			Handler: func(c echo.Context) error {
				shown, err := of.Progress(c.Param("cluster_id"))
				return answer(c, shown, err)
			},
			Summary: "Explain the installation of a cluster: the stages of its hosts with their durations, the time " +
				"left, and the cause of a failure",
			Status: http.StatusOK, Answer: progress.Progress{}, Errors: []int{404}},
	}
}
