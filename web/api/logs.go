package api

import (
	"errors"
	"io"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/access"
	"landfall/web/operation"
	"landfall/web/problem"
)

// Names of the logs among a cluster's files.
const (
	logFolder      = "logs/"
	logEnding      = ".tar.gz"
	controllerLogs = logFolder + "controller" + logEnding
)

// logOperations returns the operations on the logs of hosts and controllers.
func (s *Service) logOperations() []operation.Operation {
	return []operation.Operation{
		{ID: "V2DownloadClusterLogs", Method: http.MethodGet, Path: clusterPath + "/logs",
			Access: operation.For(access.Viewer).OrLinks(), Handler: s.downloadLogs,
			Summary: "Download the logs of a host, of the controller, or all logs",
			Parameters: []operation.Parameter{
				{Name: "logs_type", Values: []string{"host", "controller", "all"}},
				{Name: "host_id", Type: operation.UUID},
			},
			Status: 200, Answer: operation.File{}, Errors: []int{401, 403, 404, 405, 409, 500}},
		{ID: "V2UploadLogs", Method: http.MethodPost, Path: clusterPath + "/logs",
			Access: operation.For(access.Administrator).OrAgents(), Handler: s.uploadLogs,
			BodyLimit: s.LogUploadBytes, Streams: true,
			Summary: "Send logs (for hosts and the controller)",
			Parameters: []operation.Parameter{
				{Name: "logs_type", Required: true, Values: []string{"host", "controller"}},
				{Name: "infra_env_id", Type: operation.UUID},
				{Name: "host_id", Type: operation.UUID},
			},
			Body:   operation.Upload{},
			Status: 204, Errors: []int{400, 401, 403, 404, 405, 409, 500, 503}},
		{ID: "v2UpdateClusterLogsProgress", Method: http.MethodPut, Path: clusterPath + "/logs-progress",
			Access: operation.For(access.Administrator).OrAgents(), Handler: s.clusterLogsProgress,
			Summary: "Report the progress of the controller's logs (for the controller)",
			Body:    models.LogsProgressParams{},
			Status:  204, Errors: []int{401, 403, 404, 405, 409, 500, 503}},
		{ID: "v2UpdateHostLogsProgress", Method: http.MethodPut, Path: hostPath + "/logs-progress",
			Access: operation.For(access.Administrator).OrAgents(), Handler: s.hostLogsProgress,
			Summary: "Report the progress of a host's logs (for its installer)",
			Body:    models.LogsProgressParams{},
			Status:  204, Errors: []int{401, 403, 404, 405, 409, 500, 501, 503}},
	}
}

// uploadLogs stores a log archive of a host or of the controller, which is the form file "upfile".
func (s *Service) uploadLogs(c echo.Context) error {
	kind, err := oneOf(c, "logs_type", string(models.LogsTypeHost), string(models.LogsTypeController))
	if err != nil {
		return err
	}
	id, err := uuid(c, "host_id")
	if err != nil {
		return err
	}
	upload, err := logUpload(c.Request())
	if err != nil {
		return err
	}
	switch kind {
	case string(models.LogsTypeController):
		return done(c, s.Engine.StoreControllerLogs(c.Request().Context(), clusterID(c), upload))
	default:
		if id == "" {
			return problem.BadRequest("the parameter host_id is missing; it is required for logs of a host")
		}
		return done(c, s.Engine.StoreHostLogs(c.Request().Context(), clusterID(c), id, upload))
	}
}

func logUpload(r *http.Request) (io.Reader, error) {
	form, err := r.MultipartReader()
	if err != nil {
		return nil, problem.BadRequest("the body is not a form with the file upfile: %v", err)
	}
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			return nil, problem.BadRequest("the form has no file upfile")
		}
		if err != nil {
			return nil, problem.BadRequest("the form cannot be read: %v", err)
		}
		if part.FormName() == "upfile" {
			return formFile{part}, nil
		}
	}
}

// formFile is a file of a form. A truncated upload is an error of the request.
type formFile struct{ file io.Reader }

func (w formFile) Read(p []byte) (int, error) {
	n, err := w.file.Read(p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = problem.BadRequest("the form ends within the file; send it again")
	}
	return n, err
}

// logsOf returns the name of the file with the logs of one host or of the controller; "" means all
// logs.
func (s *Service) logsOf(c echo.Context, kind, host string) (string, error) {
	cluster, err := s.Engine.Cluster(clusterID(c))
	if err != nil {
		return "", err
	}
	wanted := ""
	switch kind {
	case "", string(models.LogsTypeAll):
		return "", nil
	case string(models.LogsTypeController):
		wanted = controllerLogs
	case string(models.LogsTypeHost):
		if host == "" {
			return "", problem.BadRequest("the parameter host_id is missing; it is required for logs of a host")
		}
		if !slices.ContainsFunc(cluster.Hosts, func(h *models.Host) bool { return h.ID.String() == host }) {
			return "", problem.NotFound("cluster %s has no host %s", cluster.Name, host)
		}
		wanted = logFolder + host + logEnding
	default:
		return "", unfit("the parameter logs_type in query is %q; expected host, controller or all", kind)
	}
	names, err := s.Engine.FileNames(clusterID(c), logFolder)
	if err == nil && !slices.Contains(names, wanted) {
		err = problem.Conflict("the requested logs of cluster %s have not been collected yet", cluster.Name)
	}
	return wanted, err
}

// downloadLogs sends the logs of one host or of the controller unchanged, or an archive of all
// logs.
func (s *Service) downloadLogs(c echo.Context) error {
	if err := s.checkLink(c); err != nil {
		return err
	}
	name, err := s.logsOf(c, c.QueryParam("logs_type"), c.QueryParam("host_id"))
	if err != nil {
		return err
	}
	cluster, err := s.Engine.Cluster(clusterID(c))
	if err != nil {
		return err
	}
	if name == "" {
		return s.sendArchive(c, cluster)
	}
	file, info, err := s.Engine.OpenFile(clusterID(c), name)
	if err != nil {
		return err
	}
	return send(c, archiveName(cluster, name)+logEnding, file, info)
}

func (s *Service) clusterLogsProgress(c echo.Context) error {
	params, err := decode[models.LogsProgressParams](c)
	if err != nil {
		return err
	}
	return done(c, s.Engine.RecordLogsProgress(c.Request().Context(), clusterID(c), "", "", *params.LogsState))
}

func (s *Service) hostLogsProgress(c echo.Context) error {
	params, err := decode[models.LogsProgressParams](c)
	if err != nil {
		return err
	}
	return done(c, s.Engine.RecordLogsProgress(c.Request().Context(), "", infraEnvID(c), hostID(c), *params.LogsState))
}
