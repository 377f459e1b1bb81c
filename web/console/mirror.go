package console

import (
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"

	"github.com/labstack/echo/v4"

	"landfall/appliance/mirror"
	"landfall/appliance/mirror/site"
	"landfall/web/problem"
)

// MirrorRoute is the route of the mirror's rules. What is posted there may be an archive as large
// as MirrorUploadBytes, of which little is kept.
const MirrorRoute = BasePath + "/mirror"

// MirrorLaterRoute is the route of what is to be applied to a cluster that runs.
const MirrorLaterRoute = BasePath + "/clusters/:id/mirror-later"

// MirrorUploadBytes bounds a posted archive.
const MirrorUploadBytes = 1 << 30

// Mirror is what the console asks about the site's mirror; its errors are fit for problem.From.
type Mirror interface {
	// Model shows the rules of a level as they are.
	Model(level mirror.Level) (*site.Model, error)
	// Read makes an import of one file: an archive or a document.
	Read(name string, content io.Reader) (*mirror.Import, error)
	// ReadFiles makes an import of the files of a folder.
	ReadFiles(name string, files []mirror.Document) (*mirror.Import, error)
	// Import adds an import to a level, or replaces the one of that name.
	Import(ctx context.Context, level mirror.Level, name string, added *mirror.Import) error
	// Remove forgets an import of a level.
	Remove(ctx context.Context, level mirror.Level, name string) error
	// Later is what a cluster can only be given of its mirror's when it runs: YAML documents.
	Later(clusterID string) ([]byte, error)
	// Explain says where an image is pulled from at a level.
	Explain(level mirror.Level, image string) (*mirror.Explanation, error)
}

func filled[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// mirrorRules are the operations on the mirror's rules.
type mirrorRules struct{ mirror Mirror }

func (m mirrorRules) register(router *echo.Echo) {
	router.GET(MirrorRoute, m.show)
	router.POST(MirrorRoute, m.add)
	router.DELETE(MirrorRoute+"/imports/:name", m.remove)
	router.GET(MirrorRoute+"/explain", m.explain)
	router.GET(MirrorLaterRoute, m.later)
}

// level is what a request is about: the appliance, or the cluster or infra-env that its query
// names.
func level(c echo.Context) mirror.Level {
	return mirror.Level{Cluster: c.QueryParam("cluster_id"), InfraEnv: c.QueryParam("infra_env_id")}
}

func (m mirrorRules) show(c echo.Context) error {
	model, err := m.mirror.Model(level(c))
	if err != nil {
		return err
	}
	return answer(c, model)
}

// add imports the body: a form with the files of a folder, each under its path, or one file (tar,
// tar.gz, zip, or a document) whose name is the query's.
func (m mirrorRules) add(c echo.Context) error {
	name := c.QueryParam("name")
	if name == "" {
		return problem.BadRequest("The query needs ?name=, the name of the file or folder that is imported.")
	}
	got, err := m.read(c, name)
	if err != nil {
		return err
	}
	if err := m.mirror.Import(c.Request().Context(), level(c), name, got); err != nil {
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
				"The folder has more than %d MiB; drop the one with oc-mirror's results alone (cluster-resources or "+
					"results-…).", formBytes>>20)
		}
		files = append(files, mirror.Document{Name: part.FormName(), Data: data})
	}
}

// formBytes bounds the files of a folder that is sent as a form.
const formBytes = 32 << 20

func formProblem(err error) error {
	if errors.As(err, new(*http.MaxBytesError)) {
		return err
	}
	return problem.BadRequest("The form can't be read: %v.", err)
}

func (m mirrorRules) remove(c echo.Context) error {
	if err := m.mirror.Remove(c.Request().Context(), level(c), c.Param("name")); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

func (m mirrorRules) later(c echo.Context) error {
	documents, err := m.mirror.Later(c.Param("id"))
	if err != nil {
		return err
	}
	return c.Blob(http.StatusOK, "application/yaml", documents)
}

func (m mirrorRules) explain(c echo.Context) error {
	explained, err := m.mirror.Explain(level(c), c.QueryParam("image"))
	if err != nil {
		return err
	}
	return answer(c, explained)
}
