package console

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"landfall/appliance/rehearsal"
)

// Rehearsals rehearses installations with simulated hosts.
type Rehearsals interface {
	// Start starts a rehearsal in the background.
	Start(ctx context.Context, clusterID string, request rehearsal.Request) (*rehearsal.Rehearsal, error)
	// Rehearsal returns the present report of a rehearsal.
	Rehearsal(clusterID, id string) (*rehearsal.Rehearsal, error)
}

type rehearsals struct{ rehearsals Rehearsals }

func (r rehearsals) register(router *echo.Echo) {
	router.POST(BasePath+"/clusters/:cluster_id/rehearsals", func(c echo.Context) error {
		var request rehearsal.Request
		if err := read(c, &request); err != nil {
			return err
		}
		started, err := r.rehearsals.Start(c.Request().Context(), c.Param("cluster_id"), request)
		if err != nil {
			return err
		}
		return c.JSON(http.StatusAccepted, started)
	})
	router.GET(BasePath+"/clusters/:cluster_id/rehearsals/:id", func(c echo.Context) error {
		found, err := r.rehearsals.Rehearsal(c.Param("cluster_id"), c.Param("id"))
		if err != nil {
			return err
		}
		return answer(c, found)
	})
}
