package appliance_test

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/coreos/ignition/v2/config/v3_2"
	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/client/installer"
	"github.com/openshift/assisted-service/client/manifests"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
	"github.com/vincent-petithory/dataurl"

	"landfall/appliance/simulate"
)

// group boots hosts from an infra-env's image. They run until the test ends.
func (d *testAppliance) group(env strfmt.UUID, count int) {
	d.Helper()
	d.startHostsAt(1000, env, count)
}

func (d *testAppliance) startHostsAt(speed float64, env strfmt.UUID, count int) {
	d.Helper()
	group := &simulate.HostGroup{URL: d.address, InfraEnvID: env.String(), Count: count, Speed: speed,
		KeepFailed: true, HTTP: d.trusted, Token: d.token, Spokes: d.site.spokes}
	ended := make(chan error, 1)
	ctx := d.Context()
	go func() { ended <- group.Run(ctx) }()
	d.Cleanup(func() { <-ended }) // the context has ended by now
}

// until waits for a status of a cluster.
func (d *testAppliance) until(cluster strfmt.UUID, status string) *models.Cluster {
	d.Helper()
	var got *models.Cluster
	eventually(d.T, "the cluster is "+status, func() bool {
		got = d.get(cluster)
		return *got.Status == status
	})
	return got
}

// files returns the files in an ignition config of a cluster by path.
func (d *testAppliance) files(cluster strfmt.UUID, name string) map[string]string {
	d.Helper()
	var text bytes.Buffer
	_, err := d.Installer.V2DownloadClusterFiles(d.Context(),
		&installer.V2DownloadClusterFilesParams{ClusterID: cluster, FileName: name}, &text)
	require.NoError(d, err)
	config, report, err := v3_2.ParseCompatibleVersion(text.Bytes())
	require.NoError(d, err, report)
	files := make(map[string]string)
	for _, file := range config.Storage.Files {
		if file.Contents.Source == nil {
			continue
		}
		content, err := dataurl.DecodeString(*file.Contents.Source)
		require.NoError(d, err)
		files[file.Path] = string(content.Data)
	}
	return files
}

func TestInstallation_usesCustomizations(t *testing.T) {
	d := startAppliance(t)
	cluster := d.cluster()
	env := d.infraEnv(&cluster)
	for name, content := range map[string]string{
		"99-kernel-arguments.yaml":               kernelArguments,
		"cluster-scheduler-02-config.yml.patch":  "- {op: add, path: /spec/defaultNodeSelector, value: zone=edge}\n",
		"99-kernel-arguments.yaml.patch_2_quiet": `[{"op": "add", "path": "/spec/kernelArguments/-", "value": "quiet"}]`,
	} {
		_, err := d.addManifest(cluster, "openshift", name, content)
		require.NoError(t, err)
	}
	d.group(env, 1)
	d.until(cluster, models.ClusterStatusReady)
	_, err := d.Installer.V2InstallCluster(t.Context(), &installer.V2InstallClusterParams{ClusterID: cluster})
	require.NoError(t, err)

	_, err = d.addManifest(cluster, "openshift", "late.yaml", "a: 1")
	refused(t, err, http.StatusConflict)
	late := &models.UpdateManifestParams{Folder: "openshift", FileName: "99-kernel-arguments.yaml",
		UpdatedContent: encoded("a: 1")}
	_, err = d.Manifests.V2UpdateClusterManifest(t.Context(),
		&manifests.V2UpdateClusterManifestParams{ClusterID: cluster, UpdateManifestParams: late})
	refused(t, err, http.StatusBadRequest)
	requireRefusal(t, call(t, http.MethodDelete, d.url+"/clusters/"+cluster.String()+"/manifests?file_name=a.yaml",
		nil),
		400, "only be changed before its installation")

	d.until(cluster, models.ClusterStatusInstalled)
	bootstrap := d.files(cluster, "bootstrap.ign")
	require.Contains(t, bootstrap["/opt/openshift/openshift/99-kernel-arguments.yaml"], "- quiet")
	require.Contains(t, bootstrap["/opt/openshift/manifests/cluster-scheduler-02-config.yml"],
		"defaultNodeSelector: zone=edge")
	for path := range bootstrap {
		require.NotContains(t, path, ".patch")
	}
}
