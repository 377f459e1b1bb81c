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

// ABIRoute is the route for uploads of directories of the agent-based installer. ABIUploadBytes bounds
// their size.
const (
	ABIRoute       = BasePath + "/abi"
	ABIUploadBytes = abi.DirectoryBytes + 1<<20
)

// ABIDirectories creates clusters from directories of the agent-based installer, and writes the
// directories of clusters.
type ABIDirectories interface {
	// Import creates a cluster from a directory. With check, it returns what it would create.
	Import(ctx context.Context, files []abi.File, check bool) (*abi.Import, error)
	// Export returns the directory of a cluster.
	Export(ctx context.Context, clusterID string) (*abi.Export, error)
}

type abiDirectories struct{ directories ABIDirectories }

func (d abiDirectories) register(router *echo.Echo) {
	router.POST(ABIRoute, d.add)
	router.GET(BasePath+"/clusters/:cluster_id/abi", d.export)
}

// add accepts a form with the files of a directory under their paths, or a tar.gz. With ?check=true
// it creates nothing.
func (d abiDirectories) add(c echo.Context) error {
	files, err := directoryOf(c)
	if err != nil {
		return err
	}
	made, err := d.directories.Import(c.Request().Context(), files, c.QueryParam("check") == "true")
	if schema, ok := errors.AsType[*abi.SchemaError](err); ok {
		return problem.Schema(schema.Err)
	}
	if err != nil {
		return err
	}
	if made.ClusterID == "" {
		return answer(c, made)
	}
	return c.JSON(http.StatusCreated, made)
}

func directoryOf(c echo.Context) ([]abi.File, error) {
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
		return nil, problem.BadRequest("The body is neither a form with the directory's files nor a tar.gz of it: %v.",
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

// export answers with a tar.gz, or with JSON for ?format=json.
func (d abiDirectories) export(c echo.Context) error {
	directory, err := d.directories.Export(c.Request().Context(), c.Param("cluster_id"))
	if err != nil {
		return err
	}
	if c.QueryParam("format") == "json" {
		directory.Changed, directory.Unsaid = filled(directory.Changed), filled(directory.Unsaid)
		return answer(c, directory)
	}
	header := c.Response().Header()
	header.Set(echo.HeaderContentType, "application/gzip")
	header.Set(echo.HeaderContentDisposition, mime.FormatMediaType("attachment",
		map[string]string{"filename": directory.Name + ".tar.gz"}))
	header.Set(echo.HeaderCacheControl, "no-store")
	c.Response().WriteHeader(http.StatusOK)
	packed := gzip.NewWriter(c.Response())
	archive := tar.NewWriter(packed)
	for _, file := range directory.Files {
		err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: directory.Name + "/" + file.Name, Mode: 0o600,
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
