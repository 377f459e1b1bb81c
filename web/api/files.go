package api

import (
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/go-openapi/strfmt"
	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine"
	"landfall/store"
	"landfall/web/problem"
)

// Files of a cluster that the API hands out, by the operation that does.
var (
	credentialFiles = []string{"kubeconfig", "kubeconfig-noingress", "kubeadmin-password"}
	clusterFiles    = []string{"bootstrap.ign", "master.ign", "worker.ign", "arbiter.ign", "metadata.json",
		"install-config.yaml", "custom_manifests.json", "custom_manifests.yaml"}
	hostFile = regexp.MustCompile(`^(master|worker|arbiter)-[0-9a-f-]{36}\.ign$`)
)

// attach names the file that an answer is to be saved as: always in quotes, for the browser
// application looks for them.
func attach(c echo.Context, name string) {
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name)
	c.Response().Header().Set(echo.HeaderContentDisposition, `attachment; filename="`+quoted+`"`)
}

// send answers with a kept file, ranges and conditional requests included.
func send(c echo.Context, name string, file io.ReadSeekCloser, info store.FileInfo) error {
	header := c.Response().Header()
	header.Set(echo.HeaderContentType, echo.MIMEOctetStream)
	header.Set("ETag", `"`+info.SHA256+`"`)
	header.Set(echo.HeaderCacheControl, "no-cache")
	attach(c, name)
	http.ServeContent(c.Response(), c.Request(), "", info.Modified, file)
	return file.Close()
}

func isCredential(name string) bool { return slices.Contains(credentialFiles, name) }

func isClusterFile(name string) bool {
	return slices.Contains(clusterFiles, name) || hostFile.MatchString(name)
}

// fileName reads which file is asked for, one of those that an operation has.
func fileName(c echo.Context, allowed func(string) bool) (string, error) {
	name, err := required(c, "file_name")
	if err == nil && !allowed(name) {
		err = unfit("the parameter file_name in query is %q; there is no such file here", name)
	}
	return name, err
}

// checkLink refuses a request by a signed link that does not hold.
func (s *Service) checkLink(c echo.Context) error {
	return s.Links.Check(c.Request().URL.Path, c.QueryParams())
}

func (s *Service) sendFile(c echo.Context, allowed func(string) bool) error {
	name, err := fileName(c, allowed)
	if err != nil {
		return err
	}
	if err := s.checkLink(c); err != nil {
		return err
	}
	file, info, err := s.Engine.OpenGenerated(clusterID(c), name)
	if err != nil {
		return err
	}
	return send(c, name, file, info)
}

func (s *Service) downloadCredentials(c echo.Context) error { return s.sendFile(c, isCredential) }
func (s *Service) downloadFile(c echo.Context) error        { return s.sendFile(c, isClusterFile) }

// presign answers with a signed link to a download of a cluster, which is below the cluster's own
// path.
func (s *Service) presign(c echo.Context, download string, query url.Values) error {
	link, expires, err := s.Links.Sign(c.Request().Context(), BasePath+"/v2/clusters/"+clusterID(c)+"/"+download,
		query)
	return answer(c, http.StatusOK, &models.PresignedURL{URL: &link, ExpiresAt: strfmt.DateTime(expires)}, err)
}

// presignKept answers with a signed link to a generated file that is there.
func (s *Service) presignKept(c echo.Context, download, name string) error {
	file, _, err := s.Engine.OpenGenerated(clusterID(c), name)
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return s.presign(c, download, url.Values{"file_name": {name}})
}

func (s *Service) presignedCredentials(c echo.Context) error {
	name, err := fileName(c, isCredential)
	if err != nil {
		return err
	}
	return s.presignKept(c, "downloads/credentials", name)
}

// presignedFile answers with a signed link to one of a cluster's files: what its installation
// generated, its logs (file_name=logs), or a manifest (file_name=manifests with
// additional_name=<folder>/<name>).
func (s *Service) presignedFile(c echo.Context) error {
	name, err := required(c, "file_name")
	switch {
	case err != nil:
		return err
	case name == "logs":
		return s.presignLogs(c)
	case name == "manifests":
		return s.presignManifest(c)
	case isCredential(name):
		return s.presignKept(c, "downloads/credentials", name)
	case isClusterFile(name):
		return s.presignKept(c, "downloads/files", name)
	}
	return problem.BadRequest("there is no file %q of a cluster", name)
}

func (s *Service) presignManifest(c echo.Context) error {
	folder, name, ok := strings.Cut(c.QueryParam("additional_name"), "/")
	if !ok {
		return problem.BadRequest("the parameter additional_name is %q; it takes a manifest's folder and name, such "+
			"as openshift/99-kernel-arguments.yaml", c.QueryParam("additional_name"))
	}
	file, _, err := s.Engine.OpenManifest(clusterID(c), engine.Manifest{Folder: folder, Name: name})
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return s.presign(c, "manifests/files", url.Values{"folder": {folder}, "file_name": {name}})
}

func (s *Service) presignLogs(c echo.Context) error {
	query := url.Values{}
	for _, name := range []string{"logs_type", "host_id"} {
		if value := c.QueryParam(name); value != "" {
			query.Set(name, value)
		}
	}
	if query.Get("logs_type") == "" && query.Has("host_id") {
		query.Set("logs_type", string(models.LogsTypeHost))
	}
	if _, err := s.logsOf(c, query.Get("logs_type"), query.Get("host_id")); err != nil {
		return err
	}
	return s.presign(c, "logs", query)
}
