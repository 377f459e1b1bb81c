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

	"landfall/appliance/access"
	"landfall/appliance/engine"
	"landfall/store"
	"landfall/web/operation"
	"landfall/web/problem"
)

// Names of a cluster's files, grouped by the operation that serves them.
var (
	credentialFiles = []string{"kubeconfig", "kubeconfig-noingress", "kubeadmin-password"}
	clusterFiles    = []string{"bootstrap.ign", "master.ign", "worker.ign", "arbiter.ign", "metadata.json",
		"install-config.yaml", "custom_manifests.json", "custom_manifests.yaml"}
	hostFile = regexp.MustCompile(`^(master|worker|arbiter)-[0-9a-f-]{36}\.ign$`)
)

// clusterFileOperations returns the operations on the credentials and generated files of a cluster.
func (s *Service) clusterFileOperations() []operation.Operation {
	return []operation.Operation{
		{ID: "V2GetCredentials", Method: http.MethodGet, Path: clusterPath + "/credentials",
			Access: operation.For(access.Administrator).WithSecret(), Handler: s.credentials,
			Summary: "Show the console's address and the first administrator's password",
			Status:  200, Answer: models.Credentials{}, Errors: []int{401, 403, 404, 405, 409, 500}},
		{ID: "V2DownloadClusterCredentials", Method: http.MethodGet, Path: clusterPath + "/downloads/credentials",
			Access:  operation.For(access.Administrator).OrAgents().OrLinks().WithSecret(),
			Handler: s.downloadCredentials,
			Summary: "Download a kubeconfig or the administrator's password",
			Parameters: []operation.Parameter{
				{Name: "file_name", Required: true, Values: []string{"kubeadmin-password", "kubeconfig",
					"kubeconfig-noingress"}},
			},
			Status: 200, Answer: operation.File{}, Errors: []int{401, 403, 404, 405, 409, 500, 503}},
		{ID: "V2GetPresignedForClusterCredentials", Method: http.MethodGet, Path: clusterPath +
			"/downloads/credentials-presigned",
			Access: operation.For(access.Administrator).WithSecret(), Handler: s.presignedCredentials,
			Summary: "Get a signed link to a kubeconfig or the administrator's password",
			Parameters: []operation.Parameter{
				{Name: "file_name", Required: true, Values: []string{"kubeadmin-password", "kubeconfig",
					"kubeconfig-noingress"}},
			},
			Status: 200, Answer: models.PresignedURL{}, Errors: []int{400, 401, 403, 404, 405, 409, 500}},
		{ID: "V2DownloadClusterFiles", Method: http.MethodGet, Path: clusterPath + "/downloads/files",
			Access: operation.For(access.Administrator).OrAgents().OrLinks().WithSecret(), Handler: s.downloadFile,
			Summary: "Download a file that the installation generated",
			Parameters: []operation.Parameter{
				{Name: "file_name", Required: true, Values: []string{"bootstrap.ign", "master.ign", "metadata.json",
					"worker.ign", "install-config.yaml", "custom_manifests.json", "custom_manifests.yaml",
					"arbiter.ign"}},
				{Name: "discovery_agent_version", In: "header"},
			},
			Status: 200, Answer: operation.File{}, Errors: []int{401, 403, 404, 405, 409, 500, 503}},
		{ID: "V2GetPresignedForClusterFiles", Method: http.MethodGet, Path: clusterPath + "/downloads/files-presigned",
			Access:  operation.For(access.Administrator).WithSecret().OrRole(access.Viewer, "file_name", "logs"),
			Handler: s.presignedFile,
			Summary: "Get a signed link to a file, to logs or to a manifest",
			Parameters: []operation.Parameter{
				{Name: "file_name", Required: true, Values: []string{"bootstrap.ign", "master.ign", "metadata.json",
					"worker.ign", "install-config.yaml", "logs", "manifests"}},
				{Name: "logs_type", Values: []string{"host", "controller", "all"}},
				{Name: "host_id", Type: operation.UUID},
				{Name: "additional_name"},
			},
			Status: 200, Answer: models.PresignedURL{}, Errors: []int{400, 401, 403, 404, 405, 409, 500}},
	}
}

// attach sets the file name under which a client saves a response. The name is always quoted,
// because the browser application expects quotes.
func attach(c echo.Context, name string) {
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name)
	c.Response().Header().Set(echo.HeaderContentDisposition, `attachment; filename="`+quoted+`"`)
}

// send sends a stored file. It supports ranges and conditional requests.
func send(c echo.Context, name string, file io.ReadSeekCloser, info store.FileInfo) error {
	header := c.Response().Header()
	header.Set(echo.HeaderContentType, echo.MIMEOctetStream)
	header.Set("ETag", `"`+info.SHA256+`"`)
	if header.Get(echo.HeaderCacheControl) == "" { // operations that return a secret have set it
		header.Set(echo.HeaderCacheControl, "no-cache")
	}
	attach(c, name)
	http.ServeContent(c.Response(), c.Request(), "", info.Modified, file)
	return file.Close()
}

func isCredential(name string) bool { return slices.Contains(credentialFiles, name) }

func isClusterFile(name string) bool {
	return slices.Contains(clusterFiles, name) || hostFile.MatchString(name)
}

// fileName returns the name of the requested file, or an error if the operation does not serve that
// file.
func fileName(c echo.Context, allowed func(string) bool) (string, error) {
	name, err := required(c, "file_name")
	if err == nil && !allowed(name) {
		err = unfit("the parameter file_name in query is %q; this operation does not serve that file", name)
	}
	return name, err
}

// checkLink returns an error if the request has an invalid signed link.
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

func (s *Service) credentials(c echo.Context) error {
	credentials, err := s.Engine.Credentials(clusterID(c))
	return answer(c, http.StatusOK, credentials, err)
}

func (s *Service) downloadCredentials(c echo.Context) error { return s.sendFile(c, isCredential) }
func (s *Service) downloadFile(c echo.Context) error        { return s.sendFile(c, isClusterFile) }

// presign returns a signed link to a download below the cluster's own path.
func (s *Service) presign(c echo.Context, download string, query url.Values) error {
	link, expires, err := s.Links.Sign(c.Request().Context(), BasePath+"/v2/clusters/"+clusterID(c)+"/"+download,
		query)
	return answer(c, http.StatusOK, &models.PresignedURL{URL: &link, ExpiresAt: strfmt.DateTime(expires)}, err)
}

// presignGenerated returns a signed link to a generated file, if the file exists.
func (s *Service) presignGenerated(c echo.Context, download, name string) error {
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
	return s.presignGenerated(c, "downloads/credentials", name)
}

// presignedFile returns a signed link to a generated file of a cluster, to its logs
// (file_name=logs) or to a manifest (file_name=manifests with additional_name=<folder>/<name>).
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
		return s.presignGenerated(c, "downloads/credentials", name)
	case isClusterFile(name):
		return s.presignGenerated(c, "downloads/files", name)
	}
	return problem.BadRequest("clusters have no file named %q", name)
}

func (s *Service) presignManifest(c echo.Context) error {
	folder, name, ok := strings.Cut(c.QueryParam("additional_name"), "/")
	if !ok {
		return problem.BadRequest("the parameter additional_name is %q; expected a manifest's folder and name, such "+
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
