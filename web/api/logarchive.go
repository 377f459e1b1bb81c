package api

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/access"
	"landfall/appliance/engine"
	"landfall/appliance/engine/event"
	"landfall/store"
)

// sendArchive sends an archive of all information about a cluster. Some programs read such
// archives, so the format is that of the Assisted Installer (internal/cluster,
// PrepareClusterLogFile). The tar archive contains cluster_metadata.json, cluster_events.json,
// cluster_manifest_<source>_<folder>_<name> for each manifest if the caller is an administrator,
// and controller_logs.tar.gz. For each host it contains <cluster>_<role>_<host>.tar with the
// archive of the host.
func (s *Service) sendArchive(c echo.Context, cluster *models.Cluster) (err error) {
	id := cluster.ID.String()
	page, err := s.Engine.Events(event.Filter{ClusterID: id})
	if err != nil {
		return err
	}
	var manifests []*models.Manifest
	if access.From(c.Request().Context()).Role >= access.Administrator { // manifests contain Secrets
		// System manifests exist after the first preparation of the cluster's installation.
		if manifests, err = s.Engine.Manifests(id, cluster.OpenshiftClusterID != ""); err != nil {
			return err
		}
	}
	names, err := s.Engine.FileNames(id, logFolder)
	if err != nil {
		return err
	}
	attach(c, cluster.Name+"_"+id+".tar")
	// API clients accept files of this type only.
	c.Response().Header().Set(echo.HeaderContentType, echo.MIMEOctetStream)
	archive := tar.NewWriter(c.Response())
	defer func() { err = errors.Join(err, archive.Close()) }()
	withoutSecrets(cluster)
	if err := archiveJSON(archive, "cluster_metadata.json", cluster.UpdatedAt, cluster); err != nil {
		return err
	}
	if err := archiveJSON(archive, "cluster_events.json", cluster.UpdatedAt, page.Events); err != nil {
		return err
	}
	for _, m := range manifests {
		if err := s.archiveManifest(archive, id, m); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := s.archiveLogs(archive, cluster, name); err != nil {
			return err
		}
	}
	return nil
}

// archiveManifest adds a manifest of a cluster to an archive.
func (s *Service) archiveManifest(archive *tar.Writer, clusterID string, m *models.Manifest) (err error) {
	file, info, err := s.Engine.OpenManifest(clusterID, engine.Manifest{Folder: m.Folder, Name: m.FileName})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return archiveFile(archive, "cluster_manifest_"+m.ManifestSource+"_"+m.Folder+"_"+m.FileName, info, file)
}

// archiveLogs adds the logs of the controller or of a host to an archive.
func (s *Service) archiveLogs(archive *tar.Writer, cluster *models.Cluster, name string) (err error) {
	file, info, err := s.Engine.OpenFile(cluster.ID.String(), name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if name == controllerLogs {
		return archiveFile(archive, "controller_logs"+logEnding, info, file)
	}
	base := archiveName(cluster, name)
	return archiveWithin(archive, base+".tar", base+logEnding, info, file)
}

// notInFileName matches the characters that must not occur in a file name.
var notInFileName = regexp.MustCompile(`[^a-z0-9.-]+`)

// archiveName returns the download name of the logs of a host or of the controller.
func archiveName(cluster *models.Cluster, name string) string {
	source := strings.TrimSuffix(strings.TrimPrefix(name, logFolder), logEnding)
	for _, h := range cluster.Hosts {
		if h.ID.String() != source {
			continue
		}
		role := string(h.Role)
		if h.Bootstrap {
			role = string(models.HostRoleBootstrap)
		}
		return cluster.Name + "_" + role + "_" + notInFileName.ReplaceAllString(strings.ToLower(h.RequestedHostname),
			"-")
	}
	return cluster.Name + "_" + cluster.ID.String() + "_" + source
}

func archiveJSON(archive *tar.Writer, name string, modified time.Time, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return archiveFile(archive, name, store.FileInfo{Size: int64(len(text)), Modified: modified},
		strings.NewReader(string(text)))
}

func archiveFile(archive *tar.Writer, name string, info store.FileInfo, content io.Reader) error {
	if err := archive.WriteHeader(archived(name, info)); err != nil {
		return err
	}
	_, err := io.Copy(archive, content)
	return err
}

func archived(name string, info store.FileInfo) *tar.Header {
	return &tar.Header{Name: name, Mode: 0o644, Size: info.Size, ModTime: info.Modified}
}

// archiveWithin adds an archive that contains one file. Before its content is written, it computes
// the size of the inner archive.
func archiveWithin(archive *tar.Writer, outer, inner string, info store.FileInfo, content io.Reader) error {
	var head length
	if err := tar.NewWriter(&head).WriteHeader(archived(inner, info)); err != nil {
		return err
	}
	const block = 512
	whole := info
	whole.Size = int64(head) + (info.Size+block-1)/block*block + 2*block // an archive ends with two empty blocks
	if err := archive.WriteHeader(archived(outer, whole)); err != nil {
		return err
	}
	within := tar.NewWriter(archive)
	if err := archiveFile(within, inner, info, content); err != nil {
		return err
	}
	return within.Close()
}

// length counts the bytes that are written to it.
type length int64

func (n *length) Write(p []byte) (int, error) {
	*n += length(len(p))
	return len(p), nil
}

// withoutSecrets removes the passwords of proxies, the overrides and the arguments of
// coreos-installer, which may contain secrets.
// Archives are sent to other people.
func withoutSecrets(cluster *models.Cluster) {
	hideProxyPasswords(cluster)
	cluster.InstallConfigOverrides = ""
	cluster.Hosts = slices.Clone(cluster.Hosts)
	for i, host := range cluster.Hosts {
		shown := *host
		shown.IgnitionConfigOverrides, shown.InstallerArgs = "", ""
		cluster.Hosts[i] = &shown
	}
}
