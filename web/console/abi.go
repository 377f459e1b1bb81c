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
	"time"

	"github.com/labstack/echo/v4"

	"landfall/appliance/abi"
	"landfall/appliance/access"
	"landfall/appliance/archive"
	"landfall/web/operation"
	"landfall/web/problem"
	"landfall/web/recording"
)

// ABIRoute is the route to which agent-based installer directories are posted.
const ABIRoute = BasePath + "/abi"

// Limits of a posted directory: its size and its files.
const (
	abiUploadBytes = abi.DirectoryBytes + 1<<20
	abiEntries     = 10_000
)

// ABIDirectories imports and exports directories of the agent-based installer.
type ABIDirectories interface {
	// Import creates a cluster from a directory. With check, it only returns the result that the
	// import would have.
	Import(ctx context.Context, files []abi.File, check bool) (*abi.Import, error)
	// Export returns the directory of a cluster.
	Export(ctx context.Context, clusterID string) (*abi.Export, error)
}

type abiDirectories struct{ ABIDirectories }

// ABIOperations returns the operations on agent-based installer directories.
func ABIOperations(directories ABIDirectories) []operation.Operation {
	d := abiDirectories{directories}
	return []operation.Operation{
		{ID: "importABI", Method: http.MethodPost, Path: ABIRoute, Access: operation.For(access.Operator),
			Handler:    d.add,
			BodyLimit:  abiUploadBytes,
			Summary:    "Create a cluster from an agent-based installer directory, or only check the directory",
			Parameters: []operation.Parameter{{Name: "check", Type: operation.Flag}},
			Body:       operation.File{},
			Status:     http.StatusCreated, Answer: abi.Import{}, Errors: []int{400, 409}},
		{ID: "exportABI", Method: http.MethodGet, Path: clusterPath + "/abi",
			Access: operation.For(access.Administrator).WithSecret(), Handler: d.export,
			Summary:    "Download the agent-based installer directory of a cluster",
			Parameters: []operation.Parameter{{Name: "format", Values: []string{"json"}}},
			Status:     http.StatusOK, Answer: operation.File{}, Errors: []int{404, 409}},
	}
}

// add reads a form with the files of a directory, each named by its path, or a tar.gz archive of
// the directory. With ?check=true it creates nothing.
func (d abiDirectories) add(c echo.Context) error {
	check, err := operation.ReadFlag(c, "check")
	if err != nil {
		return err
	}
	files, err := readDirectory(c)
	if err != nil {
		return err
	}
	made, err := d.Import(c.Request().Context(), files, check)
	if schema, ok := errors.AsType[*abi.SchemaError](err); ok {
		return problem.Schema(schema.Err)
	}
	if err != nil {
		return err
	}
	if made.ClusterID == "" {
		return answer(c, made, nil)
	}
	recording.Created(c.Request().Context(), "cluster_id", made.ClusterID)
	return c.JSON(http.StatusCreated, made)
}

func readDirectory(c echo.Context) ([]abi.File, error) {
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
		if len(files) == abiEntries {
			return nil, problem.BadRequest("The directory has more than %d files.", abiEntries)
		}
		files = append(files, abi.File{Name: path.Clean("/" + part.FormName())[1:], Data: data})
	}
}

func untar(body io.Reader) ([]abi.File, error) {
	guard := archive.NewGuard(archive.Limits{Bytes: abiUploadBytes, Entries: abiEntries, Time: time.Minute})
	unpacked, err := gzip.NewReader(guard.Packed(body))
	if err != nil {
		return nil,
			problem.BadRequest("The body is neither a form with the directory's files nor a tar.gz archive of the "+
				"directory: %v.",
				err)
	}
	var files []abi.File
	for members := tar.NewReader(guard.Unpacked(unpacked)); ; {
		header, err := members.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err == nil {
			err = guard.Entry()
		}
		if err != nil {
			return nil, problem.BadRequest("The archive cannot be read, or has more than %d MiB: %v.",
				abiUploadBytes>>20, err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		data, err := io.ReadAll(members)
		if err != nil {
			return nil, problem.BadRequest("The archive cannot be read, or has more than %d MiB: %v.",
				abiUploadBytes>>20, err)
		}
		files = append(files, abi.File{Name: path.Clean("/" + header.Name)[1:], Data: data})
	}
}

// export sends a tar.gz archive, or JSON if the query requests it.
func (d abiDirectories) export(c echo.Context) error {
	directory, err := d.Export(c.Request().Context(), c.Param("cluster_id"))
	if err != nil {
		return err
	}
	if c.QueryParam("format") == "json" {
		directory.Changed, directory.Unwritten = nonNil(directory.Changed), nonNil(directory.Unwritten)
		return answer(c, directory, nil)
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
		err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: directory.Name + "/" + file.Name,
			Mode: 0o600,
			Size: int64(len(file.Data))})
		if err != nil {
			return err
		}
		if _, err := archive.Write(file.Data); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return packed.Close()
}
