package appliance_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/doctor"
	mirrorsite "landfall/appliance/mirror/site"
	ownregistry "landfall/appliance/registry"
	"landfall/appliance/release/trust"
	"landfall/appliance/settings"
	"landfall/appliance/simulate/registry"
	"landfall/web/console"
)

// bareSite is a site without a registry, a live ISO and mirror rules. All it has is a folder with
// an archive of oc-mirror.
type bareSite struct {
	*site
	folder string
}

const archiveName = "mirror_000001.tar"

func newBareSite(t *testing.T) *bareSite {
	t.Helper()
	b := &bareSite{site: newSite(t), folder: filepath.Join(t.TempDir(), "stick")}
	require.NoError(t, os.Mkdir(b.folder, 0o700))
	archive := &registry.Archive{}
	var err error
	b.release, err = archive.AddPayload(t.Context(), registry.Payload{})
	require.NoError(t, err)
	require.NoError(t, archive.AddCatalog(t.Context(), registry.Catalog{Index: "redhat-operator-index", Version: "4.20",
		Packages: []registry.CatalogPackage{{Name: "odf-operator", Images: []string{"registry.redhat.io/odf4"},
			Held: true}}}))
	require.NoError(t, archive.WriteFile(filepath.Join(b.folder, archiveName)))
	b.config.OSImages, b.config.ReleaseImages, b.config.Mirror.IDMSFiles = nil, nil, nil
	b.config.Egress.Allow = nil
	b.config.Registry.Listen, b.config.Registry.TLS = "127.0.0.1:0", false
	b.config.Registry.Media = []string{b.folder}
	return b
}

// readOnly makes the folder read-only until the test ends.
func (b *bareSite) readOnly(t *testing.T) {
	t.Helper()
	require.NoError(t, os.Chmod(filepath.Join(b.folder, archiveName), 0o400))
	require.NoError(t, os.Chmod(b.folder, 0o500))
	t.Cleanup(func() { require.NoError(t, os.Chmod(b.folder, 0o700)) })
}

// setupLines returns the lines of the first-run checklist by ID.
func setupLines(t *testing.T, address string) map[string]settings.Line {
	t.Helper()
	var setup settings.Setup
	call(t, http.MethodGet, address+"/api/landfall/v1/setup", nil).read(t, http.StatusOK, &setup)
	lines := map[string]settings.Line{}
	for _, line := range setup.Lines {
		lines[line.ID] = line
	}
	return lines
}

// requireServed waits until the release on the medium can be installed, without a person.
func requireServed(t *testing.T, address string) {
	t.Helper()
	eventually(t, "the release, its live ISO and the mirror rules appear by themselves", func() bool {
		lines := setupLines(t, address)
		for _, id := range []string{"release", "os-image", "mirror", "pull-secret"} {
			if lines[id].State != settings.StateDone {
				t.Log(lines[id])
				return false
			}
		}
		return true
	})
}

// registryHost returns the name of the registry in the mirror rules.
func registryHost(t *testing.T, address string) string {
	t.Helper()
	var model mirrorsite.Model
	call(t, http.MethodGet, address+mirrorPath, nil).read(t, http.StatusOK, &model)
	require.NotEmpty(t, model.Rules)
	host, _, _ := strings.Cut(model.Rules[0].Mirrors[0].Location, "/")
	return host
}

// requireAnswer waits until a URL has a status.
func requireAnswer(t *testing.T, url string, status int) {
	t.Helper()
	eventually(t, "the status of "+url, func() bool { return call(t, http.MethodGet, url, nil).status == status })
}

// TestRegistry_installsFromOneArchive installs a cluster from an archive on a read-only folder and
// an otherwise empty configuration, without another registry.
func TestRegistry_installsFromOneArchive(t *testing.T) {
	b := newBareSite(t)
	b.readOnly(t)
	address, _ := b.start(t)
	requireServed(t, address)
	id := b.readyCluster(t, address, "", "")
	require.Empty(t, dependents(t, address), "a cluster that is not installed yet pulls nothing")
	pressInstall(t, address, id)
	requireStatus(t, address, id, models.ClusterStatusInstalled)
	found := dependents(t, address)
	require.Len(t, found, 1)
	require.Equal(t, id, found[0].ID)
	require.Equal(t, models.ClusterStatusInstalled, found[0].Status)
	var status ownregistry.Status
	call(t, http.MethodGet, address+console.RegistryRoute, nil).read(t, http.StatusOK, &status)
	require.NotEmpty(t, status.Clients)
	require.Positive(t, status.SentBytes)
}

// TestRegistry_rehearsesFromOneArchive rehearses an installation at a site whose only registry is
// the appliance's, and has the doctor check the site.
func TestRegistry_rehearsesFromOneArchive(t *testing.T) {
	b := newBareSite(t)
	c := b.connect(t)
	requireServed(t, c.address)
	var report doctor.Report
	c.call(t, http.MethodGet, console.DoctorRoute, nil).read(t, http.StatusOK, &report)
	checked := 0
	for _, finding := range report.Findings {
		if finding.Area == doctor.Registries {
			checked++
			require.Equal(t, doctor.Green, finding.Status, finding)
		}
	}
	require.NotZero(t, checked)
	id := c.create(t, "/clusters", b.newCluster("stage"))
	rehearsed := c.rehearse(t, id, object{"control_planes": 1})
	require.Equal(t, "description proven, discovery image proven, hosts proven, mirror proven, openshift-install "+
		"proven, generated files proven, installation proven", stepsOf(rehearsed), rehearsed.Steps)
}

// dependents returns the clusters that pull from the appliance's registry.
func dependents(t *testing.T, address string) []ownregistry.Dependent {
	t.Helper()
	var status ownregistry.Status
	call(t, http.MethodGet, address+console.RegistryRoute, nil).read(t, http.StatusOK, &status)
	return status.Dependents
}

// TestRegistry_mediumReturnsDuringInstallation removes the stick before the installation is
// prepared. The preparation names it, and the next one succeeds when the stick is back.
func TestRegistry_mediumReturnsDuringInstallation(t *testing.T) {
	b := newBareSite(t)
	address, _ := b.start(t)
	requireServed(t, address)
	id := b.readyCluster(t, address, "", "")
	away := b.folder + "-away"
	require.NoError(t, os.Rename(b.folder, away))
	manifest := "http://" + registryHost(t, address) + "/v2/openshift/release-images/manifests/" + b.release.Digest
	requireAnswer(t, manifest, http.StatusServiceUnavailable)
	require.NoError(t, os.Rename(away, b.folder))
	requireAnswer(t, manifest, http.StatusOK)
	require.True(t, proveRelease(t, address, b.release.Version).Complete)
	pressInstall(t, address, id)
	requireStatus(t, address, id, models.ClusterStatusInstalled)
}

// TestRegistry_releaseOfMediumIsForgotten removes the permission of a release that the
// configuration named with its medium.
func TestRegistry_releaseOfMediumIsForgotten(t *testing.T) {
	b := newBareSite(t)
	address, _ := b.start(t)
	requireServed(t, address)
	listed := func() (releases []trust.Release) {
		var list trust.List
		call(t, http.MethodGet, address+console.ReleasesRoute, nil).read(t, http.StatusOK, &list)
		return list.Releases
	}
	before := listed()
	require.Len(t, before, 1)
	require.Equal(t, trust.SourceMedium, before[0].Source)
	require.Equal(t, b.folder, before[0].Path)
	require.Equal(t, "the configuration", before[0].By)
	require.False(t, before[0].At.IsZero())
	one := address + console.ReleasesRoute + "/" + b.release.Digest
	require.Equal(t, http.StatusNoContent, call(t, http.MethodDelete, one, nil).status)
	require.Empty(t, listed())
	require.Equal(t, http.StatusNotFound, call(t, http.MethodDelete, one, nil).status)
	call(t, http.MethodPost, address+console.RegistryRoute+"/media", object{"path": b.folder})
	require.Len(t, listed(), 1, "named again")
}
