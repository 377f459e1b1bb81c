package api

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path"
	"slices"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine"
	"landfall/web/problem"
)

// uploadLogs takes a log archive from a host or from the controller, as a form's file "upfile".
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
		return done(c, s.Engine.ControllerLogs(c.Request().Context(), clusterID(c), upload))
	default:
		if id == "" {
			return problem.BadRequest("logs of a host are sent with its host_id")
		}
		return done(c, s.Engine.HostLogs(c.Request().Context(), clusterID(c), id, upload))
	}
}

func logUpload(r *http.Request) (io.Reader, error) {
	form, err := r.MultipartReader()
	if err != nil {
		return nil, problem.BadRequest("logs are sent as a form with the file upfile: %v", err)
	}
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			return nil, problem.BadRequest("the form has no file upfile")
		}
		if err != nil {
			return nil, problem.BadRequest("the form can't be read: %v", err)
		}
		if part.FormName() == "upfile" {
			return whole{part}, nil
		}
	}
}

// whole is a file of a form that says of itself when it was cut off.
type whole struct{ file io.Reader }

func (w whole) Read(p []byte) (int, error) {
	n, err := w.file.Read(p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = problem.BadRequest("the file was cut off before the end of its form; send it again")
	}
	return n, err
}

// logsOf names the files that hold the logs that a request asks for: those of one host, of the controller, or all.
func (s *Service) logsOf(c echo.Context, kind, host string) ([]string, error) {
	cluster, err := s.Engine.Cluster(clusterID(c))
	if err != nil {
		return nil, err
	}
	names, err := s.Engine.FileNames(clusterID(c), "logs/")
	if err != nil {
		return nil, err
	}
	wanted := ""
	switch kind {
	case "", string(models.LogsTypeAll):
		if len(names) == 0 {
			return nil, problem.NotFound("no logs of cluster %s were collected yet", cluster.Name)
		}
		return names, nil
	case string(models.LogsTypeController):
		wanted = "logs/controller.tar.gz"
	case string(models.LogsTypeHost):
		if host == "" {
			return nil, problem.BadRequest("logs of a host are asked for with its host_id")
		}
		if !slices.ContainsFunc(cluster.Hosts, func(h *models.Host) bool { return h.ID.String() == host }) {
			return nil, problem.NotFound("cluster %s has no host %s", cluster.Name, host)
		}
		wanted = "logs/" + host + ".tar.gz"
	default:
		return nil, unfit("the parameter logs_type in query is %q; it takes host, controller or all", kind)
	}
	if !slices.Contains(names, wanted) {
		return nil, problem.Conflict("these logs of cluster %s were not collected yet", cluster.Name)
	}
	return []string{wanted}, nil
}

// downloadLogs answers with the logs of one host or of the controller, or with an archive of all together with the cluster as
// it is shown and its events.
func (s *Service) downloadLogs(c echo.Context) error {
	if err := s.checkLink(c); err != nil {
		return err
	}
	kind := c.QueryParam("logs_type")
	names, err := s.logsOf(c, kind, c.QueryParam("host_id"))
	if err != nil {
		return err
	}
	if kind == "" || kind == string(models.LogsTypeAll) {
		return s.sendArchive(c, clusterID(c), names)
	}
	file, info, err := s.Engine.OpenFile(clusterID(c), names[0])
	if err != nil {
		return err
	}
	return send(c, "logs_"+path.Base(names[0]), file, info)
}

func (s *Service) sendArchive(c echo.Context, id string, names []string) (err error) {
	cluster, err := s.Engine.Cluster(id)
	if err != nil {
		return err
	}
	page, err := s.Engine.Events(engine.EventFilter{ClusterID: id})
	if err != nil {
		return err
	}
	attach(c, "logs_"+id+".tar.gz")
	c.Response().Header().Set(echo.HeaderContentType, echo.MIMEOctetStream) // the one type of files that API clients take
	packed := gzip.NewWriter(c.Response())
	archive := tar.NewWriter(packed)
	defer func() { err = errors.Join(err, archive.Close(), packed.Close()) }()
	if err := errors.Join(archiveJSON(archive, "cluster_metadata.json", cluster.UpdatedAt, cluster), archiveJSON(archive, "cluster_events.json", cluster.UpdatedAt, page.Events)); err != nil {
		return err
	}
	for _, name := range names {
		if err := s.archiveFile(archive, id, name); err != nil {
			return err
		}
	}
	return nil
}

func archiveJSON(archive *tar.Writer, name string, modified time.Time, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), ModTime: modified}); err != nil {
		return err
	}
	_, err = archive.Write(text)
	return err
}

func (s *Service) archiveFile(archive *tar.Writer, id, name string) error {
	file, info, err := s.Engine.OpenFile(id, name)
	if err != nil {
		return err
	}
	header := &tar.Header{Name: path.Base(name), Mode: 0o644, Size: info.Size, ModTime: info.Modified}
	if err := archive.WriteHeader(header); err != nil {
		return errors.Join(err, file.Close())
	}
	_, err = io.Copy(archive, file)
	return errors.Join(err, file.Close())
}
