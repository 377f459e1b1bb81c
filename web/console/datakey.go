package console

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/web/operation"
)

// DataKeyRoute is the route of the rotation of the data key.
const DataKeyRoute = BasePath + "/data-key/rotations"

// DataKeyOperations returns the operation on the data key. rotate seals everything with a new key.
func DataKeyOperations(rotate func(context.Context) error) []operation.Operation {
	return []operation.Operation{
		{ID: "rotateDataKey", Method: http.MethodPost, Path: DataKeyRoute,
			Access: operation.For(access.Administrator),
			Handler: func(c echo.Context) error {
				// A client that leaves does not interrupt the rotation.
				if err := rotate(context.WithoutCancel(c.Request().Context())); err != nil {
					return err
				}
				return c.NoContent(http.StatusNoContent)
			},
			Summary: "Seal everything with a new data key", Status: http.StatusNoContent},
	}
}
