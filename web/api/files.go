package api

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"

	"landfall/store"
	"landfall/web/problem"
)

// Files of a cluster that the API hands out, by the operation that does.
var (
	credentialFiles = []string{"kubeconfig", "kubeconfig-noingress", "kubeadmin-password"}
	clusterFiles    = []string{"bootstrap.ign", "master.ign", "worker.ign", "arbiter.ign", "metadata.json", "install-config.yaml", "custom_manifests.json", "custom_manifests.yaml"}
	hostFile        = regexp.MustCompile(`^(master|worker|arbiter)-[0-9a-f-]{36}\.ign$`)
)

// attach names the file that an answer is to be saved as: always in quotes, for the browser application looks for them.
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

func (s *Service) sendFile(c echo.Context, allowed func(string) bool) error {
	name := c.QueryParam("file_name")
	if !allowed(name) {
		return problem.BadRequest("there is no file %q to download here", name)
	}
	file, info, err := s.Engine.OpenFile(clusterID(c), name)
	if err != nil {
		return err
	}
	return send(c, name, file, info)
}

func isCredential(name string) bool { return slices.Contains(credentialFiles, name) }

func isClusterFile(name string) bool {
	return slices.Contains(clusterFiles, name) || hostFile.MatchString(name)
}

func (s *Service) downloadCredentials(c echo.Context) error { return s.sendFile(c, isCredential) }
func (s *Service) downloadFile(c echo.Context) error        { return s.sendFile(c, isClusterFile) }

// presigned answers with the URL of a download: nothing needs to be signed, the file is here.
func (s *Service) presigned(c echo.Context, operation string, allowed func(string) bool) error {
	name := c.QueryParam("file_name")
	if !allowed(name) {
		return problem.BadRequest("there is no file %q to download here", name)
	}
	if _, err := s.Engine.Cluster(clusterID(c)); err != nil {
		return err
	}
	address := s.Engine.URL + BasePath + "/v2/clusters/" + clusterID(c) + "/downloads/" + operation + "?file_name=" + url.QueryEscape(name)
	return c.JSON(http.StatusOK, &models.PresignedURL{URL: &address, ExpiresAt: strfmt.DateTime(time.Time{})})
}

func (s *Service) presignedCredentials(c echo.Context) error {
	return s.presigned(c, "credentials", isCredential)
}

func (s *Service) presignedFile(c echo.Context) error { return s.presigned(c, "files", isClusterFile) }

// uploadLogs takes a log archive from a host or from the controller, as a form's file "upfile".
func (s *Service) uploadLogs(c echo.Context) error {
	upload, err := logUpload(c.Request())
	if err != nil {
		return err
	}
	switch kind := c.QueryParam("logs_type"); kind {
	case string(models.LogsTypeHost), "":
		id := c.QueryParam("host_id")
		if id == "" {
			return problem.BadRequest("logs of a host are sent with its host_id")
		}
		return done(c, s.Engine.HostLogs(c.Request().Context(), clusterID(c), id, upload))
	case string(models.LogsTypeController):
		return done(c, s.Engine.ControllerLogs(c.Request().Context(), clusterID(c), upload))
	default:
		return problem.BadRequest("the parameter logs_type is %q; it takes host or controller", kind)
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
			return part, nil
		}
	}
}

// downloadLogs answers with the logs of one host, of the controller, or of all in one archive.
func (s *Service) downloadLogs(c echo.Context) error {
	id := clusterID(c)
	switch kind := c.QueryParam("logs_type"); kind {
	case string(models.LogsTypeController):
		return s.sendLogs(c, "controller")
	case string(models.LogsTypeHost):
		return s.sendLogs(c, c.QueryParam("host_id"))
	case "", string(models.LogsTypeAll):
		names, err := s.Engine.FileNames(id, "logs/")
		if err != nil {
			return err
		}
		if len(names) == 0 {
			return problem.NotFound("no logs of cluster %s were collected yet", id)
		}
		return s.sendArchive(c, id, names)
	default:
		return problem.BadRequest("the parameter logs_type is %q; it takes host, controller or all", kind)
	}
}

func (s *Service) sendLogs(c echo.Context, name string) error {
	file, info, err := s.Engine.OpenFile(clusterID(c), "logs/"+name+".tar.gz")
	if err != nil {
		return err
	}
	return send(c, "logs_"+name+".tar.gz", file, info)
}

func (s *Service) sendArchive(c echo.Context, id string, names []string) (err error) {
	attach(c, "logs_"+id+".tar.gz")
	c.Response().Header().Set(echo.HeaderContentType, "application/gzip")
	packed := gzip.NewWriter(c.Response())
	archive := tar.NewWriter(packed)
	defer func() { err = errors.Join(err, archive.Close(), packed.Close()) }()
	for _, name := range names {
		if err := s.archiveFile(archive, id, name); err != nil {
			return err
		}
	}
	return nil
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
