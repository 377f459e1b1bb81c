package console

import (
	"context"
	"io"
	"mime"
	"net/http"

	"github.com/labstack/echo/v4"
)

// Journals makes the journals of clusters.
type Journals interface {
	// Journal collects the history of a cluster. It returns a file name and a function that writes
	// the file.
	Journal(ctx context.Context, clusterID string) (name string, write func(io.Writer) error, err error)
}

// registerJournals adds the route that downloads the journal of a cluster.
func registerJournals(router *echo.Echo, journals Journals) {
	router.GET(BasePath+"/clusters/:cluster_id/journal", func(c echo.Context) error {
		name, write, err := journals.Journal(c.Request().Context(), c.Param("cluster_id"))
		if err != nil {
			return err
		}
		header := c.Response().Header()
		header.Set(echo.HeaderContentType, "application/gzip")
		header.Set(echo.HeaderContentDisposition, mime.FormatMediaType("attachment",
			map[string]string{"filename": name}))
		header.Set(echo.HeaderCacheControl, "no-store")
		c.Response().WriteHeader(http.StatusOK)
		return write(c.Response())
	})
}
