package console

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/rehearsal"
	"landfall/web/operation"
)

// Rehearsals rehearses installations with simulated hosts.
type Rehearsals interface {
	// Start starts a rehearsal in the background.
	Start(ctx context.Context, clusterID string, request rehearsal.Request) (*rehearsal.Rehearsal, error)
	// Rehearsal returns the current report of a rehearsal.
	Rehearsal(clusterID, id string) (*rehearsal.Rehearsal, error)
}

type rehearsals struct{ Rehearsals }

// RehearsalOperations returns the operations on rehearsals.
func RehearsalOperations(source Rehearsals) []operation.Operation {
	r := rehearsals{source}
	return []operation.Operation{
		{ID: "startRehearsal", Method: http.MethodPost, Path: clusterPath + "/rehearsals",
			Access: operation.For(access.Operator), Handler: r.start,
			Summary: "Start a rehearsal of a cluster's installation",
			Body:    rehearsal.Request{},
			Status:  http.StatusAccepted, Answer: rehearsal.Rehearsal{}, Errors: []int{400, 404, 409, 422}},
		{ID: "getRehearsal", Method: http.MethodGet, Path: clusterPath + "/rehearsals/:id",
			Access: operation.For(access.Viewer), Handler: r.show,
			Summary: "Show a rehearsal",
			Status:  http.StatusOK, Answer: rehearsal.Rehearsal{}, Errors: []int{404}},
	}
}

func (r rehearsals) start(c echo.Context) error {
	var wanted rehearsal.Request
	if err := operation.ReadJSON(c, &wanted); err != nil {
		return err
	}
	started, err := r.Start(c.Request().Context(), c.Param("cluster_id"), wanted)
	return answerWith(c, http.StatusAccepted, started, err)
}

func (r rehearsals) show(c echo.Context) error {
	found, err := r.Rehearsal(c.Param("cluster_id"), c.Param("id"))
	return answer(c, found, err)
}
