package appliance_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-openapi/runtime"
	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/client/installer"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

func (d *testAppliance) link(cluster strfmt.UUID, params installer.V2GetPresignedForClusterFilesParams) (
	string, error) {
	params.ClusterID = cluster
	signed, err := d.Installer.V2GetPresignedForClusterFiles(d.Context(), &params)
	if err != nil {
		return "", err
	}
	require.WithinDuration(d, time.Now().Add(10*time.Minute), time.Time(signed.Payload.ExpiresAt), time.Minute)
	return *signed.Payload.URL, nil
}

// with sets one query parameter of a URL.
func with(t *testing.T, address, name, value string) string {
	t.Helper()
	parsed, err := url.Parse(address)
	require.NoError(t, err)
	query := parsed.Query()
	query.Set(name, value)
	parsed.RawQuery = query.Encode()
	return parsed.String()
}

func TestInstallationFiles_directAndSignedLinks(t *testing.T) {
	d := startAppliance(t)
	ctx := t.Context()
	cluster := d.cluster()
	env := d.infraEnv(&cluster)
	credentials := func(cluster strfmt.UUID, name string) (string, error) {
		var content bytes.Buffer
		_, err := d.Installer.V2DownloadClusterCredentials(ctx,
			&installer.V2DownloadClusterCredentialsParams{ClusterID: cluster, FileName: name}, &content)
		return content.String(), err
	}
	signedCredentials := func(cluster strfmt.UUID, name string) (string, error) {
		signed, err := d.Installer.V2GetPresignedForClusterCredentials(ctx,
			&installer.V2GetPresignedForClusterCredentialsParams{ClusterID: cluster, FileName: name})
		if err != nil {
			return "", err
		}
		return *signed.Payload.URL, nil
	}
	file := func(cluster strfmt.UUID, name string) error {
		_, err := d.Installer.V2DownloadClusterFiles(ctx, &installer.V2DownloadClusterFilesParams{ClusterID: cluster,
			FileName: name}, io.Discard)
		return err
	}
	password := func(cluster strfmt.UUID) error {
		_, err := d.Installer.V2GetCredentials(ctx, &installer.V2GetCredentialsParams{ClusterID: cluster})
		return err
	}
	for _, expected := range []struct {
		id     strfmt.UUID
		status int
	}{{missingID(), 404}, {cluster, 409}} {
		_, err := credentials(expected.id, "kubeconfig")
		refused(t, err, expected.status)
		_, err = signedCredentials(expected.id, "kubeconfig")
		refused(t, err, expected.status)
		_, err = d.link(expected.id, installer.V2GetPresignedForClusterFilesParams{FileName: "bootstrap.ign"})
		refused(t, err, expected.status)
		refused(t, file(expected.id, "bootstrap.ign"), expected.status)
		refused(t, password(expected.id), expected.status)
	}
	_, err := d.link(cluster, installer.V2GetPresignedForClusterFilesParams{FileName: "passwd"})
	refused(t, err, 400)
	_, err = d.link(cluster, installer.V2GetPresignedForClusterFilesParams{FileName: "manifests"})
	refused(t, err, 400)
	requireRefusal(t, call(t, http.MethodGet, d.url+"/clusters/"+cluster.String()+
		"/downloads/files?file_name=../landfall.db", nil), 422, `"../landfall.db"`)
	requireRefusal(t, call(t, http.MethodGet, d.url+"/clusters/"+cluster.String()+"/downloads/files", nil), 422,
		"file_name in query is required")

	d.group(env, 1)
	d.until(cluster, models.ClusterStatusReady)
	_, err = d.Installer.V2InstallCluster(ctx, &installer.V2InstallClusterParams{ClusterID: cluster})
	require.NoError(t, err)
	d.until(cluster, models.ClusterStatusInstalled)

	kubeconfig, err := credentials(cluster, "kubeconfig")
	require.NoError(t, err)
	link, err := signedCredentials(cluster, "kubeconfig")
	require.NoError(t, err)
	got := call(t, http.MethodGet, link, nil)
	require.Equal(t, http.StatusOK, got.status)
	require.Equal(t, kubeconfig, string(got.body))
	_, err = d.addManifest(cluster, "openshift", "late.yaml", "a: 1")
	refused(t, err, 409)

	link, err = d.link(cluster, installer.V2GetPresignedForClusterFilesParams{FileName: "install-config.yaml"})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, call(t, http.MethodGet, link, nil).status)
	for name, altered := range map[string]string{
		"another file":  with(t, link, "file_name", "bootstrap.ign"),
		"a longer life": with(t, link, "expires", "99999999999"),
		"a signature":   with(t, link, "signature", "AAAA"),
		"another path":  strings.Replace(link, "downloads/files", "downloads/credentials", 1),
	} {
		answer := call(t, http.MethodGet, altered, nil)
		if name == "another path" {
			require.Equal(t, 422, answer.status)
			continue
		}
		requireRefusal(t, answer, http.StatusForbidden, "signature is invalid")
	}
}

func (d *testAppliance) uploadLogs(cluster strfmt.UUID, kind string, host *strfmt.UUID, content string) error {
	_, err := d.Installer.V2UploadLogs(d.Context(), &installer.V2UploadLogsParams{
		ClusterID: cluster, LogsType: kind, HostID: host, Upfile: runtime.NamedReader("upfile",
			strings.NewReader(content)),
	})
	return err
}

func (d *testAppliance) downloadLogs(cluster strfmt.UUID, kind string, host *strfmt.UUID) (string, error) {
	var content bytes.Buffer
	_, err := d.Installer.V2DownloadClusterLogs(d.Context(), &installer.V2DownloadClusterLogsParams{ClusterID: cluster,
		LogsType: &kind, HostID: host}, &content)
	return content.String(), err
}

func TestLogs_uploadAndDownload(t *testing.T) {
	d := startAppliance(t)
	cluster := d.cluster()
	env := d.infraEnv(&cluster)
	host, silent, stranger := d.host(env), d.host(env), missingID()
	all, err := d.downloadLogs(cluster, "all", &host)
	require.NoError(t, err)
	require.Subset(t, slices.Collect(maps.Keys(filesInArchive(t, all))), []string{"cluster_metadata.json",
		"cluster_events.json"}, "the events are available before the logs")
	_, err = d.downloadLogs(cluster, "controller", nil)
	refused(t, err, 409)

	require.NoError(t, d.uploadLogs(cluster, "host", &host, "of the host"))
	require.NoError(t, d.uploadLogs(cluster, "controller", nil, "of the controller"))
	refused(t, d.uploadLogs(cluster, "host", &stranger, "x"), 404)
	refused(t, d.uploadLogs(missingID(), "controller", nil, "x"), 404)
	require.ErrorContains(t, d.uploadLogs(cluster, "host", nil, "x"), "status 400")
	got, err := d.downloadLogs(cluster, "host", &host)
	require.NoError(t, err)
	require.Equal(t, "of the host", got)
	got, err = d.downloadLogs(cluster, "controller", nil)
	require.NoError(t, err)
	require.Equal(t, "of the controller", got)
	_, err = d.downloadLogs(cluster, "host", &silent)
	refused(t, err, 409)
	_, err = d.downloadLogs(cluster, "host", &stranger)
	refused(t, err, 404)
	_, err = d.downloadLogs(missingID(), "all", nil)
	refused(t, err, 404)
	requireRefusal(t, call(t, http.MethodGet, d.url+"/clusters/"+cluster.String()+"/logs?logs_type=host", nil),
		400, "host_id")
	requireRefusal(t, call(t, http.MethodGet, d.url+"/clusters/"+cluster.String()+"/logs?logs_type=secret", nil),
		422, "logs_type")

	_, err = d.addManifest(cluster, "openshift", "a.yaml", "a: 1")
	require.NoError(t, err)
	all, err = d.downloadLogs(cluster, "all", nil)
	require.NoError(t, err)
	files := filesInArchive(t, all)
	name := d.get(cluster).Name + "_master_" + host.String() // the role from the registration
	require.Equal(t, []string{
		"cluster_events.json", "cluster_manifest_user_openshift_a.yaml", "cluster_metadata.json",
		"controller_logs.tar.gz", name + ".tar",
	}, slices.Sorted(maps.Keys(files)))
	require.Equal(t, "of the controller", files["controller_logs.tar.gz"])
	require.Equal(t, "a: 1", files["cluster_manifest_user_openshift_a.yaml"])
	require.Equal(t, map[string]string{name + ".tar.gz": "of the host"}, filesInArchive(t, files[name+".tar"]))
	require.NotContains(t, all, "pull_secret\"")
	link, err := d.link(cluster, installer.V2GetPresignedForClusterFilesParams{FileName: "logs", HostID: &host})
	require.NoError(t, err)
	require.Equal(t, "of the host", string(call(t, http.MethodGet, link, nil).body))
	requireRefusal(t, call(t, http.MethodGet, with(t, link, "host_id", silent.String()), nil), 403,
		"signature is invalid")
	_, err = d.link(cluster, installer.V2GetPresignedForClusterFilesParams{FileName: "logs", HostID: &silent})
	refused(t, err, 409)
	link, err = d.link(cluster, installer.V2GetPresignedForClusterFilesParams{FileName: "manifests",
		AdditionalName: conv.Pointer("openshift/a.yaml")})
	require.NoError(t, err)
	require.Equal(t, "a: 1", string(call(t, http.MethodGet, link, nil).body))
}

// filesInArchive returns the contents of an archive's files by name.
func filesInArchive(t *testing.T, content string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	for archive := tar.NewReader(strings.NewReader(content)); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		text, err := io.ReadAll(archive)
		require.NoError(t, err)
		files[header.Name] = string(text)
	}
}
