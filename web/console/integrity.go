package console

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/integrity"
	"landfall/web/operation"
)

// IntegrityRoute is the route of the check of the stored data.
const IntegrityRoute = BasePath + "/integrity"

// Integrity checks and repairs the stored data.
type Integrity interface {
	Check(ctx context.Context) (*integrity.Report, error)
	Repair(ctx context.Context) (*integrity.Report, error)
}

// IntegrityOperations returns the operations on the integrity of the stored data.
func IntegrityOperations(of Integrity) []operation.Operation {
	return []operation.Operation{
		{ID: "checkStoredData", Method: http.MethodGet, Path: IntegrityRoute,
			Access: operation.For(access.Administrator),
			Handler: func(c echo.Context) error {
				report, err := of.Check(c.Request().Context())
				return answer(c, report, err)
			},
			Summary: "Read every page, row, reference and file of the stored data, and list what is damaged",
			Status:  http.StatusOK, Answer: integrity.Report{}},
		{ID: "repairStoredData", Method: http.MethodPost, Path: IntegrityRoute + "/repairs",
			Access: operation.For(access.Administrator),
			Handler: func(c echo.Context) error {
				report, err := of.Repair(c.Request().Context())
				return answer(c, report, err)
			},
			Summary: "Remove damaged rows, whose bytes are kept, derive indexes again, and check again",
			Status:  http.StatusOK, Answer: integrity.Report{}},
	}
}
