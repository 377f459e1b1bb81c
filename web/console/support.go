package console

import (
	"context"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/supportarchive"
	"landfall/web/operation"
)

// SupportRoute is the route of the support archive.
const SupportRoute = BasePath + "/support"

// SupportOperations returns the operation that makes a support archive.
func SupportOperations(write func(context.Context, io.Writer, time.Time) error) []operation.Operation {
	return []operation.Operation{
		{ID: "downloadSupportArchive", Method: http.MethodGet, Path: SupportRoute,
			Access: operation.For(access.Administrator),
			Handler: func(c echo.Context) error {
				at := time.Now()
				header := c.Response().Header()
				header.Set(echo.HeaderContentType, "application/gzip")
				header.Set(echo.HeaderContentDisposition, mime.FormatMediaType("attachment",
					map[string]string{"filename": supportarchive.Name(at)}))
				header.Set(echo.HeaderCacheControl, "no-store")
				return write(c.Request().Context(), c.Response(), at)
			},
			Summary: "Download an archive without secrets that describes the appliance",
			Status:  http.StatusOK, Answer: operation.File{}},
	}
}
