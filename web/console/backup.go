package console

import (
	"context"
	"io"
	"net/http"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/backup"
	"landfall/web/operation"
)

// BackupRoute is the route of backups.
const BackupRoute = BasePath + "/backup"

// BackupObjectsRoute is the route of the objects with which a restore compares a backup.
const BackupObjectsRoute = BackupRoute + "/objects"

// Backups writes backups of the appliance.
type Backups interface {
	Write(ctx context.Context, to io.Writer, withKey bool) error
	Objects(ctx context.Context) (*backup.Objects, error)
}

// BackupOperations returns the operation that backs the appliance up.
func BackupOperations(of Backups) []operation.Operation {
	return []operation.Operation{
		{ID: "downloadBackup", Method: http.MethodGet, Path: BackupRoute,
			Access: operation.For(access.Administrator).WithSecret(),
			Handler: func(c echo.Context) error {
				withKey, err := operation.ReadFlag(c, "key")
				if err != nil {
					return err
				}
				header := c.Response().Header()
				header.Set(echo.HeaderContentType, "application/x-tar")
				header.Set(echo.HeaderContentDisposition, `attachment; filename="landfall-backup.tar"`)
				header.Set(echo.HeaderCacheControl, "no-store")
				return of.Write(c.Request().Context(), c.Response(), withKey)
			},
			Summary: "Download a backup of one moment. Its last entry is the manifest; without it the backup is " +
				"incomplete. key includes what opens the sealed data",
			Parameters: []operation.Parameter{{Name: "key", Type: operation.Flag}},
			Status:     http.StatusOK, Answer: operation.File{}, Errors: []int{400}},
		{ID: "listBackupObjects", Method: http.MethodGet, Path: BackupObjectsRoute,
			Access: operation.For(access.Administrator),
			Handler: func(c echo.Context) error {
				all, err := of.Objects(c.Request().Context())
				return answer(c, all, err)
			},
			Summary: "List the objects that a restore would set back, with their revisions",
			Status:  http.StatusOK, Answer: backup.Objects{}},
	}
}
