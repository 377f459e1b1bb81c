package console

import (
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/mirror"
	"landfall/appliance/mirror/site"
	"landfall/web/operation"
	"landfall/web/problem"
)

// MirrorRoute is the route of the mirror's rules.
const MirrorRoute = BasePath + "/mirror"

// MirrorLaterRoute is the route of the documents to apply to a running cluster.
const MirrorLaterRoute = BasePath + "/clusters/:id/mirror-later"

// mirrorUploadBytes is the largest size of a posted archive. The appliance stores only a small part
// of it.
const mirrorUploadBytes = 1 << 30

// Mirror manages the rules of the site's mirror.
type Mirror interface {
	// Model returns the rules of a level.
	Model(level mirror.Level) (*site.Model, error)
	// Read creates an import from one file: an archive or a document.
	Read(name string, content io.Reader) (*mirror.Import, error)
	// ReadFiles creates an import from the files of a directory.
	ReadFiles(name string, files []mirror.Document) (*mirror.Import, error)
	// Import adds an import to a level, or replaces the import of that name.
	Import(ctx context.Context, level mirror.Level, name string, added *mirror.Import) error
	// Remove deletes an import of a level.
	Remove(ctx context.Context, level mirror.Level, name string) error
	// Later returns the YAML documents of a cluster's mirror rules that can only be applied after
	// the installation.
	Later(clusterID string) ([]byte, error)
	// Explain returns the sources from which an image is pulled, for the rules of a level.
	Explain(level mirror.Level, image string) (*mirror.Explanation, error)
}

// MirrorScope knows the clusters of infra-envs, for callers with a limited scope.
type MirrorScope interface {
	// ClusterOf returns the ID of an infra-env's cluster, or "".
	ClusterOf(infraEnvID string) (string, error)
}

type mirrorRules struct {
	mirror Mirror
	scope  MirrorScope
}

// MirrorOperations returns the operations on the rules of the mirror.
func MirrorOperations(rules Mirror, scope MirrorScope) []operation.Operation {
	m := mirrorRules{rules, scope}
	level := []operation.Parameter{
		{Name: "cluster_id", Type: operation.UUID}, {Name: "infra_env_id", Type: operation.UUID},
	}
	return []operation.Operation{
		{ID: "getMirror", Method: http.MethodGet, Path: MirrorRoute, Access: operation.For(access.Viewer).OfOwn(),
			Handler: m.show, FromCopy: true,
			Summary:    "Show the mirror rules of the appliance, a cluster or an infra-env",
			Parameters: level,
			Status:     http.StatusOK, Answer: site.Model{}, Errors: []int{403, 404}},
		{ID: "importMirror", Method: http.MethodPost, Path: MirrorRoute, Access: operation.For(access.Administrator),
			Handler:    m.add,
			BodyLimit:  mirrorUploadBytes,
			Streams:    true,
			Summary:    "Import mirror rules from a file, or from a form with the files of a directory",
			Parameters: append([]operation.Parameter{{Name: "name", Required: true}}, level...),
			Body:       operation.File{},
			Status:     http.StatusOK, Answer: site.Model{}, Errors: []int{400, 404, 413}},
		{ID: "deleteMirrorImport", Method: http.MethodDelete, Path: MirrorRoute + "/imports/:name",
			Access: operation.For(access.Administrator), Handler: m.remove,
			Summary:    "Delete an import of mirror rules",
			Parameters: level,
			Status:     http.StatusNoContent, Errors: []int{404}},
		{ID: "explainMirror", Method: http.MethodGet, Path: MirrorRoute + "/explain",
			Access: operation.For(access.Viewer).OfOwn(), Handler: m.explain, FromCopy: true,
			Summary:    "Show the sources from which an image is pulled",
			Parameters: append([]operation.Parameter{{Name: "image", Required: true}}, level...),
			Status:     http.StatusOK, Answer: mirror.Explanation{}, Errors: []int{400, 403, 404}},
		{ID: "getMirrorLater", Method: http.MethodGet, Path: MirrorLaterRoute,
			Access: operation.For(access.Viewer), Handler: m.later,
			Summary: "Download the documents to apply to a running cluster",
			Status:  http.StatusOK, Answer: operation.File{}, Errors: []int{404}},
	}
}

// level returns the level in the query of a request: the appliance, a cluster or an infra-env.
func level(c echo.Context) mirror.Level {
	return mirror.Level{Cluster: c.QueryParam("cluster_id"), InfraEnv: c.QueryParam("infra_env_id")}
}

// show sends the rules of a level, with the imports in the caller's scope. The rules of the
// appliance are the same for all.
func (m mirrorRules) show(c echo.Context) error {
	if err := m.checkScope(c); err != nil {
		return err
	}
	model, err := m.mirror.Model(level(c))
	if err != nil {
		return err
	}
	imports := []site.Import{}
	for _, imported := range model.Imports {
		within, err := m.within(c, imported.Level)
		if err != nil {
			return err
		}
		if within {
			imports = append(imports, imported)
		}
	}
	model.Imports = imports
	return answer(c, model, nil)
}

// checkScope returns an error for a level outside of the caller's scope.
func (m mirrorRules) checkScope(c echo.Context) error {
	within, err := m.within(c, level(c))
	if err != nil || within {
		return err
	}
	return problem.Forbidden("you may not see the mirror rules of %s; ask an administrator", level(c))
}

// within reports whether a level is in the caller's scope.
func (m mirrorRules) within(c echo.Context, at mirror.Level) (bool, error) {
	scope := access.From(c.Request().Context()).Scope
	if at.Cluster != "" && !scope.Cluster(at.Cluster) {
		return false, nil
	}
	if at.InfraEnv == "" || !scope.Limited() {
		return true, nil
	}
	cluster, err := m.scope.ClusterOf(at.InfraEnv)
	return scope.InfraEnv(at.InfraEnv, cluster), err
}

// add imports the body. It is a form with the files of a directory, each named by its path, or one
// file (tar, tar.gz, zip, or a document) whose name is in the query.
func (m mirrorRules) add(c echo.Context) error {
	name := c.QueryParam("name")
	if name == "" {
		return problem.BadRequest("The query lacks ?name=, the name of the imported file or directory.")
	}
	added, err := m.read(c, name)
	if err != nil {
		return err
	}
	if err := m.mirror.Import(c.Request().Context(), level(c), name, added); err != nil {
		return err
	}
	return m.show(c)
}

func (m mirrorRules) read(c echo.Context, name string) (*mirror.Import, error) {
	kind, parameters, err := mime.ParseMediaType(c.Request().Header.Get(echo.HeaderContentType))
	if err != nil || kind != echo.MIMEMultipartForm {
		return m.mirror.Read(name, c.Request().Body)
	}
	var files []mirror.Document
	total := 0
	for form := multipart.NewReader(c.Request().Body, parameters["boundary"]); ; {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			return m.mirror.ReadFiles(name, files)
		}
		if err != nil {
			return nil, formProblem(err)
		}
		data, err := io.ReadAll(part)
		if err != nil {
			return nil, formProblem(err)
		}
		if total += len(data); total > formBytes {
			return nil, problem.New(http.StatusRequestEntityTooLarge,
				"The directory has more than %d MiB; import only the directory with oc-mirror's results "+
					"(cluster-resources or "+
					"results-…).", formBytes>>20)
		}
		files = append(files, mirror.Document{Name: part.FormName(), Data: data})
	}
}

// formBytes is the largest total size of the files in a form.
const formBytes = 32 << 20

func formProblem(err error) error {
	if errors.As(err, new(*http.MaxBytesError)) {
		return err
	}
	return problem.BadRequest("The form cannot be read: %v.", err)
}

func (m mirrorRules) remove(c echo.Context) error {
	return done(c, m.mirror.Remove(c.Request().Context(), level(c), c.Param("name")))
}

func (m mirrorRules) later(c echo.Context) error {
	documents, err := m.mirror.Later(c.Param("id"))
	if err != nil {
		return err
	}
	return c.Blob(http.StatusOK, "application/yaml", documents)
}

func (m mirrorRules) explain(c echo.Context) error {
	if err := m.checkScope(c); err != nil {
		return err
	}
	explained, err := m.mirror.Explain(level(c), c.QueryParam("image"))
	return answer(c, explained, err)
}
