package console

import (
	"context"
	"io"
	"mime"
	"net/http"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/web/operation"
)

// Journals exports the journals of clusters.
type Journals interface {
	// Journal collects the history of a cluster. It returns a file name and a function that writes
	// the file.
	Journal(ctx context.Context, clusterID string) (name string, write func(io.Writer) error, err error)
}

// JournalOperations returns the operation on the journals of clusters.
func JournalOperations(journals Journals) []operation.Operation {
	return []operation.Operation{
		{ID: "downloadJournal", Method: http.MethodGet, Path: clusterPath + "/journal",
			Access: operation.For(access.Operator),
			Handler: func(c echo.Context) error {
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
			},
			Summary: "Download the journal of a cluster",
			Status:  http.StatusOK, Answer: operation.File{}, Errors: []int{404}},
	}
}
