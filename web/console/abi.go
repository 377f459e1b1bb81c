package console

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path"

	"github.com/labstack/echo/v4"

	"landfall/appliance/abi"
	"landfall/web/problem"
)

// ABIRoute is where folders of the agent-based installer are posted; ABIUploadBytes bounds them.
const (
	ABIRoute       = BasePath + "/abi"
	ABIUploadBytes = abi.FolderBytes + 1<<20
)

// ABIFolders is what the console asks about folders of the agent-based installer; its errors are
// fit for problem.From.
type ABIFolders interface {
	// Import makes a cluster of a folder; with check it only says what would come of it.
	Import(ctx context.Context, files []abi.File, check bool) (*ABIImport, error)
	// Export writes the folder of a cluster.
	Export(ctx context.Context, clusterID string) (*ABIExport, error)
}

// ABIImport is what came of a folder.
type ABIImport struct {
	ClusterID        string        `json:"cluster_id,omitempty"` // absent when it was only checked
	InfraEnvID       string        `json:"infra_env_id,omitempty"`
	Name             string        `json:"name"`
	OpenshiftVersion string        `json:"openshift_version"`
	Hosts            int           `json:"hosts"` // that the folder speaks of
	Notes            []abi.Problem `json:"notes"` // what has no effect here, and why
}

// Filled returns the import with empty lists in the place of none.
func (i *ABIImport) Filled() *ABIImport {
	i.Notes = filled(i.Notes)
	return i
}

// ABIExport is the folder of a cluster.
type ABIExport struct {
	Name  string     `json:"name"` // of the folder
	Files []abi.File `json:"files"`
	// Changed are the values that differ from the folder that the cluster was made from; Unsaid
	// those of them that no document of that folder can hold.
	Changed []string `json:"changed"`
	Unsaid  []string `json:"unsaid"`
}

type abiFolders struct{ folders ABIFolders }

func (f abiFolders) register(router *echo.Echo) {
	router.POST(ABIRoute, f.add)
	router.GET(BasePath+"/clusters/:cluster_id/abi", f.export)
}

// add takes a form with the files of a folder, each under its path, or a tar.gz of it. With
// ?check=true nothing is made.
func (f abiFolders) add(c echo.Context) error {
	files, err := folderOf(c)
	if err != nil {
		return err
	}
	made, err := f.folders.Import(c.Request().Context(), files, c.QueryParam("check") == "true")
	if err != nil {
		return err
	}
	if made.ClusterID == "" {
		return answer(c, made)
	}
	return c.JSON(http.StatusCreated, made)
}

func folderOf(c echo.Context) ([]abi.File, error) {
	kind, parameters, err := mime.ParseMediaType(c.Request().Header.Get(echo.HeaderContentType))
	if err != nil || kind != echo.MIMEMultipartForm {
		return untar(c.Request().Body)
	}
	var files []abi.File
	for form := multipart.NewReader(c.Request().Body, parameters["boundary"]); ; {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, formProblem(err)
		}
		data, err := io.ReadAll(part)
		if err != nil {
			return nil, formProblem(err)
		}
		files = append(files, abi.File{Name: path.Clean("/" + part.FormName())[1:], Data: data})
	}
}

func untar(body io.Reader) ([]abi.File, error) {
	unpacked, err := gzip.NewReader(body)
	if err != nil {
		return nil, problem.BadRequest("The body is neither a form with the folder's files nor a tar.gz of it: %v.",
			err)
	}
	var files []abi.File
	for archive := tar.NewReader(io.LimitReader(unpacked, ABIUploadBytes)); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, problem.BadRequest("The archive can't be read, or has more than %d MiB: %v.",
				ABIUploadBytes>>20, err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			return nil, problem.BadRequest("The archive can't be read, or has more than %d MiB: %v.",
				ABIUploadBytes>>20, err)
		}
		files = append(files, abi.File{Name: path.Clean("/" + header.Name)[1:], Data: data})
	}
}

// export answers with a tar.gz, or with JSON when that is asked for.
func (f abiFolders) export(c echo.Context) error {
	folder, err := f.folders.Export(c.Request().Context(), c.Param("cluster_id"))
	if err != nil {
		return err
	}
	if c.QueryParam("format") == "json" {
		folder.Changed, folder.Unsaid = filled(folder.Changed), filled(folder.Unsaid)
		return answer(c, folder)
	}
	header := c.Response().Header()
	header.Set(echo.HeaderContentType, "application/gzip")
	header.Set(echo.HeaderContentDisposition, mime.FormatMediaType("attachment",
		map[string]string{"filename": folder.Name + ".tar.gz"}))
	header.Set(echo.HeaderCacheControl, "no-store")
	c.Response().WriteHeader(http.StatusOK)
	packed := gzip.NewWriter(c.Response())
	archive := tar.NewWriter(packed)
	for _, file := range folder.Files {
		err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: folder.Name + "/" + file.Name, Mode: 0o600,
			Size: int64(len(file.Data))})
		if err != nil {
			return err
		}
		if _, err := archive.Write(file.Data); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), packed.Close())
}
